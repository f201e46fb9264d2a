"""The status of a fleet, counted and in pages.

Whether a minion is as it should be is worked out when it sends its packages, and when somebody asks
after a change of what is wanted, and kept: a page of ten thousand minions reads nothing but that.
"""

import saltext.package_states.model.condition as condition
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
import saltext.package_states.status.rows as status
import saltext.package_states.store.refresh as refresh
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, Unclear
from saltext.package_states.model.decision import IMPOSSIBLE, REMOVE, decide, word
from saltext.package_states.model.resolver import GROUP
from saltext.package_states.store import offers

CONSISTENT = "consistent"
DRIFTING = "drifting"
#: what is wanted, or what the minion has, has changed since, and is not compared yet
PENDING = "pending"
#: it was heard, but not for long
SILENT = "silent"
NEVER = "never heard"
VERDICTS = (CONSISTENT, DRIFTING, PENDING, SILENT, NEVER)
#: minions that lack security updates, and those with holds that no state asks for
SECURITY, HELD = "security", "held"
# seconds after which a minion is silent, without the option ``silent_after``
WEEK = 7 * 86400
# the most minions that are compared while somebody waits
AT_ONCE = 200
MOST = 10000
# what is kept as the number of drifted packages of a minion whose states are not known
UNCLEAR = -1
NO_GRAINS = "grains not known"
# of how many minions a dry run says what would change, and of how many packages of each
SHOWN = 20


def _compared(connection, fleet, ids):
    """Yield minions beside what is wanted of them: id, rows, and what can't be decided by package"""
    minions = fleet.minions(sorted(ids))
    sources = fleet.sources(minions)
    for name, minion in minions.items():
        verdicts, trouble = fleet.possible(minion, sources[name])
        keys = [verdict.item.key for verdict in verdicts]
        there = store.packages(connection, [name], keys).get(name, {})
        try:
            rows = status.rows(verdicts, minion.platform, there)
        except Exception as exc:  # pylint: disable=broad-except
            # what one minion sent must not hide the others
            rows, trouble = (), {**trouble, "": names.line(exc)}
        yield name, rows, trouble


def work_out(connection, fleet, sent):
    """Compare minions with what is wanted, and keep the result"""
    found = []
    for name, rows, trouble in _compared(connection, fleet, sent):
        drifted = sum(not row.consistent for row in rows) + len(trouble)
        if any(isinstance(one, Unclear) for one in trouble.values()):
            drifted = UNCLEAR
        error = " ".join(map(str, trouble.values()))[:2000]
        managed = len(rows) + len(trouble)
        found.append((name, sent[name], managed, drifted, error))
    refresh.keep(connection, found)


def _reasons(connection, fleet, rows):
    """Say in rows of a page why the first of these minions drift, by what is first"""
    first = {row["minion"]: row for row in rows[:AT_ONCE]}
    for name, there, trouble in _compared(connection, fleet, first):
        why = [f"{row.package}: {row.reason}" for row in there if not row.consistent]
        why = [*map(str, trouble.values()), *why] or ["nothing, since a moment ago"]
        more = f", and {len(why) - 1} more" if why[1:] else ""
        first[name]["reason"] = f"{why[0]}{more}"


