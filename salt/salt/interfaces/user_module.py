"""
The interface of the virtual module ``user``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.feature("gecos", ["chroomnumber", "chworkphone", "chhomephone"])
@Interface.feature("login classes", ["chloginclass", "get_loginclass"])
@Interface.feature(
    "automatic login", ["get_auto_login", "enable_auto_login", "disable_auto_login"]
)
class UserInterface(Interface):
    """
    Local users: add, delete, change, list

    Windows has no numbers of users and groups and no login shells. The functions that
    change these are not applicable there, and say false.
    """

    __modulename__ = "user"
    __version__ = "1.0"

    # --- Every module

    # not promised: uid, which win_useradd does not take
    # not promised: gid, which win_useradd does not take
    # not promised: shell, which win_useradd does not take
    # not promised: unique, which win_useradd does not take
    # not promised: fullname, which is '' or None by default
    # not promised: roomnumber, which win_useradd does not take
    # not promised: workphone, which win_useradd does not take
    # not promised: homephone, which win_useradd does not take
    # not promised: createhome, which win_useradd does not take
    @Interface.returns((bool, str))
    def add(self, name, groups=None, home=None):
        """
        Add a user

        Each platform takes more than these: numbers and a shell on Unix, a password
        and a profile on Windows. Returns whether the user was added. Windows may
        return its error as a string.
        """
        return False

    # not promised: remove, which win_useradd does not take
    @Interface.returns((bool, str))
    def delete(self, name, force=False):
        """
        Delete a user

        Returns whether the user was deleted; Windows may return its error as a string.
        Whether the home goes too is decided by ``remove`` on Unix and by ``purge`` on
        Windows.
        """
        return False

    @Interface.returns([dict])
    def getent(self, refresh=False):
        """
        Describe all users, each as ``user.info`` does; ``refresh`` forgets what was
        read before
        """
        return []

    @Interface.returns((bool, str))
    def chhome(self, name, home, persist=False):
        """
        Change a user's home; says whether it is now as asked
        """
        return False

    # not promised: append, which is False or True by default
    @Interface.returns(bool)
    def chgroups(self, name, groups):
        """
        Change the groups that a user is a member of, by a list or by names with
        commas between them

        With ``append`` the others are kept. Pass it always: its default is not the
        same everywhere. Says whether the groups are now as asked.
        """
        return False

    @Interface.returns((bool, str))
    def chfullname(self, name, fullname):
        """
        Change a user's full name; says whether it is now as asked
        """
        return False

    @Interface.returns(dict)
    def info(self, name):
        """
        Describe a user

        At least ``name``, ``uid``, ``gid``, ``groups``, ``home``, ``shell`` and
        ``fullname``; an empty dictionary if there is no such user. ``uid`` is a
        number on Unix and a string on Windows.
        """
        return {}

    @Interface.returns((list, bool))
    def list_groups(self, name):
        """
        List the groups of a user; false if Windows knows no such user
        """
        return []

    @Interface.returns((list, None))
    def list_users(self):
        """
        List the names of all users
        """
        return []

    @Interface.returns(bool)
    def rename(self, name, new_name):
        """
        Rename a user; says whether it worked
        """
        return False

    @Interface.not_applicable(kernel=["Windows"])
    @Interface.returns(bool)
    def chuid(self, name, uid):
        """
        Change a user's number; says whether it is now as asked
        """
        return False

    @Interface.not_applicable(kernel=["Windows"])
    @Interface.returns(bool)
    def chgid(self, name, gid):
        """
        Change the number of a user's primary group; says whether it is now as asked
        """
        return False

    @Interface.not_applicable(kernel=["Windows"])
    @Interface.returns(bool)
    def chshell(self, name, shell):
        """
        Change a user's login shell; says whether it is now as asked
        """
        return False

    # --- Feature: gecos

    def chroomnumber(self, name, roomnumber):
        """
        Change a user's room number
        """

    def chworkphone(self, name, workphone):
        """
        Change a user's phone number at work
        """

    def chhomephone(self, name, homephone):
        """
        Change a user's phone number at home
        """

    # --- Feature: login classes

    @Interface.returns(bool)
    def chloginclass(self, name, loginclass, root=None):
        """
        Change the default login class of the user
        """
        return False

    def get_loginclass(self, name):
        """
        Get the login class of the user
        """

    # --- Feature: automatic login

    @Interface.supported(kernel=["Darwin"])
    def get_auto_login(self):
        """
        Gets the current setting for Auto Login
        """

    @Interface.supported(kernel=["Darwin"])
    def enable_auto_login(self, name, password):
        """
        Configures the machine to auto login with the specified user
        """

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def disable_auto_login(self):
        """
        Disables auto login on the machine
        """
        return False

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["Linux", "NetBSD", "OpenBSD"])
    def chother(self, name, other, root=None):
        """
        Change the user's other GECOS attribute
        """

    @Interface.optional
    def primary_group(self, name):
        """
        Return the primary group of the named user
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def update(
        self,
        name,
        password=None,
        fullname=None,
        description=None,
        home=None,
        homedrive=None,
        logonscript=None,
        profile=None,
        expiration_date=None,
        expired=None,
        account_disabled=None,
        unlock_account=None,
        password_never_expires=None,
        disallow_change_password=None,
    ):
        """
        Updates settings for the Windows user
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_user_sid(self, username):
        """
        Get the Security ID for the user
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def setpassword(self, name, password):
        """
        Set the user's password
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def addgroup(self, name, group):
        """
        Add user to a group
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def removegroup(self, name, group):
        """
        Remove user from a group
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def chprofile(self, name, profile):
        """
        Change the profile directory of the user
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def current(self, sam=False):
        """
        Get the username that salt-minion is running under
        """

    # --- Deprecated

    @Interface.deprecated(successor="user.get_user_sid")
    @Interface.supported(kernel=["Windows"])
    def getUserSid(self, username):
        """
        The former name of ``user.get_user_sid``
        """
