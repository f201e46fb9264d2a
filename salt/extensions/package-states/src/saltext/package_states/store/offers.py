"""What the repositories of minions have, in the database.

A minion tells the digests of what its repositories have. What is behind one that is not known yet
is asked of one of its minions, and kept once for all of them.
"""

import json

import saltext.package_states.master.lacking as lacking
import saltext.package_states.store.tables as tables
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import condition, item, names, version

# of one minion
REPOSITORIES = 1000
PACKAGES = 1000000
# the bytes of what one repository may have
MOST = 32 * 1024 * 1024


def check(repositories):
    """Return whether a minion told of its repositories, and of nothing else"""
    return (
        isinstance(repositories, dict)
        and len(repositories) <= REPOSITORIES
        and all(
            names.is_line(digest, 64)
            and len(digest) == 64
            and digest.isalnum()
            and names.is_line(name)
            and name
            for digest, name in repositories.items()
        )
    )


def keep(connection, minion, repositories):
    """Keep which repositories a minion has, and return the digests that nobody has told of yet"""
    digests = sorted(repositories)
    gone = tables.ask(
        connection,
        "DELETE FROM package_states.minion_repository"
        " WHERE minion_id = %s AND digest <> ALL(%s) RETURNING digest",
        minion,
        digests,
    )
    tables.ask(
        connection,
        "INSERT INTO package_states.minion_repository (minion_id, digest, name)"
        " SELECT %s, * FROM unnest(%s::text[], %s::text[])"
        " ON CONFLICT DO NOTHING",
        minion,
        digests,
        [repositories[digest] for digest in digests],
    )
    if gone:
        tidy(connection)
    known = tables.ask(
        connection,
        "SELECT digest FROM package_states.repository WHERE digest = ANY(%s)",
        digests,
    )
    return sorted(set(digests) - {row[0] for row in known})


def tidy(connection):
    """Forget what repositories had that no minion has any more"""
    tables.ask(
        connection,
        "DELETE FROM package_states.repository AS r WHERE NOT EXISTS"
        " (SELECT FROM package_states.minion_repository AS m WHERE m.digest = r.digest)",
    )


def store(opts, minion, answer):
    """Store what a minion answered to :data:`saltext.package_states.master.lacking.FUNCTION`, and return
    the digests, which are made again: a minion can't say anything of the repositories of others
    """
    found = {}
    with tables.reading(opts) as connection:
        platform = tables.platforms(connection, [minion]).get(minion)
        for one in answer if isinstance(answer, list) else [None]:
            one = one if isinstance(one, dict) else {}
            digest, packages = one.get("digest"), one.get("packages")
            if (
                not names.is_line(one.get("name"))
                or not _are_packages(packages)
                or digest != version.digest(platform, one.get("name"), packages)
            ):
                raise InvalidInput(
                    f"{minion} did not send what its repositories have; see what"
                    f" {lacking.FUNCTION} says there."
                )
            found[digest] = (one["name"], packages)
        (there,) = tables.ask(
            connection,
            "SELECT count(*) FROM package_states.offer JOIN"
            " package_states.minion_repository USING (digest) WHERE minion_id = %s",
            minion,
        )[0]
        if there + sum(len(packages) for _, packages in found.values()) > PACKAGES:
            raise InvalidInput(
                f"The repositories of {minion} have more than {PACKAGES} packages; see what"
                f" {lacking.FUNCTION} says there."
            )
        for digest, (name, packages) in found.items():
            tables.ask(
                connection,
                "WITH made AS (INSERT INTO package_states.repository (digest, name, platform)"
                " SELECT %s, %s, %s WHERE EXISTS (SELECT FROM"
                " package_states.minion_repository WHERE minion_id = %s AND digest = %s)"
                " ON CONFLICT DO NOTHING RETURNING digest)"
                " INSERT INTO package_states.offer (digest, package, versions)"
                " SELECT made.digest, key, ARRAY(SELECT jsonb_array_elements_text(value))"
                " FROM made, jsonb_each(%s::jsonb)",
                digest,
                name,
                platform,
                minion,
                digest,
                json.dumps(packages),
            )
    return sorted(found)


def versions(connection, minions):
    """Return the versions that the repositories of minions have, lists by id and package"""
    rows = tables.ask(
        connection,
        "SELECT m.minion_id, o.package, o.versions FROM package_states.minion_repository AS m"
        " JOIN package_states.offer AS o USING (digest) WHERE m.minion_id = ANY(%s)",
        minions,
    )
    found = {}
    for minion, package, there in rows:
        found.setdefault(minion, {}).setdefault(package, []).extend(there)
    return found


def offered(connection, minions, keys):
    """Return the versions that some minions have or can get, by package; None if none of them told"""
    if not tables.ask(
        connection,
        "SELECT FROM package_states.minion_repository WHERE minion_id = ANY(%s) LIMIT 1",
        minions,
    ):
        return None
    rows = tables.ask(
        connection,
        "SELECT DISTINCT package, versions FROM package_states.offer AS o"
        " WHERE package = ANY(%s) AND EXISTS (SELECT FROM package_states.minion_repository AS m"
        " WHERE m.digest = o.digest AND m.minion_id = ANY(%s)) UNION SELECT key,"
        " ARRAY(SELECT jsonb_array_elements_text(packages -> key -> 'versions'))"
        " FROM package_states.package_list, unnest(%s::text[]) AS key"
        " WHERE minion_id = ANY(%s) AND jsonb_exists(packages, key)",
        keys,
        minions,
        keys,
        minions,
    )
    found = {}
    for package, there in rows:
        found.setdefault(package, []).extend(there)
    return found


def unknown(connection, minions, entries):
    """Return the packages of which no minion has a version that is wanted, or can get one"""
    wanted = [one for one in entries if one.wanted in item.THERE]
    keys = [entry.key for entry in wanted]
    there = offered(connection, list(minions), keys) if keys else None
    if there is None:
        return []
    managers = {minion.platform for minion in minions.values()}
    return [
        entry.key
        for entry in wanted
        if not any(
            condition.meets(manager, one, entry.bounds)
            for manager in managers
            for one in there.get(entry.key, ())
        )
    ]


def _are_packages(packages):
    return names.are_versions(packages, PACKAGES) and len(json.dumps(packages)) <= MOST
