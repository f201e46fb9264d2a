"""What is in the tables, as plain data: what the runner shows."""

import saltext.package_states.model.item as items
import saltext.package_states.status.page as pages
import saltext.package_states.status.rows as statuses
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Assignment, Fleet
from saltext.package_states.errors import Unclear
from saltext.package_states.store import offers, refresh


def states(opts):
    """Return all states by name, but for those that were emptied and apply to nothing"""
    with store.reading(opts) as connection:
        known = store.states(connection)
        newest = store.newest(connection, [one.id for one in known])
        fleet = Fleet(opts, connection)
    found = {}
    for one in known:
        revision, assigned = newest[one.id], _assigned(fleet, one)
        if assigned or revision.items or not revision.number:
            found[one.name] = {
                "own": one.own,
                "revision": revision.number,
                "packages": len(revision.items),
                "assigned": assigned,
            }
    return found


def _assigned(fleet, where):
    return [
        f"{entry.level} {entry.target} (priority {entry.priority})"
        for entry in fleet.assigned(where)
    ]


def state(opts, name, revision=None, against=None):
    with store.reading(opts) as connection:
        where = store.state(connection, name)
        found = store.revision(connection, where, revision)
        assigned = _assigned(Fleet(opts, connection), where)
        shown = {
            "state": name,
            "own": where.own,
            "revision": found.number,
            "author": found.author,
            "comment": found.comment,
            "created": found.created,
            "assigned": assigned,
            "packages": {entry.key: items.show(entry) for entry in found.items},
        }
        if against is not None:
            old = store.revision(connection, where, against)
            shown["changes"] = items.between(old.items, found.items)
    return shown


def history(opts, name=None, size=100, author=None, day=None):
    """Return what became of a state, or of all that apply to a minion or once did, the oldest first;
    without a name, the last changes of all states, the newest first; only those of an author or a day
    """
    pages.numbers(1, size)
    day = "" if day is None else store.day(str(day))
    with store.reading(opts) as connection:
        known = {where.id: where.name for where in store.states(connection)}
        if name is None:
            most = None if author or day else size
            rows = store.changes(connection, known, most)[::-1]
        else:
            ids = [number for number, other in known.items() if other == name]
            fleet, mine = Fleet(opts, connection), {str(name)}
            for minion in fleet.minions(mine).values():
                # also those that were unassigned or deleted since
                for state, kind, target in store.targets(connection):
                    entry = Assignment(state, "", kind, target, "", 0)
                    ids += [state] if fleet.applies(entry, minion) else []
            # says that there is none
            ids = ids or [store.state(connection, name).id]
            rows = store.changes(connection, ids)
    found = []
    for number, revision, parent, entries, before, *others in rows:
        *assigned, who, why, when = others
        if (author and author not in who.split(" for ")) or not when.startswith(day):
            continue
        row = {"state": known[number], "author": who, "comment": why, "created": when}
        kind, target, priority = assigned
        if kind == store.RENAMED:
            row.update(change="renamed", old=target)
        elif revision is None:
            change = "unassigned" if priority is None else "assigned"
            row.update(change=change, kind=kind, target=target, priority=priority)
        else:
            row.update(
                change="saved",
                revision=revision,
                parent=parent,
                packages=len(entries),
                changes=items.between(before, entries),
            )
        found.append(row)
    return found[:size] if name is None else found


def status(service, minion, table=True):
    """Return what is wanted on a minion, why, and what is there, as data or a table"""
    with store.reading(service.opts) as connection:
        fleet = Fleet(service.opts, connection)
        one = fleet.minion(minion)
        sources = fleet.sources({minion: one})[minion]
        verdicts, trouble = fleet.possible(one, sources)
        sent = refresh.sent(connection, minion)
        current, halt = service.is_current(fleet, one)
        entries = [verdict.item for verdict in verdicts]
        unknown = offers.unknown(connection, {minion: one}, entries)
    rows = statuses.rows(verdicts, one.platform, sent.packages, unknown)
    # without a key, nothing can be decided at all
    for key, exc in trouble.items() if "" not in trouble else ():
        there = ", ".join(sent.packages.get(key, {}).get("versions", ()))
        rows += (
            statuses.Row(key, "", "", "Undecided", "", "", (), there, False, str(exc)),
        )
    held, unlocked = statuses.holds(verdicts, sent.packages, rows)
    drift = [
        {field: getattr(row, field) for field in statuses.DRIFT}
        for row in rows
        if not row.consistent
    ]
    found = {
        "minion": minion,
        "consistent": not (drift or trouble),
        "managed": len(rows),
        "drift": drift,
        "platform": one.platform,
        "current": current,
        "refreshed": sent.refreshed,
        "errors": {key: str(exc) for key, exc in {**halt, **trouble}.items()},
        "held": held,
        "unlocked": unlocked if sent.packages else [],
        "held_by_others": [
            key
            for key in sorted({*held, *(row.package for row in rows)})
            if sent.packages.get(key, {}).get("held_by_others")
        ],
        "security": sent.security,
        "security_locked": statuses.frozen(rows, sent.security),
        "rows": [row._asdict() for row in rows],
    }
    unclear = isinstance(trouble.get(""), Unclear) and str(trouble[""])
    if unclear or sent.behind:
        found.update(consistent=None, pending=sent.behind or unclear)
    return statuses.people(found, rows) if table else found