def due(opts, fleet, minions, before, after, most=SHOWN):
    """Return how many minions are not as other sources want them, by what they sent, and what is to be done
    on the first of them
    """
    numbers(1, most)
    fresh, freed, keys = {}, {}, set()
    for name, minion in minions.items():
        old = {verdict.item for verdict in fleet.possible(minion, before[name])[0]}
        new, trouble = fleet.possible(minion, after[name])
        fresh[name] = [verdict for verdict in new if verdict.item not in old]
        locked = status.locking(one.item for one in new)
        freed[name] = status.locking(old) - locked - trouble.keys()
        keys.update(freed[name], (verdict.item.key for verdict in fresh[name]))
    with store.reading(opts) as connection:
        lists = store.packages(connection, minions, keys)
        sets, told = offers.versions(connection, lists, keys)
    wrong, known = {}, {}
    for name, there in lists.items():
        digests, manager = sets.get(name, frozenset()), minions[name].platform
        if digests not in known:
            offered = offers.merged(told, digests)
            known[digests] = {key: {"available": some} for key, some in offered.items()}
        there = {**known[digests], **there}
        rows = status.rows(fresh[name], manager, there)
        entries = {verdict.item.key: verdict.item for verdict in fresh[name]}
        what = {
            row.package: _due(row, entries[row.package], manager, there, digests)
            for row in rows
            if not row.consistent
        }
        for key in status.holds(fresh[name], there, rows)[1]:
            what[key] = "its lock would be set"
        for key in freed[name]:
            if there.get(key, {}).get("held"):
                what.setdefault(key, "its lock would go")
        if what:
            wrong[name] = what
    total, sent = len(minions), len(lists)
    counts = {"minions": total, "to change": len(wrong), "not known": total - sent}
    first = dict(sorted(wrong.items())[:most])
    changing = {name: dict([*some.items()][:most]) for name, some in first.items()}
    left = {
        "minions": len(wrong) - len(first),
        "packages": sum(map(len, first.values())) - sum(map(len, changing.values())),
    }
    if any(left.values()):
        longest = max(len(wrong), *map(len, wrong.values()))
        left["hint"] = f"dry_run={longest} shows all."
    return {
        "counts": counts,
        "changing": changing,
        **({"not shown": left} if "hint" in left else {}),
    }


def _due(row, item, manager, there, digests):
    """Return what is to be done with a package: in the words of a minion, if it is known what it can get"""
    facts = status.facts(item, manager, there, status.foreign(there))
    decision = decide(item, facts)
    what = f"{row.verdict}; {row.reason}"
    if digests and decision.action == IMPOSSIBLE:
        what = f"{IMPOSSIBLE}: {decision.reason}"
    elif digests:
        what = f"{word(manager, decision, facts.installed)} {decision.version}: {what}"
    allowed = [
        one
        for one in facts.available
        if not condition.meets(manager, one, item.condition)
    ]
    if decision.action == REMOVE and item.condition and allowed:
        newest = versions.newest(manager, allowed)
        what += f"; it is removed, and not replaced by {newest}: present with a condition does that"
    return what


def numbers(number, size):
    for value, kind, most in ((number, "page", 2**31), (size, "size", MOST)):
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not 0 < value <= most
        ):
            raise InvalidInput(f"The {kind} must be a whole number from 1 to {most}.")


def cut(rows, number, size):
    """Return a page of rows, with its number and how many pages there are"""
    begin = (number - 1) * size
    return {**of(len(rows), number, size), "minions": rows[begin : begin + size]}


