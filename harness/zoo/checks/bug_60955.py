"""Bug 60955: a user logs in to salt-api again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import salt.netapi

if TYPE_CHECKING:
    from pathlib import Path

LOGINS = 1000


def check(folder: Path) -> list[str] | None:  # noqa: ARG001 - each check gets a folder
    """Return what is wrong, None for a Salt that sums permissions in another place."""
    if not hasattr(salt.netapi, "sum_permissions"):
        return None
    eauth: dict[str, list[str]] = {"admin": ["test.*"], "*": ["grains.*"], "team%": ["state.*"]}
    token = {"name": "admin", "groups": ["team"]}
    for _ in range(LOGINS):
        found = salt.netapi.sum_permissions(token, eauth)
    wrong = []
    if sorted(set(found)) != ["grains.*", "state.*", "test.*"]:
        wrong.append(f"the permissions are {sorted(set(found))}")
    if eauth["admin"] != ["test.*"]:
        wrong.append(f"after {LOGINS:,} logins the options list {len(eauth['admin']):,} permissions, not 1")
    return wrong
