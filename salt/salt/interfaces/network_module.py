"""
The interface of the virtual module ``network``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface

# parameters have the names that they have in the modules
# pylint: disable=redefined-builtin


@Interface.feature("names of hosts", ["mod_hostname", "fqdns"])
@Interface.feature("buffers", ["get_bufsize", "mod_bufsize"])
@Interface.feature("routes", ["routes", "default_route"])
@Interface.feature(
    "neighbours", ["arp", "ip_neighs", "ipneighs", "ip_neighs6", "ipneighs6"]
)
@Interface.feature("networks", ["ip_networks", "ip_networks6"])
class NetworkInterface(Interface):
    """
    What the machine's network looks like, and simple tools to look further
    """

    __modulename__ = "network"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns(bool)
    def wol(self, mac, bcast="255.255.255.255", destport=9):
        """
        Send a packet that wakes up another machine
        """
        return False

    @Interface.returns((str, bool))
    def ping(self, host, timeout=False, return_boolean=False):
        """
        Ping a host; returns what the tool prints, or with ``return_boolean``
        whether the host answered
        """
        return ""

    @Interface.returns(list)
    def netstat(self):
        """
        List open connections and listening ports
        """
        return []

    @Interface.returns(list)
    def traceroute(self, host):
        """
        List the hops on the way to a host
        """
        return []

    @Interface.returns(str)
    def dig(self, host):
        """
        Ask the name service with the tool ``dig``; returns what it prints
        """
        return ""

    @Interface.returns(dict)
    def interfaces(self):
        """
        Describe all interfaces: names to dictionaries with ``up``, ``hwaddr`` and,
        if there are addresses, ``inet`` and ``inet6``, lists of dictionaries with
        ``address``
        """
        return {}

    @Interface.returns(str)
    def hw_addr(self, iface):
        """
        Return the hardware address of an interface, or a sentence that there is
        none
        """
        return ""

    @Interface.returns(str)
    def hwaddr(self, iface):
        """
        The same as ``network.hw_addr``
        """
        return ""

    @Interface.returns((list, str))
    def interface(self, iface):
        """
        List the IPv4 addresses of an interface, each as a dictionary, or a sentence
        that there is none
        """
        return []

    @Interface.returns(str)
    def interface_ip(self, iface):
        """
        Return the first IPv4 address of an interface, or a sentence that there is
        none
        """
        return ""

    # not promised: interfaces, which win_network does not take
    @Interface.returns(list)
    def subnets(self):
        """
        List the IPv4 networks that the machine is in, as address and length
        """
        return []

    @Interface.returns(list)
    def subnets6(self):
        """
        List the IPv6 networks that the machine is in, as address and length
        """
        return []

    @Interface.returns(bool)
    def in_subnet(self, cidr):
        """
        Say whether the machine has an address in a network
        """
        return False

    @Interface.returns(bool)
    def ip_in_subnet(self, ip_addr, cidr):
        """
        Say whether an address is in a network
        """
        return False

    @Interface.returns({"network": (str, None), "netmask": (str, None)})
    def convert_cidr(self, cidr):
        """
        Split a network into ``network`` and ``netmask``; both are None if it is not
        one
        """
        return {"network": None, "netmask": None}

    @Interface.returns(str)
    def calc_net(self, ip_addr, netmask=None):
        """
        Return the network that an address and a mask make
        """
        return ""

    @Interface.returns(list)
    def ip_addrs(self, interface=None, include_loopback=False, cidr=None, type=None):
        """
        List the IPv4 addresses of the machine

        ``interface`` leaves the others out, ``include_loopback`` keeps those of the
        machine itself, ``cidr`` keeps those of one network, ``type`` is ``public``
        or ``private``.
        """
        return []

    @Interface.returns(list)
    def ipaddrs(self, interface=None, include_loopback=False, cidr=None, type=None):
        """
        The same as ``network.ip_addrs``
        """
        return []

    @Interface.returns(list)
    def ip_addrs6(self, interface=None, include_loopback=False, cidr=None):
        """
        List the IPv6 addresses of the machine; see ``network.ip_addrs``
        """
        return []

    @Interface.returns(list)
    def ipaddrs6(self, interface=None, include_loopback=False, cidr=None):
        """
        The same as ``network.ip_addrs6``
        """
        return []

    @Interface.returns(str)
    def get_hostname(self):
        """
        Return the name of the machine
        """
        return ""

    @Interface.returns(str)
    def get_fqdn(self):
        """
        Return the name of the machine with its domain
        """
        return ""

    @Interface.returns({"result": (bool, None), "comment": str})
    def connect(self, host, port=None, **kwargs):
        """
        Try to open a connection to a port of a host; says in ``result`` whether it
        worked
        """
        return {"result": False, "comment": ""}

    @Interface.returns(bool)
    def is_private(self, ip_addr):
        """
        Say whether an address is one that is not routed in the Internet
        """
        return False

    @Interface.returns(
        {
            "destination": object,
            "gateway": object,
            "interface": object,
            "source": object,
        }
    )
    def get_route(self, ip):
        """
        Describe the route to an address
        """
        return {"destination": None, "gateway": None, "interface": None, "source": None}

    @Interface.returns(list)
    def ifacestartswith(self, cidr):
        """
        List the interfaces with an address that starts as a text does
        """
        return []

    @Interface.returns(str)
    def iphexval(self, ip):
        """
        Return an IPv4 address as eight hexadecimal digits
        """
        return ""

    # --- Feature: names of hosts

    @Interface.returns(bool)
    def mod_hostname(self, hostname):
        """
        Modify hostname
        """
        return False

    @Interface.returns(dict)
    def fqdns(self):
        """
        Return all known FQDNs for the system by enumerating all interfaces and then
        trying to reverse resolve them (excluding 'lo' interface)
        """
        return {}

    # --- Feature: buffers

    def get_bufsize(self, iface):
        """
        Return network buffer sizes as a dict (currently linux only)
        """

    def mod_bufsize(self, iface, *args, **kwargs):
        """
        Modify network interface buffers (currently linux only)
        """

    # --- Feature: routes

    def routes(self, family=None):
        """
        Return currently configured routes from routing table
        """

    @Interface.returns(list)
    def default_route(self, family=None):
        """
        Return default route(s) from routing table
        """
        return []

    # --- Feature: neighbours

    @Interface.returns(dict)
    def arp(self):
        """
        Return the arp table from the minion
        """
        return {}

    @Interface.returns(dict)
    def ip_neighs(self):
        """
        Return the ip neighbour (arp) table from the minion for IPv4 addresses
        """
        return {}

    @Interface.returns(dict)
    def ipneighs(self):
        """
        Return the ip neighbour (arp) table from the minion for IPv4 addresses
        """
        return {}

    @Interface.returns(dict)
    def ip_neighs6(self):
        """
        Return the ip neighbour (arp) table from the minion for IPv6 addresses
        """
        return {}

    @Interface.returns(dict)
    def ipneighs6(self):
        """
        Return the ip neighbour (arp) table from the minion for IPv6 addresses
        """
        return {}

    # --- Feature: networks

    def ip_networks(self, interface=None, include_loopback=False, verbose=False):
        """
        Returns a list of IPv4 networks to which the minion belongs
        """

    def ip_networks6(self, interface=None, include_loopback=False, verbose=False):
        """
        Returns a list of IPv6 networks to which the minion belongs
        """

    # --- Some modules

    @Interface.optional
    def active_tcp(self):
        """
        Return a dict containing information on all of the running TCP connections
        (currently linux and solaris only)
        """

    @Interface.optional
    def is_loopback(self, ip_addr):
        """
        Check if the given IP address is a loopback address
        """

    @Interface.optional
    def reverse_ip(self, ip_addr):
        """
        Returns the reversed IP address
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(list)
    def nslookup(self, host):
        """
        Query DNS for information about a domain or ip address
        """
        return []

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(list)
    def interfaces_names(self):
        """
        Return a list of all the interfaces names
        """
        return []
