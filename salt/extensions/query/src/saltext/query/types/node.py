"""
Nodes: the minions that have a key at this master.
"""

import saltext.query.dynamic
from saltext.query.field import Field, alias
from saltext.query.item import Item, ItemType, grain, hosts, interfaces
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL

#: Interfaces that have fields of their own.
NICS = 8


class Node(Item):
    """
    :ivar str name: the minion's id
    """

    __slots__ = ()

    def minion(self):
        """
        Return its id.
        """
        return self.name

    def live(self, key):
        """
        Return what the minion has answered, or why there is no answer. Only minions
        with an accepted key can be asked.
        """
        if self.context.keys[self.name] != "accepted":
            return MISSING_UNAVAIL
        return super().live(key)


def _items(context, names):
    for name in hosts(context.keys, names, context.absent):
        yield Node(context, name)


def _grain_field(name, title, kind, doc, key, convert=None):
    def get(node):
        value = grain(node.grains(node.name), key)
        return value if convert is None else convert(value)

    return Field(name, title, kind, doc, get, needs=(f"grains:{key}",))


def _online(node):
    presence = node.context.source("presence")
    found = presence.is_connected(node.grains(node.name))
    return MISSING_NODATA if found is None else found


def _seen(node):
    ret = node.context.documents.updated("grains", node.name)
    return MISSING_UNAVAIL if ret is None else ret


def _nic_field(number):
    def get(node):
        found = interfaces(node.grains(node.name))
        if not isinstance(found, list):
            return found
        return found[number] if number < len(found) else MISSING_UNAVAIL

    return Field(
        f"nic{number}.ip",
        f"Nic.IP/{number}",
        "text",
        f"First IPv4 address of interface {number}, counted without loopback",
        get,
        needs=("grains:ip4_interfaces",),
    )


def _whole(value):
    """
    Return a size that some platforms report with a fraction.
    """
    return int(value) if isinstance(value, float) and value - value == 0 else value


def _instances(node):
    return node.context.source("resources").count(node.name)


def _live_field(name, title, kind, doc, key, **more):
    return Field(
        name,
        title,
        kind,
        f"{doc}; asks the minion",
        lambda node: node.live(key),
        needs=(f"live:{key}",),
        **more,
    )


#: Names of grains that people know, for the fields that are of them.
_GRAIN_NAMES = {
    "osrelease": "os_release",
    "osfinger": "os_finger",
    "kernelrelease": "kernel_release",
    "cpuarch": "arch",
    "num_cpus": "ctotal",
    "mem_total": "mtotal",
    "productname": "product",
    "serialnumber": "serial",
    "saltversion": "salt_version",
    "pythonversion": "python_version",
    "seen": "seen_ts",
}


def _with_aliases(fields):
    known = {field.name: field for field in fields}
    return [*fields, *[alias(name, known[one]) for name, one in _GRAIN_NAMES.items()]]


_NODE = ItemType(
    "node",
    "Minions that have a key at this master",
    _with_aliases(
        [
            Field(
                "name",
                "Node",
                "text",
                "Minion identifier",
                lambda node: node.name,
                host=True,
            ),
            Field(
                "key_state",
                "KeyState",
                "text",
                "State of the minion's key: accepted, pending, rejected or denied",
                lambda node: node.context.keys[node.name],
            ),
            Field(
                "online",
                "Online",
                "bool",
                "Whether an address of the minion is connected to this master, if that can be told",
                _online,
                needs=("presence", "grains:ipv4", "grains:ipv6"),
            ),
            _live_field(
                "alive", "Alive", "bool", "Whether the minion answers now", "alive"
            ),
            Field(
                "seen_ts",
                "Seen",
                "timestamp",
                "Time at which the minion last sent its grains",
                _seen,
                needs=("mtime",),
            ),
            _grain_field("os", "OS", "text", "Operating system name", "os"),
            _grain_field(
                "os_family", "OSFamily", "text", "Operating system family", "os_family"
            ),
            _grain_field(
                "os_release",
                "OSRelease",
                "text",
                "Operating system release",
                "osrelease",
            ),
            _grain_field(
                "os_finger",
                "OSFinger",
                "text",
                "Operating system name and major release",
                "osfinger",
            ),
            _grain_field("kernel", "Kernel", "text", "Kernel name", "kernel"),
            _grain_field(
                "kernel_release",
                "KernelRelease",
                "text",
                "Kernel release",
                "kernelrelease",
            ),
            _grain_field("arch", "Arch", "text", "Processor architecture", "cpuarch"),
            _grain_field(
                "ctotal", "CTotal", "number", "Number of logical processors", "num_cpus"
            ),
            _grain_field(
                "cpu_model", "CPUModel", "text", "Processor model", "cpu_model"
            ),
            _grain_field(
                "mtotal",
                "MTotal",
                "unit",
                "Total amount of memory",
                "mem_total",
                _whole,
            ),
            _live_field("mfree", "MFree", "unit", "Memory available now", "meminfo"),
            _live_field("load", "Load", "float", "Load of the last minute", "loadavg"),
            _live_field(
                "dfree", "DFree", "unit", "Room left on the root file system", "disk"
            ),
            _live_field(
                "uptime",
                "Uptime",
                "number",
                "Seconds since the system was started",
                "uptime",
                span=True,
            ),
            _grain_field(
                "virtual",
                "Virtual",
                "text",
                "Type of virtualisation, or physical",
                "virtual",
            ),
            _grain_field(
                "product", "Product", "text", "Hardware product", "productname"
            ),
            _grain_field(
                "manufacturer",
                "Manufacturer",
                "text",
                "Hardware manufacturer",
                "manufacturer",
            ),
            _grain_field("serial", "Serial", "text", "Serial number", "serialnumber"),
            _grain_field("uuid", "UUID", "text", "UUID of the system", "uuid"),
            _grain_field("fqdn", "FQDN", "text", "Fully qualified domain name", "fqdn"),
            _grain_field(
                "salt_version",
                "SaltVersion",
                "text",
                "Salt version of the minion",
                "saltversion",
            ),
            _grain_field(
                "python_version",
                "PythonVersion",
                "other",
                "Python version of the minion",
                "pythonversion",
            ),
            _grain_field("init", "Init", "text", "Init system", "init"),
            _grain_field("timezone", "TimeZone", "text", "Time zone", "timezone"),
            _grain_field("roles", "Roles", "other", "Roles given by a grain", "roles"),
            _grain_field("ip4_list", "IPv4List", "other", "IPv4 addresses", "ipv4"),
            _grain_field("ip6_list", "IPv6List", "other", "IPv6 addresses", "ipv6"),
            *[_nic_field(number) for number in range(NICS)],
            Field(
                "vinst_cnt",
                "Instances",
                "number",
                "Number of instances that the minion manages",
                _instances,
                needs=("mine:virt.vm_info", "registry"),
            ),
            _live_field(
                "job_cnt",
                "RunningJobs",
                "number",
                "Number of jobs that the minion runs now",
                "running",
            ),
        ]
    ),
    _items,
    usual=("name", "key_state", "os", "os_release", "mtotal", "seen_ts"),
    dynamic=saltext.query.dynamic.find,
)


def item_type():
    """
    Return the item type.
    """
    return _NODE
