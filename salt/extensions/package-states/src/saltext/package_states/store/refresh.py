"""The packages that a minion sent, and its status.

:func:`saltext.package_states.modules.package_state.inventory` returns them. ``repositories`` and
``security`` may be missing. A minion may send anything, so its answer is checked:

.. code-block:: text

    {"platform": "apt", "digest": "<sha256>", "packages": {
        "nginx": {"versions": ["1.22.1-9"], "available": ["1.22.1-9"],
                  "candidate": "1.22.1-9", "held": False, "orphan": False,
                  "configured": False, "kept": ""}},
     "repositories": {"<sha256>": "http://deb.debian.org/debian bookworm main"},
     "security": {"openssl": ["3.0.15-1~deb12u1"]}}
"""

import json
from typing import NamedTuple

import saltext.package_states.model.names as names
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, NotThere
from saltext.package_states.model.version import MANAGERS
from saltext.package_states.store import offers, standing, tables

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
    with tables.reading(opts) as connection:
        # what was worked out is of the list before; neither is there without the other
        connection.execute("BEGIN")
        tables.keep(connection, minion, inventory)
        standing.drop(connection, [minion])
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
    """What a minion sent last"""

    packages: dict  # its packages; empty if it never sent any
    refreshed: str  # when it did, as text, None if it never did
    behind: str  # why its packages are others now, None if nothing tells that they are
    # the newer versions that mend the security of what it has, lists by package, the
    # newest first; None if it can't tell
    security: dict


def sent(connection, minion):
    """Return what a minion sent last, see :class:`Sent`"""
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
        raise NotThere(found.behind)
    return found.packages
