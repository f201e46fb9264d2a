"""
The interface of the virtual module ``network``
"""

from __future__ import annotations

import typing

from salt.interfaces import Feature, Interface


class Connection(typing.TypedDict):
    result: bool | None
    comment: str


class NetworkInterface(Interface):
    """Addresses, routes and connections of the minion."""

    __modulename__ = "network"
    __deprecated__ = {
        "hwaddr": "hw_addr",
        "ip_in_subnet": "in_subnet",
        "ipaddrs": "ip_addrs",
        "ipaddrs6": "ip_addrs6",
        "ipneighs": "ip_neighs",
        "ipneighs6": "ip_neighs6",
    }

    def interfaces(self) -> dict:
        """
        Describe all interfaces: names to dictionaries with ``up``, ``hwaddr`` and, if
        there are addresses, ``inet`` and ``inet6``, lists of dictionaries with
        ``address``
        """

    def interface(self, iface) -> list | str:
        """List the IPv4 addresses of an interface; a sentence if there is none."""

    def interface_ip(self, iface) -> str:
        """
        Return the first IPv4 address of an interface, or a sentence that there is none
        """

    def ip_addrs(
        self,
        interface=None,
        include_loopback=False,
        cidr=None,
        type=None,  # pylint: disable=redefined-builtin
    ) -> list:
        """
        List the IPv4 addresses of the machine

        ``interface`` leaves the others out, ``include_loopback`` keeps those of the
        machine itself, ``cidr`` keeps those of one network, ``type`` is ``public`` or
        ``private``.
        """

    def ip_addrs6(self, interface=None, include_loopback=False, cidr=None) -> list:
        """List the IPv6 addresses of the machine; see ``network.ip_addrs``"""

    def hw_addr(self, iface) -> str:
        """
        Return the hardware address of an interface, or a sentence that there is none
        """

    def subnets(self) -> list:
        """List the IPv4 networks that the machine is in, as address and length"""

    def subnets6(self) -> list:
        """List the IPv6 networks that the machine is in, as address and length"""

    def in_subnet(self, cidr) -> bool:
        """Say whether the machine has an address in a network"""

    def get_hostname(self) -> str:
        """Return the name of the machine"""

    def get_fqdn(self) -> str:
        """Return the name of the machine with its domain"""

    def get_route(self, ip) -> dict:
        """Describe the route to an address"""

    def netstat(self) -> list:
        """List open connections and listening ports"""

    def ping(self, host, timeout=False, return_boolean=False) -> str | bool:
        """Ping a host; return the output, or with ``return_boolean`` a bool"""

    def connect(self, host, port=None, **kwargs) -> Connection:
        """Open a connection to a port of a host; ``result`` is whether it worked"""

    class Tools(Feature):
        """Programs of the network"""

        def dig(self, host) -> str:
            """Ask the name service with the tool ``dig``; returns what it prints"""

        def traceroute(self, host) -> list:
            """List the hops on the way to a host"""

        def wol(self, mac, bcast="255.255.255.255", destport=9) -> bool:
            """Send a packet that wakes up another machine"""
