"""
The interface of the virtual module ``group``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.feature("members", ["adduser", "deluser", "members"])
class GroupInterface(Interface):
    """
    Local groups: add, delete, change members, list
    """

    __modulename__ = "group"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns(bool)
    def add(self, name, gid=None):
        """
        Add a group

        On Unix ``gid`` is the number to give it. Returns whether the group was
        added.
        """
        return False

    @Interface.returns(bool)
    def delete(self, name):
        """
        Delete a group; returns whether it was deleted
        """
        return False

    @Interface.returns((dict, bool))
    def info(self, name):
        """
        Describe a group

        At least ``name``, ``gid``, ``passwd`` and ``members``, a list of names. An
        empty dictionary if there is no such group, false on Windows.
        """
        return {}

    @Interface.returns([dict])
    def getent(self, refresh=False):
        """
        Describe all groups, each as ``group.info`` does; ``refresh`` forgets what
        was read before
        """
        return []

    @Interface.not_applicable(kernel=["Windows"])
    @Interface.returns(bool)
    def chgid(self, name, gid):
        """
        Change a group's number; says whether it is now as asked
        """
        return False

    # --- Feature: members

    # not promised: username, which mac_group does not take
    @Interface.returns(bool)
    def adduser(self, name, username):
        """
        Add a user to a group
        """
        return False

    # not promised: username, which mac_group does not take
    @Interface.returns(bool)
    def deluser(self, name, username):
        """
        Take a user out of a group
        """
        return False

    @Interface.returns(bool)
    def members(self, name, members_list):
        """
        Replace the members of a group by a list of names with commas between them
        """
        return False

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def list_groups(self, refresh=False):
        """
        Return a list of groups
        """