def of(total, number, size):
    return {"page": number, "pages": max(1, -(-total // size))}


def page(opts, group=None, only=None, number=1, size=100):
    """Return the counts of each verdict, and a page of all minions or some, as plain data"""
    numbers(number, size)
    if only not in (None, *VERDICTS, SECURITY, HELD):
        raise InvalidInput(
            f"There is no verdict {only!r}; use one of {', '.join(VERDICTS)}, {SECURITY} or"
            f" {HELD}."
        )
    silent = (opts.get("package_states") or {}).get("silent_after", WEEK)
    with store.reading(opts) as connection:
        # what somebody is just saving would be compared as it was before
        with store.quiet(connection) as alone:
            fleet = Fleet(opts, connection)
            ids = members(fleet, group)
            stale = refresh.stale(connection, ids, AT_ONCE) if alone else {}
            if stale:
                work_out(connection, fleet, stale)
        held = _held(connection, fleet, ids) if only == HELD else {}
        rows = [
            _row(row, silent, held.get(row[0]))
            for row in refresh.statuses(connection, ids)
        ]
        chosen = [
            row
            for row in rows
            if only in (None, row["verdict"])
            or (only in (SECURITY, HELD) and only in row)
        ]
        found = cut(chosen, number, size)
        if only == DRIFTING:
            _reasons(connection, fleet, found["minions"])
    counts = dict.fromkeys(VERDICTS, 0)
    for row in rows:
        counts[row["verdict"]] += 1
    hint = _hint(rows, alone)
    return {
        "counts": {"minions": len(rows), **counts},
        **({"hint": hint} if hint else {}),
        "security": sum("security" in row for row in rows),
        **found,
    }


def _held(connection, fleet, ids):
    """Return the packages that minions hold or lock though no state asks for it, lists by id"""
    sent = refresh.held(connection, ids)
    minions = fleet.minions(sorted(sent))
    sources, found = fleet.sources(minions), {}
    for name, minion in minions.items():
        verdicts, _ = fleet.possible(minion, sources[name])
        found[name] = sorted(
            set(sent[name]) - status.locking(one.item for one in verdicts)
        )
    return {name: keys for name, keys in found.items() if keys}


def _hint(rows, alone):
    """Return why minions are pending, and what to do; None if there is nothing to do"""
    some = [row for row in rows if row["verdict"] == PENDING]
    if not some:
        return None
    lost = [row["minion"] for row in some if NO_GRAINS in row.get("pending", "")]
    if lost:
        return (
            f"Of {len(lost)} minions grains are not known, so nobody knows which states apply to"
            f" them; run saltutil.refresh_grains on them, such as {lost[0]}."
        )
    if all("pending" in row for row in some):
        return "What is pending has other packages now; run pkgset.refresh for it."
    why = "somebody is saving, or the database only reads"
    why = f"a call compares at most {AT_ONCE} minions" if alone else why
    return f"Minions are pending, as {why}; ask again."


def members(fleet, group):
    ids = fleet.registry.minions()
    if group is None:
        return ids
    target = fleet.registry.target(GROUP, group)
    return [one for one in ids if fleet.registry.belongs(one, GROUP, target)]


def _row(row, silent, held):
    minion, refreshed, age, managed, drifted, error, security, behind = row
    if drifted == UNCLEAR:
        drifted, behind, error = None, error, ""
    if refreshed is None:
        return {"minion": minion, "verdict": NEVER}
    if age > silent:
        verdict = SILENT
    elif drifted is None or behind:
        verdict = PENDING
    else:
        verdict = DRIFTING if drifted else CONSISTENT
    found = {"minion": minion, "verdict": verdict, "refreshed": refreshed}
    if drifted is not None:
        found.update(managed=managed, drifted=drifted)
    more = {"pending": behind, "error": error, "security": security, "held": held}
    return {**found, **{key: value for key, value in more.items() if value}}


def table(found):
    counts = dict(found["counts"])
    total = counts.pop("minions")
    head = f"{total} minions: " + ", ".join(f"{n} {what}" for what, n in counts.items())
    if found["security"]:
        head += f".\nSecurity updates are lacking on {found['security']} of them"
        head += f", see only={SECURITY}"
    head += f".\n{found['hint'][:-1]}" if "hint" in found else ""
    if not found["minions"]:
        return f"{head}.\n\nPage {found['page']} of {found['pages']} has no minion."
    some = [
        one for one in (HELD, "reason") if any(one in row for row in found["minions"])
    ]
    lines = [("Minion", "Verdict", "Drifted", "Heard", *map(str.capitalize, some))]
    for row in found["minions"]:
        drifted = f"{row['drifted']} of {row['managed']}" if "drifted" in row else "-"
        heard = row.get("refreshed", "-")[:19]
        cells = {**row, HELD: ", ".join(row.get(HELD, ()))}
        more = [cells.get(one, "") for one in some]
        lines.append((row["minion"], row["verdict"], drifted, heard, *more))
    body = "\n".join(status.columns(lines))
    end = f"Page {found['page']} of {found['pages']}"
    end += "; page=2 shows more, only=drifting some." if found["pages"] > 1 else "."
    return f"{head}.\n\n{body}\n\n{end}"
