"""
The interface of the virtual module ``ntp``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class NtpInterface(Interface):
    """
    Time servers: of network devices by NAPALM, of Windows by its own service.
    The two have no function in common.
    """

    __modulename__ = "ntp"
    __version__ = "1.0"

    # --- Every module

    @Interface.supported(kernel=["proxy"])
    def peers(self, **kwargs):
        """
        Returns a list the NTP peers configured on the network device
        """

    @Interface.supported(kernel=["proxy"])
    def servers(self, **kwargs):
        """
        Returns a list of the configured NTP servers on the device
        """

    @Interface.supported(kernel=["proxy"])
    def set_peers(self, *peers, **kwargs):
        """
        Configures a list of NTP peers on the device
        """

    def set_servers(self, *servers):
        """
        Configures a list of NTP servers on the device
        """

    @Interface.supported(kernel=["proxy"])
    def delete_peers(self, *peers, **kwargs):
        """
        Removes NTP peers configured on the device
        """

    @Interface.supported(kernel=["proxy"])
    def delete_servers(self, *servers, **kwargs):
        """
        Removes NTP servers configured on the device
        """

    @Interface.supported(kernel=["Windows"])
    @Interface.returns((bool, list))
    def get_servers(self):
        """
        Get list of configured NTP servers
        """
        return False

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["proxy"])
    def stats(self, peer=None, **kwargs):
        """
        Returns a dictionary containing synchronization details of the NTP peers
        """
