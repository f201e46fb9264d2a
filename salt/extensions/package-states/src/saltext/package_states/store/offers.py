"""What the repositories of minions have, in the database, and which minions are to be asked for it.

A minion tells the digests of what its repositories have. What is behind one that is not known yet
is asked of one of its minions, and kept once for all of them.
"""

import json

import saltext.package_states.store.tables as tables
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import condition, item, names, version

#: The execution function that answers what a repository has
FUNCTION = "package_state.offers"
# minions that are asked for the same: they may have other lists by then
TRIES = 3
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
        # what no minion has any more is forgotten
        tables.ask(
            connection,
            "DELETE FROM package_states.repository AS r WHERE NOT EXISTS"
            " (SELECT FROM package_states.minion_repository AS m WHERE m.digest = r.digest)",
        )
    known = tables.ask(
        connection,
        "SELECT digest FROM package_states.repository WHERE digest = ANY(%s)",
        digests,
    )
    return sorted(set(digests) - {row[0] for row in known})


def store(opts, minion, answer):
    """Store what a minion answered to :data:`FUNCTION`, and return the digests, which are made again: a
    minion can't say anything of the repositories of others
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
                    f"{minion} did not send what its repositories have; see what {FUNCTION} says there."
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
                f"The repositories of {minion} have more than {PACKAGES} packages; see what {FUNCTION}"
                " says there."
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


def versions(connection, minions, keys):
    """Return the digests of the repositories of minions, sets by id, and the versions of some packages that
    these have, lists by digest and package
    """
    sets = {
        minion: frozenset(digests)
        for minion, digests in tables.ask(
            connection,
            "SELECT minion_id, array_agg(digest::text) FROM package_states.minion_repository"
            " WHERE minion_id = ANY(%s) GROUP BY minion_id",
            list(minions),
        )
    }
    there = {}
    for digest, package, some in tables.ask(
        connection,
        "SELECT digest, package, versions FROM package_states.offer"
        " WHERE digest = ANY(%s) AND package = ANY(%s)",
        sorted(frozenset().union(*sets.values())),
        list(keys),
    ):
        there.setdefault(digest, {})[package] = some
    return sets, there


def merged(there, digests):
    """Return the versions that several repositories have, lists by package"""
    found = {}
    for digest in digests:
        for package, some in there.get(digest, {}).items():
            found.setdefault(package, []).extend(some)
    return found


def unknown(connection, minions, entries):
    """Return the packages of which no minion has a version that is wanted, or can get one; to be locked out,
    a package needs no version
    """
    wanted = [one for one in entries if one.wanted != item.UNMANAGED]
    # that of a minion's own architecture is there under its name
    keys = sorted({key for entry in wanted for key in (entry.key, entry.name)})
    sets, there = versions(connection, minions, keys) if keys else ({}, {})
    if not sets:
        return []
    managers = {minion.platform for minion in minions.values()}

    def left(some, found):
        return [one for one in some if not _is_there(one, found, managers)]

    # the lists of minions are long, and seldom needed
    wanted = left(wanted, merged(there, there))
    if not wanted:
        return []
    lists = tables.packages(connection, list(minions), [one.key for one in wanted])
    found = {}
    for packages in lists.values():
        for key, package in packages.items():
            found.setdefault(key, []).extend(package.get("versions", ()))
    return [one.key for one in left(wanted, found)]


def _is_there(entry, found, managers):
    there = [found[key] for key in (entry.key, entry.name) if key in found]
    if entry.wanted in item.ABSENT:
        return bool(there)
    return any(
        condition.meets(manager, one, entry.bounds)
        for manager in managers
        for some in there
        for one in some
    )


def _are_packages(packages):
    return names.are_versions(packages, PACKAGES) and len(json.dumps(packages)) <= MOST


class Lacking:
    """Who is to be asked for what; no I/O, and the time in seconds is passed in"""

    def __init__(self, timeout=60):
        self.timeout = timeout
        # the digests of minions, in the order in which they told of them
        self.minions = {}
        # how many minions were asked for a digest in vain
        self.tries = {}
        self.asked = None
        self.until = 0

    def add(self, minion, digests):
        """A minion has told of digests that nobody knows, or of none"""
        self.minions.pop(minion, None)
        if digests:
            self.minions[minion] = tuple(digests)

    def take(self, now):
        """Return a minion and the digests to ask it for; None without one, or while another one answers"""
        if self.asked and now < self.until:
            return None
        self.asked = None
        while self.minions:
            minion = next(iter(self.minions))
            digests = [
                one
                for one in self.minions.pop(minion)
                if self.tries.get(one, 0) < TRIES
            ]
            if digests:
                for one in digests:
                    self.tries[one] = self.tries.get(one, 0) + 1
                self.asked, self.until = minion, now + self.timeout
                return minion, digests
        self.tries.clear()
        return None

    def answered(self, digests):
        self.asked, known = None, set(digests)
        for minion, lacking in list(self.minions.items()):
            left = tuple(one for one in lacking if one not in known)
            if left:
                self.minions[minion] = left
            else:
                del self.minions[minion]
