"""The status of a fleet, counted and in pages.

Whether a minion is as it should be is worked out when it sends its packages, and when somebody asks
after a change of what is wanted, and kept: a page of ten thousand minions reads nothing but that.
"""

import saltext.package_states.model.names as names
import saltext.package_states.status.rows as status
import saltext.package_states.store.standing as standing
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model.resolver import GROUP
from saltext.package_states.store.refresh import packages

CONSISTENT = "consistent"
DRIFTING = "drifting"
#: what is wanted, or what the minion has, has changed since it was heard, and is not compared
#: yet
PENDING = "pending"
#: it was heard, but not for long
SILENT = "silent"
NEVER = "never heard"
VERDICTS = (CONSISTENT, DRIFTING, PENDING, SILENT, NEVER)
# seconds after which a minion is silent, without the option ``silent_after``
WEEK = 7 * 86400
# the most minions that are compared while somebody waits
AT_ONCE = 200
MOST = 10000


def work_out(connection, fleet, sent):
    """Compare minions with what is wanted, and keep the result"""
    minions = fleet.minions(sorted(sent))
    sources, found = fleet.sources(minions), []
    for name, minion in minions.items():
        verdicts, trouble = fleet.possible(minion, sources[name])
        there = packages(connection, minion)
        try:
            rows = status.rows(verdicts, minion.platform, there)
        except Exception as exc:  # pylint: disable=broad-except
            # what one minion sent must not hide the others
            rows, trouble = (), {**trouble, "": names.line(exc)}
        drifted = sum(not row.consistent for row in rows)
        error = " ".join(map(str, trouble.values()))[:2000]
        managed = len(rows) + len(trouble)
        found.append((name, sent[name], managed, drifted + len(trouble), error))
    standing.keep(connection, found)


def numbers(number, size):
    """Check which page is asked for"""
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
    """Return the number of a page and how many pages there are"""
    return {"page": number, "pages": max(1, -(-total // size))}


def page(opts, group=None, only=None, number=1, size=100):
    """Return the counts of each verdict, and a page of all minions or some, as plain data"""
    numbers(number, size)
    if only is not None and only not in VERDICTS:
        raise InvalidInput(
            f"There is no verdict {only!r}; use one of {', '.join(VERDICTS)}."
        )
    silent = (opts.get("package_states") or {}).get("silent_after", WEEK)
    with store.reading(opts) as connection:
        # what somebody is just saving would be compared as it was before
        with store.quiet(connection) as alone:
            fleet = Fleet(opts, connection)
            ids = members(fleet, group)
            stale = standing.stale(connection, ids, AT_ONCE) if alone else {}
            if stale:
                work_out(connection, fleet, stale)
        rows = [_row(row, silent) for row in standing.statuses(connection, ids)]
    counts = dict.fromkeys(VERDICTS, 0)
    for row in rows:
        counts[row["verdict"]] += 1
    chosen = [row for row in rows if only in (None, row["verdict"])]
    return {
        "counts": {"minions": len(rows), **counts},
        "security": sum("security" in row for row in rows),
        **cut(chosen, number, size),
    }


def members(fleet, group):
    """Return the ids of the minions of a group, or of all"""
    ids = fleet.registry.minions()
    if group is None:
        return ids
    target = fleet.registry.target(GROUP, group)
    return [one for one in ids if fleet.registry.belongs(one, GROUP, target)]


def _row(row, silent):
    minion, refreshed, age, managed, drifted, error, security, behind = row
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
    more = {"pending": behind, "error": error, "security": security}
    return {**found, **{key: value for key, value in more.items() if value}}


def table(found):
    """Return a page as a table for people"""
    counts = dict(found["counts"])
    total = counts.pop("minions")
    head = f"{total} minions: " + ", ".join(f"{n} {what}" for what, n in counts.items())
    if found["security"]:
        lack = "lacks" if found["security"] == 1 else "lack"
        head += f".\n{found['security']} of them {lack} security updates"
    if not found["minions"]:
        return f"{head}.\n\nPage {found['page']} of {found['pages']} has no minion."
    lines = [("Minion", "Verdict", "Drifted", "Heard")]
    for row in found["minions"]:
        drifted = f"{row['drifted']} of {row['managed']}" if "drifted" in row else "-"
        lines.append(
            (row["minion"], row["verdict"], drifted, row.get("refreshed", "-")[:19])
        )
    body = "\n".join(status.columns(lines))
    end = f"Page {found['page']} of {found['pages']}"
    end += "; page=2 shows more, only=drifting some." if found["pages"] > 1 else "."
    return f"{head}.\n\n{body}\n\n{end}"
