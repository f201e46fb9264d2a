"""
The interface of the virtual module ``ip``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.feature(
    "build", ["build_interface", "build_routes", "build_network_settings"]
)
@Interface.feature(
    "network settings", ["get_network_settings", "apply_network_settings"]
)
class IpInterface(Interface):
    """
    Configuration of network interfaces, as the platform keeps it in files
    """

    __modulename__ = "ip"
    __version__ = "1.0"

    # --- Every module

    def get_interface(self, iface):
        """
        Return the contents of an interface script
        """

    @Interface.supported(kernel=["Linux"])
    def down(self, iface, iface_type):
        """
        Shutdown a network interface
        """

    @Interface.supported(kernel=["Linux"])
    def up(self, iface, iface_type):
        """
        Start up a network interface
        """

    @Interface.supported(kernel=["Linux"])
    def get_routes(self, iface):
        """
        Return the routes for the interface
        """

    # --- Feature: build

    def build_interface(self, iface, iface_type, enabled, **kwargs):
        """
        Build an interface script for a network interface
        """

    def build_routes(self, iface, **kwargs):
        """
        Add route scripts for a network interface using up commands
        """

    def build_network_settings(self, **kwargs):
        """
        Build the global network script
        """

    # --- Feature: network settings

    def get_network_settings(self):
        """
        Return the contents of the global network script
        """

    def apply_network_settings(self, **kwargs):
        """
        Apply global network configuration
        """

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def raw_interface_configs(self):
        """
        Return raw configs for all interfaces as returned by netsh
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_all_interfaces(self):
        """
        Return IP configuration for all network interfaces using the legacy
        ``netsh``-compatible data format
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def is_enabled(self, iface):
        """
        Returns ``True`` if interface is enabled, otherwise ``False``
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def is_disabled(self, iface):
        """
        Returns ``True`` if interface is disabled, otherwise ``False``
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(None)
    def enable(self, iface):
        """
        Enable an interface
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(None)
    def disable(self, iface):
        """
        Disable an interface
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_subnet_length(self, mask):
        """
        Convenience function to convert the netmask to the CIDR subnet length
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def set_static_ip(self, iface, addr, gateway=None, append=False):
        """
        Set static IP configuration on a Windows NIC
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def set_dhcp_ip(self, iface):
        """
        Set Windows NIC to get IP from DHCP
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def set_static_dns(self, iface, *addrs):
        """
        Set static DNS configuration on a Windows NIC
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def set_dhcp_dns(self, iface):
        """
        Set DNS source to DHCP on Windows
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def set_dhcp_all(self, iface):
        """
        Set both IP Address and DNS to DHCP
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_default_gateway(self, iface=None):
        """
        Get the Default Gateway on Windows
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_interface_index(self, iface, session=None):
        """
        Return the integer ``ifIndex`` for the named interface
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def set_interface(
        self,
        iface,
        alias=None,
        enabled=None,
        ipv4_enabled=None,
        ipv4_address=None,
        ipv4_dhcp=None,
        ipv4_dns=None,
        ipv4_forwarding=None,
        ipv4_gateways=None,
        ipv4_metric=None,
        ipv4_wins=None,
        ipv4_netbios=None,
        ipv6_enabled=None,
        ipv6_address=None,
        ipv6_dhcp=None,
        ipv6_dns=None,
        ipv6_forwarding=None,
        ipv6_gateways=None,
        ipv6_metric=None,
        dns_register=None,
        dns_suffix=None,
        mtu=None,
        append=False,
    ):
        """
        Configures a network interface on Windows
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def get_interface_new(self, iface):
        """
        Retrieves the current configuration of a network interface on Windows
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def list_interfaces(self, full=False):
        """
        Lists the available network interfaces on the system
        """

    @Interface.optional
    def build_bond(self, iface, **kwargs):
        """
        Create a bond script in /etc/modprobe.d with the passed settings and load
        the bonding kernel module
        """

    @Interface.optional
    def get_bond(self, iface):
        """
        Return the content of a bond script
        """

    @Interface.optional
    def netplan_active(self):
        """
        Return True if netplan appears to be the active network renderer: the
        ``netplan`` command is available and ``/etc/netplan`` exists
        """

    @Interface.optional
    def nm_managed(self):
        """
        Return True if this system is managed by NetworkManager without the legacy
        network-scripts tooling: ``nmcli`` is available, NetworkManager is running
        (``/run/NetworkManager`` exists) and neither ``ifup`` nor ``ifdown`` is on
        PATH
        """
