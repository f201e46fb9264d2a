"""The table `[users]` of a scenario: groups of users who log in, each with permissions.

Fifty people with a log-in each cost a master more than a service with one log-in: every log-in makes a token, and every
request looks one up and is checked against the permissions of its user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.scenarios.faults import Faults

if TYPE_CHECKING:
    from evil_minions import Table

LOGINS = START, REQUEST = ("start", "request")
MOST = 1000
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Group:
    """One table `[users.NAME]`: users who may all do the same."""

    # the table's own; users are called NAME-001 and so on
    name: str
    # how many users there are
    count: int
    # what each may do, as Salt's `external_auth` and `publisher_acl` take it
    permissions: tuple[object, ...]
    # when they log in: "start" is once, when the load begins; "request" is again for each request
    login: str = START

    def user(self, number: int) -> str:
        """Return the user who sends the request of this number: they take turns."""
        return f"{self.name}-{number % self.count + 1:03d}"

    @property
    def users(self) -> list[str]:
        """Return the names of all users."""
        return [self.user(number) for number in range(self.count)]


def read_users(table: Table) -> dict[str, Group]:
    """Return the groups of users by name. Raises ScenarioError for anything that is not understood."""
    found: dict[str, Group] = {}
    faults = Faults()
    for name in table:
        with faults.part():
            found[name] = _group(table, name)
    faults.end()
    return found


def _group(parent: Table, name: str) -> Group:
    if not _NAME.fullmatch(name):
        raise parent.error(name, "is no name of a group: take lower-case letters, digits and hyphens, a letter first")
    table = parent.table(name).allow("count", "permissions", "login")
    found = table.take("permissions", list)
    if not found:
        raise table.error("permissions", "is empty, so nobody could do anything: give at least one, such as 'test.*'")
    for entry in found:
        if not _permission(entry):
            raise table.error(
                "permissions",
                f"holds {entry!r}, but may hold functions such as 'test.*', '@runner', or tables such as "
                "{ 'web*' = ['state.apply'] } only",
            )
    return Group(name, table.count("count", low=1, high=MOST), tuple(found), table.choice("login", LOGINS, START))


def _permission(entry: object) -> bool:
    """Return whether an entry is one of Salt's: a function, or a table of targets with lists of functions."""
    if isinstance(entry, str):
        return bool(entry)
    if not isinstance(entry, dict) or not entry:
        return False
    return all(isinstance(of, list) and of and all(isinstance(one, str | dict) for one in of) for of in entry.values())
