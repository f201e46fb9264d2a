"""
The interface of the virtual module ``user``
"""

from __future__ import annotations

import typing

from salt.interfaces import Feature, Interface


class User(typing.TypedDict):
    name: str
    uid: typing.Any
    gid: typing.Any
    groups: list
    home: str
    shell: typing.Any
    fullname: str


class UserInterface(Interface):
    """User accounts."""

    __modulename__ = "user"
    __deprecated__ = {"getUserSid": "get_user_sid"}

    def add(self, name, groups=None, home=None) -> bool | str:
        """
        Add a user

        Each platform takes more than these: numbers and a shell on Unix, a password and
        a profile on Windows. Returns whether the user was added. Windows may return its
        error as a string.
        """

    def delete(self, name, remove=False, force=False) -> bool | str:
        """
        Delete a user

        Returns whether the user was deleted; Windows may return its error as a string.
        Whether the home goes too is decided by ``remove`` on Unix and by ``purge`` on
        Windows.
        """

    def info(self, name) -> User | dict:
        """
        Describe a user

        At least ``name``, ``uid``, ``gid``, ``groups``, ``home``, ``shell`` and
        ``fullname``; an empty dictionary if there is no such user. ``uid`` is a number
        on Unix and a string on Windows.
        """

    def getent(self, refresh=False) -> list[User]:
        """Describe all users; ``refresh`` reads them again"""

    def list_users(self) -> list | None:
        """List the names of all users"""

    def list_groups(self, name) -> list | bool:
        """List the groups of a user; false if Windows knows no such user"""

    def rename(self, name, new_name) -> bool:
        """Rename a user; says whether it worked"""

    def chfullname(self, name, fullname) -> bool | str:
        """Change a user's full name; says whether it is now as asked"""

    def chgroups(self, name, groups, append=False) -> bool:
        """
        Change the groups that a user is a member of, by a list or by names with commas
        between them

        With ``append`` the others are kept. Pass it always: its default is not the same
        everywhere. Says whether the groups are now as asked.
        """

    def chhome(self, name, home, persist=False) -> bool | str:
        """Change a user's home; says whether it is now as asked"""

    class POSIXAttributes(Feature):
        """User and group number, login shell"""

        def chuid(self, name, uid) -> bool:
            """Change a user's number; says whether it is now as asked"""

        def chgid(self, name, gid) -> bool:
            """
            Change the number of a user's primary group; says whether it is now as asked
            """

        def chshell(self, name, shell) -> bool:
            """Change a user's login shell; says whether it is now as asked"""

    class PhoneBook(Feature):
        """Contact data"""

        def chroomnumber(self, name, roomnumber) -> bool:
            """Change a user's room number"""

        def chworkphone(self, name, workphone) -> bool:
            """Change a user's phone number at work"""

        def chhomephone(self, name, homephone) -> bool:
            """Change a user's phone number at home"""

    class LoginClass(Feature):
        """Login classes of BSD"""

        def get_loginclass(self, name) -> dict | str:
            """Get the login class of the user"""

        def chloginclass(self, name, loginclass, root=None) -> bool:
            """Change the default login class of the user"""

    class PrimaryGroup(Feature):
        """The primary group by name"""

        def primary_group(self, name) -> str:
            """Return the primary group of the named user"""
