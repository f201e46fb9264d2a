"""
Nodes: the minions that have a key at this master.
"""

from saltext.query.field import Field
from saltext.query.item import Item, ItemType, grain, hosts, interfaces
from saltext.query.kinds import (
    MISSING_NODATA,
    MISSING_OFFLINE,
    MISSING_PENDING,
    MISSING_UNAVAIL,
)

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
    for name in hosts(context.keys, names):
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
    return node.context.source("instances").count(node.name)


def _alive(node):
    found = node.live("alive")
    if found is MISSING_OFFLINE:
        return False
    # whatever it answers, it is alive
    return found if found in (MISSING_PENDING, MISSING_UNAVAIL) else True


def _free(node):
    found = node.live("meminfo")
    if not isinstance(found, dict):
        return found if not isinstance(found, str) else MISSING_NODATA
    for key in ("MemAvailable", "MemFree"):
        try:
            return int(found[key]["value"]) // 1024
        except (KeyError, OverflowError, TypeError, ValueError):
            continue
    return MISSING_NODATA


def _running(node):
    found = node.live("running")
    if not isinstance(found, list):
        return found if not isinstance(found, str) else MISSING_NODATA
    own = node.context.live.jid
    return sum(1 for job in found if isinstance(job, dict) and job.get("jid") != own)


_NODE = ItemType(
    "node",
    "Minions that have a key at this master",
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
            "Whether one of the minion's addresses is connected to this master",
            _online,
            needs=("presence", "grains:ipv4", "grains:ipv6"),
        ),
        Field(
            "alive",
            "Alive",
            "bool",
            "Whether the minion answers now; asks the minion",
            _alive,
            needs=("live:alive",),
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
            "os_release", "OSRelease", "text", "Operating system release", "osrelease"
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
            "kernel_release", "KernelRelease", "text", "Kernel release", "kernelrelease"
        ),
        _grain_field("arch", "Arch", "text", "Processor architecture", "cpuarch"),
        _grain_field(
            "ctotal", "CTotal", "number", "Number of logical processors", "num_cpus"
        ),
        _grain_field("cpu_model", "CPUModel", "text", "Processor model", "cpu_model"),
        _grain_field(
            "mtotal", "MTotal", "unit", "Total amount of memory", "mem_total", _whole
        ),
        Field(
            "mfree",
            "MFree",
            "unit",
            "Memory available now; asks the minion",
            _free,
            needs=("live:meminfo",),
        ),
        _grain_field(
            "virtual",
            "Virtual",
            "text",
            "Type of virtualisation, or physical",
            "virtual",
        ),
        _grain_field("product", "Product", "text", "Hardware product", "productname"),
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
        Field(
            "job_cnt",
            "RunningJobs",
            "number",
            "Number of jobs that the minion runs now; asks the minion",
            _running,
            needs=("live:running",),
        ),
    ],
    _items,
    usual=("name", "key_state", "os", "os_release", "mtotal", "seen_ts"),
)


def item_type():
    """
    Return the item type.
    """
    return _NODE
