"""The packages that a minion sent, and whether it is as it should be: worked out when it sends them or when
somebody asks, and kept until something else is wanted.

:func:`saltext.package_states.modules.package_state.inventory` returns them. ``repositories`` and
``security`` may be missing, and ``held_by_others`` is only there if somebody else holds something. A
minion may send anything, so its answer is checked:

.. code-block:: text

    {"platform": "apt", "digest": "<sha256>", "packages": {
        "nginx": {"versions": ["1.22.1-9"], "available": ["1.22.1-9"],
                  "candidate": "1.22.1-9", "held": False, "orphan": False,
                  "configured": False, "kept": ""}},
     "repositories": {"<sha256>": "http://deb.debian.org/debian bookworm main"},
     "security": {"openssl": ["3.0.15-1~deb12u1"]}, "held_by_others": ["nginx"]}
"""

import json
from typing import NamedTuple

import saltext.package_states.model.names as names
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.model.version import MANAGERS
from saltext.package_states.store import offers, tables

# how many packages one minion may have, and the bytes of all
# that is kept of a minion
PACKAGES = 100000
MOST = 16 * 1024 * 1024
_KEPT = ("packages", "repositories", "security")
_FIELDS = {
    "versions": list,
    "available": list,
    "candidate": str,
    "held": bool,
    "orphan": bool,
    "configured": bool,
    "kept": str,
    # only where it is so: an older master knows no such field
    "broken": bool,
}


def check(inventory):
    """Check that a minion sent its packages, and nothing else"""
    good = (
        isinstance(inventory, dict)
        and inventory.get("platform") in MANAGERS
        and isinstance(inventory.get("digest"), str)
        and names.is_line(inventory["digest"], 64)
        and isinstance(inventory.get("packages"), dict)
        and len(inventory["packages"]) <= PACKAGES
        and all(
            names.is_line(key, 199) and _entry(there)
            for key, there in inventory["packages"].items()
        )
    )
    good = (
        good
        and offers.check(inventory.get("repositories", {}))
        and names.are_versions(inventory.get("security", {}), PACKAGES, 199)
        and all(inventory.get("security", {}).values())
        and names.are_versions({"held": inventory.get("held_by_others", [])}, 1)
    )
    # what else it sent is left out
    if not good or len(json.dumps([inventory.get(key) for key in _KEPT])) > MOST:
        raise InvalidInput(
            "The minion sent no list of packages; see what package_state.inventory says there."
        )


def _entry(there):
    return isinstance(there, dict) and all(
        isinstance(value, _FIELDS.get(field, ()))
        and (
            isinstance(value, bool)
            or names.is_line(value)
            or names.are_versions({"there": value}, 1)
        )
        for field, value in there.items()
    )


def store(opts, minion, inventory):
    """Store what a minion sent, and return the digests that nobody has told of yet"""
    check(inventory)
    # no field of a package: a master of before refuses those that it does not know
    for key in inventory.get("held_by_others", ()):
        if key in inventory["packages"]:
            inventory["packages"][key]["held_by_others"] = True
    with tables.reading(opts) as connection:
        # what was worked out is of the list before; neither is there without the other
        connection.execute("BEGIN")
        tables.keep(connection, minion, inventory)
        drop(connection, [minion])
        connection.execute("COMMIT")
        # an older minion does not tell
        if "repositories" not in inventory:
            return []
        return offers.keep(connection, minion, inventory["repositories"])


def mark(opts, minions, why):
    """Let the status of minions say that their packages are others than what is stored"""
    with tables.reading(opts) as connection:
        tables.ask(
            connection,
            "UPDATE package_states.package_list SET behind = %s WHERE minion_id = ANY(%s)",
            names.line(why)[:500],
            list(minions),
        )


class Sent(NamedTuple):
    packages: dict  # its packages; empty if it never sent any
    refreshed: str  # when it did, as text, None if it never did
    behind: str  # why its packages are others now, None if nothing tells that they are
    # the newer versions that mend the security of what it has, lists by package, the
    # newest first; None if it can't tell
    security: dict


