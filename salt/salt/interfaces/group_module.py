"""
The interface of the virtual module ``group``
"""

from __future__ import annotations

import typing

from salt.interfaces import Interface


class Group(typing.TypedDict):
    name: str
    gid: typing.Any
    passwd: typing.Any
    members: list


class GroupInterface(Interface):
    """Groups of users."""

    __modulename__ = "group"

    def add(self, name) -> bool:
        """Add a group; return whether it was added"""

    def delete(self, name) -> bool:
        """Delete a group; returns whether it was deleted"""

    def info(self, name) -> Group | dict | bool:
        """
        Describe a group

        At least ``name``, ``gid``, ``passwd`` and ``members``, a list of names. An
        empty dictionary if there is no such group, false on Windows.
        """

    def getent(self, refresh=False) -> list[Group]:
        """Describe all groups; ``refresh`` reads them again"""

    def adduser(self, name, username) -> bool:
        """Add a user to a group."""

    def deluser(self, name, username) -> bool:
        """Remove a user from a group."""

    def members(self, name, members_list) -> bool:
        """Replace the members of a group by a list of names with commas between them"""

    def chgid(self, name, gid) -> bool:
        """Change a group's number; says whether it is now as asked"""
