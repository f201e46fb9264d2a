"""
The interface of the virtual module ``shadow``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.feature("ageing", ["set_maxdays", "set_mindays", "set_warndays"])
@Interface.feature("password locks", ["lock_password", "unlock_password"])
@Interface.feature("hashes", ["default_hash", "gen_password"])
class ShadowInterface(Interface):
    """
    Passwords of local users, and when they expire

    Dates are days since 1 January 1970 on Unix, and dates in text on macOS and Windows.
    AIX has functions of its own only.
    """

    __modulename__ = "shadow"
    __version__ = "1.0"

    # --- Every module

    # not promised: root, which mac_shadow, win_shadow does not take
    @Interface.not_applicable(kernel=["AIX"])
    @Interface.returns(dict)
    def info(self, name):
        """
        Describe a user's password

        At least ``name`` and ``passwd``; strings are empty if there is no such
        user. The password is the hash, or a placeholder where the platform keeps it
        to itself.
        """
        return {}

    @Interface.returns((bool, dict))
    def set_password(self, name, password):
        """
        Set a user's password

        A hash on Linux and Solaris, the password itself on macOS and Windows. Says
        whether it worked.
        """
        return False

    # --- Feature: ageing

    # not promised: maxdays, which mac_shadow does not take
    @Interface.supported(kernel=["Darwin", "Linux", "SunOS"])
    def set_maxdays(self, name, maxdays):
        """
        Set after how many days a password must be changed
        """

    # not promised: mindays, which mac_shadow does not take
    @Interface.supported(kernel=["Darwin", "Linux", "SunOS"])
    def set_mindays(self, name, mindays):
        """
        Set before how many days a password must not be changed
        """

    # not promised: warndays, which mac_shadow does not take
    @Interface.supported(kernel=["Darwin", "Linux", "SunOS"])
    def set_warndays(self, name, warndays):
        """
        Set how many days before its end a user is warned of it
        """

    # --- Feature: password locks

    @Interface.supported(kernel=["Linux"])
    def lock_password(self, name, root=None):
        """
        Lock a user's password
        """

    @Interface.supported(kernel=["Linux"])
    @Interface.returns(bool)
    def unlock_password(self, name, root=None):
        """
        Unlock a user's password
        """
        return False

    # --- Feature: hashes

    @Interface.supported(kernel=["Linux", "SunOS"])
    @Interface.returns(str)
    def default_hash(self):
        """
        Give the hash of a password that nobody has
        """
        return ""

    @Interface.supported(kernel=["Linux", "SunOS"])
    def gen_password(self, password, crypt_salt=None, algorithm="sha512"):
        """
        Hash a password
        """

    # --- Some modules

    # not promised: expire, which mac_shadow does not take
    @Interface.optional
    def set_expire(self, name, expire):
        """
        Set when an account expires
        """

    @Interface.optional
    def del_password(self, name):
        """
        Let a user log in without a password
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_account_created(self, name):
        """
        Get the date/time the account was created
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_last_change(self, name):
        """
        Get the date/time the account was changed
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_login_failed_count(self, name):
        """
        Get the number of failed login attempts
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_login_failed_last(self, name):
        """
        Get the date/time of the last failed login attempt
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_maxdays(self, name):
        """
        Get the maximum age of the password
        """

    # not promised: days, which linux_shadow does not take
    # not promised: inactdays, which mac_shadow does not take
    # not promised: root, which mac_shadow does not take
    @Interface.optional
    @Interface.supported(kernel=["Darwin", "Linux"])
    def set_inactdays(self, name, inactdays):
        """
        Set after how many days without a login an account is locked
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def set_change(self, name, date):
        """
        Sets the date on which the password expires
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_change(self, name):
        """
        Gets the date on which the password expires
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def get_expire(self, name):
        """
        Gets the date on which the account expires
        """

    @Interface.optional
    @Interface.supported(kernel=["Linux"])
    def set_date(self, name, date, root=None):
        """
        Set the day when the password was changed last
        """

    @Interface.optional
    @Interface.supported(kernel=["Linux"])
    @Interface.returns(list)
    def list_users(self, root=None):
        """
        Return a list of all shadow users
        """
        return []

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def require_password_change(self, name):
        """
        Require the user to change their password the next time they log in
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def unlock_account(self, name):
        """
        Unlocks a user account
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def verify_password(self, name, password):
        """
        Verify the password for a Windows user account by attempting a network logon
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["AIX"])
    @Interface.returns(list)
    def login_failures(self, user):
        """
        Query for all accounts which have 3 or more login failures
        """
        return []

    @Interface.optional
    @Interface.supported(kernel=["AIX"])
    @Interface.returns(list)
    def locked(self, user):
        """
        Query for all accounts which are flagged as locked
        """
        return []

    @Interface.optional
    @Interface.supported(kernel=["AIX"])
    def unlock(self, user):
        """
        Unlock user for locked account
        """
