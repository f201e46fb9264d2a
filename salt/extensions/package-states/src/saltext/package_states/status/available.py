"""Which packages minions can get, in which versions, in pages."""

import re

import saltext.package_states.model.version as versions
import saltext.package_states.status.page as pages
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, PackageStateError

# the longest pattern
LONGEST = 200


def page(
    opts, search="*", minion=None, group=None, channel=None, number=1, size=100
):  # pylint: disable=too-many-arguments
    """Return the packages that minions can get, or one, or that a channel has, as plain data"""
    pages.numbers(number, size)
    if minion is not None and group is not None:
        raise InvalidInput("Name a minion or a group, not both.")
    pattern = _pattern(search)
    with store.reading(opts) as connection:
        fleet = Fleet(opts, connection)
        if minion is None:
            ids = pages.members(fleet, group)
        else:
            ids = [fleet.minion(minion).id]
        sets, told = _sets(connection, ids, channel)
        if not sets:
            raise PackageStateError(_nothing(minion, group, channel))
        digests = sorted(
            {one for some in sets.values() for each in some for one in each}
        )
        total, rows = _found(connection, digests, pattern, (number - 1) * size, size)
    counts = {"packages": total, "minions": told}
    if channel is None:
        counts["never told"] = len(ids) - told
    return {
        "counts": counts,
        **pages.of(total, number, size),
        "packages": [_row(*row, sets[row[1]]) for row in rows],
    }


def _nothing(minion, group, channel):
    if channel is not None:
        return (
            f"No minion that was asked for has a channel {channel!r}; see"
            " package_states.available channels=True."
        )
    who = minion or (f"No minion of {group}" if group else "No minion")
    never = "never told" if minion else "has told"
    tgt = minion or "'*'"
    return f"{who} {never} what its repositories have; run pkgset.refresh {tgt}."


def _pattern(search):
    search = str(search)
    if len(search) > LONGEST or "\0" in search:
        raise InvalidInput(
            f"Search for a pattern of at most {LONGEST} characters, such as nginx*."
        )
    marks = {"*": ".*", "?": "."}
    parts = (marks.get(part) or re.escape(part) for part in re.split(r"([*?])", search))
    return f"^(?:{''.join(parts)})$"


def _sets(connection, ids, channel):
    """Return the few sets of digests that minions have by package manager, and how many told of them"""
    rows = store.ask(
        connection,
        "SELECT platform, array_agg(DISTINCT digests), count(*)::int FROM ("
        " SELECT l.platform, string_agg(m.digest, ' ' ORDER BY m.digest) AS digests"
        " FROM package_states.minion_repository AS m"
        " JOIN package_states.package_list AS l USING (minion_id)"
        " JOIN package_states.repository AS r"
        " ON r.digest = m.digest AND r.platform = l.platform"
        " WHERE m.minion_id = ANY(%s) AND (%s OR r.name = %s) GROUP BY m.minion_id, l.platform)"
        " AS s GROUP BY platform",
        list(ids),
        channel is None,
        str(channel),
    )
    found = {
        platform: [frozenset(one.split()) for one in digests]
        for platform, digests, _ in rows
    }
    return found, sum(row[2] for row in rows)


def _found(connection, digests, pattern, begin, size):
    """Return how many packages match, and a page of them: name, package manager (whose versions can't
    be compared with others'), and by digest the name of the repository and the versions
    """
    matching = (
        "SELECT DISTINCT o.package, r.platform FROM package_states.offer AS o"
        " JOIN package_states.repository AS r USING (digest)"
        " WHERE o.digest = ANY(%s) AND o.package ~ %s"
    )
    (total,) = store.ask(
        connection, f"SELECT count(*) FROM ({matching}) AS m", digests, pattern
    )[0]
    rows = store.ask(
        connection,
        "SELECT o.package, r.platform, array_agg(r.digest),"
        " array_agg(r.name), jsonb_agg(to_jsonb(o.versions))"
        " FROM package_states.offer AS o JOIN package_states.repository AS r USING (digest)"
        f" JOIN ({matching} ORDER BY 1, 2 LIMIT %s OFFSET %s) AS m"
        " ON m.package = o.package AND m.platform = r.platform"
        " WHERE o.digest = ANY(%s)"
        " GROUP BY o.package, r.platform ORDER BY o.package, r.platform",
        digests,
        pattern,
        size,
        begin,
        digests,
    )
    return total, rows


def _row(package, manager, digests, names, there, sets):
    by_digest = dict(zip(digests, map(frozenset, there)))
    every = [
        frozenset().union(*(by_digest.get(digest, ()) for digest in some))
        for some in sets
    ]
    common = frozenset.intersection(*every)
    some = frozenset().union(*every) - common
    row = {
        "package": package,
        "manager": manager,
        "versions": versions.sort(manager, common)[::-1],
        "channels": sorted(set(names)),
    }
    if some:
        row["some"] = versions.sort(manager, some)[::-1]
    return row


def channels(opts):
    """Return by name how many packages, minions and contents repositories have, and since when"""
    with store.reading(opts) as connection:
        rows = store.ask(
            connection,
            "SELECT COALESCE(r.name, m.name), count(DISTINCT m.minion_id)::int,"
            " count(DISTINCT m.digest)::int, count(DISTINCT r.digest)::int,"
            " max(r.received)::text,"
            " (SELECT count(DISTINCT o.package)::int FROM package_states.offer AS o"
            " WHERE o.digest = ANY(array_agg(DISTINCT m.digest)))"
            " FROM package_states.minion_repository AS m"
            " LEFT JOIN package_states.repository AS r USING (digest)"
            ' GROUP BY 1 ORDER BY COALESCE(r.name, m.name) COLLATE "C"',
        )
    return {
        name: {
            "packages": packages,
            "minions": minions,
            "contents": contents,
            "unknown": contents - known,
            "received": received or "",
        }
        for name, minions, contents, known, received, packages in rows
    }
