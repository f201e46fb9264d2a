"""
The interface of the virtual module ``nxos``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class NxosInterface(Interface):
    """
    Cisco Nexus switches. Two files make this one module.
    """

    __modulename__ = "nxos"
    __version__ = "1.0"

    # --- Every module

    def ping(self, **kwargs):
        """
        Ping the device on the other end of the connection
        """

    @Interface.returns((None, bool))
    def check_password(self, username, password, encrypted=False, **kwargs):
        """
        Verify user password
        """

    @Interface.returns(bool)
    def check_role(self, username, role, **kwargs):
        """
        Verify role assignment for user
        """
        return False

    def find(self, pattern, **kwargs):
        """
        Find all instances where the pattern is in the running configuration
        """

    def get_roles(self, username, **kwargs):
        """
        Get roles assigned to a username
        """

    def get_user(self, username, **kwargs):
        """
        Get username line from switch
        """

    def grains(self, **kwargs):
        """
        Get grains for minion
        """

    def grains_refresh(self, **kwargs):
        """
        Refresh the grains for the NX-OS device
        """

    def sendline(self, command, method="cli_show_ascii", **kwargs):
        """
        Send arbitrary commands to the NX-OS device
        """

    def show_ver(self, **kwargs):
        """
        Shortcut to run `show version` on the NX-OS device
        """

    def show_run(self, **kwargs):
        """
        Shortcut to run `show running-config` on the NX-OS device
        """

    def config(
        self,
        commands=None,
        config_file=None,
        template_engine="jinja",
        context=None,
        defaults=None,
        saltenv="base",
        **kwargs,
    ):
        """
        Configures the Nexus switch with the specified commands
        """

    def delete_config(self, lines, **kwargs):
        """
        Delete one or more config lines to the switch running config
        """

    def remove_user(self, username, **kwargs):
        """
        Remove user from switch
        """

    @Interface.returns(dict)
    def replace(self, old_value, new_value, full_match=False, **kwargs):
        """
        Replace string or full line matches in switch's running config
        """
        return {}

    def save_running_config(self, **kwargs):
        """
        Save the running configuration to startup configuration
        """

    def set_password(
        self,
        username,
        password,
        encrypted=False,
        role=None,
        crypt_salt=None,
        algorithm="sha256",
        **kwargs,
    ):
        """
        Set users password on switch
        """

    def set_role(self, username, role, **kwargs):
        """
        Assign role to username
        """

    def unset_role(self, username, role, **kwargs):
        """
        Remove role from username
        """

    def check_upgrade_impact(
        self, system_image, kickstart_image=None, issu=True, **kwargs
    ):
        """
        Display upgrade impact information without actually upgrading the device
        """

    def upgrade(self, system_image, kickstart_image=None, issu=True, **kwargs):
        """
        Upgrade NX-OS switch
        """
