"""
What is in the tables, as plain data: what the runner shows.
"""

import saltext.package_states.difference as difference
import saltext.package_states.generations as wanted
import saltext.package_states.refresh as refresh
import saltext.package_states.stages as staged
import saltext.package_states.status as statuses
import saltext.package_states.store as store
import saltext.package_states.transfer as transfer
from saltext.package_states.fleet import Fleet


def states(opts):
    """
    Return all states by name, with their newest revision and their assignments

    :param dict opts: the options of the master
    """
    with store.reading(opts) as connection:
        known = store.states(connection)
        newest = store.newest(connection, [one.id for one in known])
        fleet = Fleet(opts, connection)
        found = _in_force(connection, fleet, known, newest)
    return {
        one.name: {
            "own": one.own,
            "revision": newest[one.id].number,
            **found[one.id],
            "packages": len(newest[one.id].items),
            "assigned": _assigned(fleet.assignments, one, fleet.stages),
        }
        for one in known
    }


def _in_force(connection, fleet, known, newest):
    """
    Return which revisions of states are in force, by the id of the state and the name of
    the stage, if there are stages
    """
    found = {where.id: {} for where in known}
    for stage in fleet.stages:
        there = newest
        if stage != fleet.stages[0]:
            there = staged.in_force(connection, found, stage)
        for one, stages_ in found.items():
            stages_.setdefault("stages", {})[stage] = there[one].number
    return found


def _assigned(assignments, where, known=()):
    return [
        f"{entry.level} {entry.target} (priority {entry.priority}"
        f"{f', stage {known[entry.stage]}' if known else ''})"
        for entry in assignments
        if entry.state == where.id
    ]


def stages(opts):
    """
    Return the names of the stages in their order

    :param dict opts: the options of the master
    """
    with store.reading(opts) as connection:
        return staged.listed(connection)


def stage_history(opts):
    """
    Return which stages there were from when on, the oldest first

    :param dict opts: the options of the master
    """
    with store.reading(opts) as connection:
        rows = staged.changes(connection)
    return [
        {
            "stages": names.split(",") if names else [],
            "author": author,
            "comment": comment,
            "created": created,
        }
        for names, author, comment, created in rows
    ]


def state(opts, name, revision=None, stage=None):
    """
    Return the entries of a state, and to whom it is assigned

    :param dict opts: the options of the master
    :param str name: that of the state
    :param revision: the number of one of its revisions, None for the newest
    :param str stage: instead of that, the stage in which it is in force
    """
    with store.reading(opts) as connection:
        where = store.state(connection, name)
        fleet = Fleet(opts, connection)
        found = store.chosen(connection, where, revision)
        newest = store.newest(connection, [where.id])
        force = _in_force(connection, fleet, [where], newest)[where.id]
        if staged.place(fleet.stages, stage):
            found = staged.in_force(connection, [where.id], stage)[where.id]
        assigned = _assigned(fleet.assignments, where, fleet.stages)
    return {
        "state": name,
        "own": where.own,
        "revision": found.number,
        **force,
        "author": found.author,
        "comment": found.comment,
        "created": found.created,
        "assigned": assigned,
        "packages": {entry.key: difference.show(entry) for entry in found.items},
    }


def changes(opts, name, old, new=None):
    """
    Return what two revisions of a state differ in

    :param dict opts: the options of the master
    :param str name: that of the state
    :param old: the number of a revision, 0 for the empty state
    :param new: the same, None for the newest
    """
    with store.reading(opts) as connection:
        where = store.state(connection, name)
        one = store.revision(connection, where, old)
        two = store.chosen(connection, where, new)
    return difference.between(one.items, two.items)


def history(opts, name):
    """
    Return the revisions of a state, the oldest first

    :param dict opts: the options of the master
    :param str name: that of the state
    """
    with store.reading(opts) as connection:
        found = store.history(connection, store.state(connection, name))
    return [
        {
            "revision": entry.number,
            "contents": entry.contents,
            "parent": entry.parent,
            "author": entry.author,
            "comment": entry.comment,
            "created": entry.created,
            "packages": len(entry.items),
        }
        for entry in found
    ]


def assignments(opts, name):
    """
    Return what became of the assignments of a state, the oldest first

    :param dict opts: the options of the master
    :param str name: that of the state
    """
    with store.reading(opts) as connection:
        found = store.assignment_history(connection, store.state(connection, name))
    return [
        {
            "kind": kind,
            "target": target,
            "priority": priority,
            "change": "unassigned" if priority is None else "assigned",
            "author": author,
            "comment": comment,
            "created": created,
            **({"stage": stage} if stage else {}),
        }
        for kind, target, priority, author, comment, created, stage in found
    ]


def generations(opts, minion):
    """
    Return what was wanted on a minion from when on, the oldest first

    :param dict opts: the options of the master
    :param str minion: its id
    """
    with store.reading(opts) as connection:
        Fleet(opts, connection).minion(minion)
        found = wanted.listed(connection, minion)
    rows, before = [], ()
    for one in found:
        rows.append(
            {
                "generation": one.number,
                "author": one.author,
                "comment": one.comment,
                "created": one.created,
                "packages": len(one.items),
                "changes": difference.between(before, one.items),
            }
        )
        before = one.items
    return rows


def export(opts, name, path, revision=None):
    """
    Write a state to a file

    :param dict opts: the options of the master
    :param str name: that of the state
    :param str path: that of the file
    :param revision: the number of one of its revisions, None for the newest
    """
    with store.reading(opts) as connection:
        found = store.chosen(connection, store.state(connection, name), revision)
    transfer.write(path, transfer.dump(found.items))
    return {
        "state": name,
        "revision": found.number,
        "path": path,
        "packages": len(found.items),
    }


def verdicts(service, minion):
    """
    Return what is wanted of each package of a minion, and why

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str minion: its id
    """
    text, there = service.current(minion)
    with store.reading(service.opts) as connection:
        fleet = Fleet(service.opts, connection)
        found = fleet.minion(minion)
        rows, trouble = fleet.possible(found, fleet.sources({minion: found})[minion])
        stage = {"stage": fleet.stage(found)} if fleet.stages else {}
    return {
        "minion": minion,
        **stage,
        "platform": found.platform,
        "current": text == there,
        "packages": {
            row.item.key: {
                "wanted": difference.show(row.item),
                "source": row.source.label,
                "overruled": list(row.overruled),
            }
            for row in rows
        },
        "errors": {key: str(exc) for key, exc in trouble.items()},
    }


def status(opts, minion, table=True):
    """
    Return what is wanted on a minion, why, and what is there

    :param dict opts: the options of the master
    :param str minion: its id
    :param bool table: a table for people, or else data
    """
    found = refresh.rows(opts, minion)
    summary = statuses.summary(minion, found)
    security = refresh.security(opts, minion)
    if not table:
        rows = [row._asdict() for row in found]
        return {**summary, "security": security, "rows": rows}
    drift = len(summary["drift"])
    end = (
        "consistent"
        if summary["consistent"]
        else f"inconsistent: {drift} of {len(found)} drifted"
    )
    return (
        f"{statuses.table(found)}\n\n{minion} is {end}.\n"
        f"{statuses.security(found, security)}"
    )
