"""
The interface of the virtual module ``shadow``
"""

from __future__ import annotations

import typing

from salt.interfaces import Feature, Interface


class Password(typing.TypedDict):
    name: str
    passwd: typing.Any


class ShadowInterface(Interface):
    """Passwords and their ageing."""

    __modulename__ = "shadow"

    def info(self, name) -> Password:
        """
        Describe a user's password

        At least ``name`` and ``passwd``; strings are empty if there is no such user.
        The password is the hash, or a placeholder where the platform keeps it to
        itself.
        """

    def set_password(self, name, password) -> bool | dict:
        """
        Set a user's password

        A hash on Linux and Solaris, the password itself on macOS and Windows. Says
        whether it worked.
        """

    class Ageing(Feature):
        """When a password must change"""

        def set_mindays(self, name, mindays) -> bool:
            """Set before how many days a password must not be changed"""

        def set_maxdays(self, name, maxdays) -> bool:
            """Set after how many days a password must be changed"""

        def set_warndays(self, name, warndays) -> bool:
            """Set how many days before its end a user is warned of it"""

    class Expiry(Feature):
        """When an account ends"""

        def set_expire(self, name, expire) -> bool:
            """Set when an account expires"""

    class Inactivity(Feature):
        """When an unused account ends"""

        def set_inactdays(self, name, inactdays) -> bool:
            """Set after how many days without a login an account is locked"""

    class PasswordRemoval(Feature):
        """Accounts without a password"""

        def del_password(self, name) -> bool:
            """Let a user log in without a password"""

    class Hashes(Feature):
        """Hashes of passwords"""

        def gen_password(self, password, crypt_salt=None, algorithm="sha512") -> str:
            """Hash a password"""

        def default_hash(self) -> str:
            """Give the hash of a password that nobody has"""