def sent(connection, minion):
    rows = tables.ask(
        connection,
        "SELECT packages, refreshed::text, behind, security FROM package_states.package_list"
        " WHERE minion_id = %s",
        minion,
    )
    never = f"{minion} never sent its packages; run package_states.refresh {minion}."
    return Sent(*rows[0]) if rows else Sent({}, None, never, None)


def installed(opts, minion):
    """Return the versions that a minion had when it sent them, as ``pkg.list_pkgs`` does"""
    with tables.reading(opts) as connection:
        found = packages(connection, Fleet(opts, connection).minion(minion))
    return {
        key: ",".join(there["versions"])
        for key, there in found.items()
        if there.get("versions")
    }


def packages(connection, minion):
    found = sent(connection, minion.id)
    if found.refreshed is None:
        raise PackageStateError(found.behind)
    return found.packages


def keep(connection, rows):
    """Keep what came out of a comparison with what is wanted, but of a minion that has sent others since

    :param rows: tuples of the id of a minion, when it sent its packages, how many are managed, how
        many are not as they should be, and what can't be decided
    """
    if rows:
        tables.ask(
            connection,
            "INSERT INTO package_states.minion_status (minion_id, managed, drifted, error)"
            " SELECT n.minion_id, n.managed, n.drifted, n.error"
            " FROM unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::text[])"
            " AS n (minion_id, refreshed, managed, drifted, error)"
            " JOIN package_states.package_list AS l"
            " ON l.minion_id = n.minion_id AND l.refreshed::text = n.refreshed"
            " ON CONFLICT (minion_id) DO UPDATE SET managed = EXCLUDED.managed,"
            " drifted = EXCLUDED.drifted, error = EXCLUDED.error, checked = now()",
            *(list(column) for column in zip(*rows)),
        )


def drop(connection, ids):
    """Forget whether minions are as they should be, as something else is wanted of them"""
    tables.ask(
        connection,
        "DELETE FROM package_states.minion_status WHERE minion_id = ANY(%s)",
        list(ids),
    )


def stale(connection, ids, most):
    """Return minions, of some ids, that are to be compared, also those of which nobody knew what is wanted,
    these last: when they sent packages, by id
    """
    rows = tables.ask(
        connection,
        "SELECT l.minion_id, l.refreshed::text FROM package_states.package_list AS l"
        " LEFT JOIN package_states.minion_status AS s USING (minion_id)"
        " WHERE (s.minion_id IS NULL OR s.drifted < 0) AND l.minion_id = ANY(%s)"
        " ORDER BY s.checked NULLS FIRST, l.minion_id LIMIT %s",
        list(ids),
        most,
    )
    return dict(rows)


def held(connection, ids):
    """Return the packages that minions hold or lock, lists by id, without those that hold none"""
    rows = tables.ask(
        connection,
        "SELECT minion_id, ARRAY(SELECT key FROM jsonb_each(packages)"
        " WHERE value -> 'held' = 'true') FROM package_states.package_list"
        " WHERE minion_id = ANY(%s)",
        list(ids),
    )
    return {minion: keys for minion, keys in rows if keys}


def statuses(connection, ids):
    """Return rows of id, time and seconds since it was heard, how many packages are managed, how many are
    not right, what can't be decided, how many lack a security update, and why that is outdated
    """
    return tables.ask(
        connection,
        "SELECT i.minion_id, l.refreshed::text, EXTRACT(epoch FROM now() - l.refreshed)::float,"
        " s.managed, s.drifted, s.error,"
        " (SELECT count(*)::int FROM jsonb_object_keys(l.security)), l.behind"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS i (minion_id, number)"
        " LEFT JOIN package_states.package_list AS l USING (minion_id)"
        " LEFT JOIN package_states.minion_status AS s USING (minion_id) ORDER BY i.number",
        list(ids),
    )
