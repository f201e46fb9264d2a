"""
Instances: virtual machines and other resources that minions manage.
"""

import re

import saltext.query.documents
import saltext.query.natural
from saltext.query.field import Field, alias
from saltext.query.item import Item, ItemType, grain, interfaces, several
from saltext.query.kinds import MISSING_NODATA, MISSING_OFFLINE, MISSING_UNAVAIL

try:
    from salt.utils.resource_registry import RESOURCE_GRAINS_BANK as _RESOURCE_GRAINS
except ImportError:
    # Salt has resources since 3008
    _RESOURCE_GRAINS = "resource_grains"

#: Disks and interfaces that have fields of their own.
DISKS = 8
NICS = 8

#: The type of those that come out of the mine.
VIRT = "virt"

_MINE = f"mine:{saltext.query.documents.VM_INFO}"
_SIZE = re.compile(r"([0-9.]{1,20}) ?([KMGT])i?B?")
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


class Instance(Item):
    """
    :ivar str name: its type, a colon and its id
    :ivar str node: the id of the minion that manages it
    :ivar dict info: what its node says of it, or None
    """

    __slots__ = ("type", "id", "node", "info")

    def __init__(self, context, type_, id_, node, info=None):
        super().__init__(context, f"{type_}:{id_}")
        self.type = type_
        self.id = id_
        self.node = node
        self.info = info

    def minion(self):
        """
        Return the id of the minion that manages it.
        """
        return self.node

    def is_virtual(self):
        """
        Return whether it is a virtual machine.
        """
        return self.type == VIRT

    def guest(self):
        """
        Return the id of the minion inside, or None.
        """
        if self.context.keys.get(self.id) == "accepted":
            return self.id
        return None

    def guest_grains(self):
        """
        Return grains of the instance itself, or None: those of the minion inside, or
        those that its node has collected.
        """
        guest = self.guest()
        if guest is not None:
            return self.grains(guest)
        return self.context.documents.fetch(
            _RESOURCE_GRAINS,
            self.name,
            self.context.wanted.get("grains", set()),
        )


def _items(context, names):
    """
    Instances are many for each of few minions, so all are listed before they are sorted,
    with what the query needs of them.
    """
    context.wanted.setdefault("mine", set()).add(saltext.query.documents.VM_INFO)
    known = context.source("resources")
    found = []
    for minion, state in context.keys.items():
        if state != "accepted":
            continue
        for name, info in (known.machines(minion) or {}).items():
            found.append(Instance(context, VIRT, name, minion, info))
        for type_, ids in known.resources(minion).items():
            found += [Instance(context, type_, one, minion) for one in ids]
    found.sort(
        key=lambda one: (
            saltext.query.natural.key(one.name),
            saltext.query.natural.key(one.node),
        )
    )
    yield from found if names is None else several(found, names, context.absent)


def _info_field(name, title, kind, doc, convert):
    """
    Return a field for what the node of a virtual machine says of it.
    """

    def get(instance):
        if not instance.is_virtual():
            return MISSING_UNAVAIL
        return MISSING_NODATA if instance.info is None else convert(instance.info)

    return Field(name, title, kind, doc, get, needs=(_MINE,))


def _live_info_field(name, title, kind, doc, convert):
    """
    Do the same for what does not hold any more once the node is offline.
    """
    inner = _info_field(name, title, kind, doc, convert)

    def get(instance):
        if _is_online(instance) is False:
            return MISSING_OFFLINE
        return inner.get(instance)

    needs = (*inner.needs, "presence", "grains:ipv4", "grains:ipv6")
    return Field(name, title, kind, doc, get, needs=needs)


def _is_online(instance):
    presence = instance.context.source("presence")
    found = presence.is_connected(instance.grains(instance.node))
    return MISSING_NODATA if found is None else found


def _key(name):
    return lambda info: grain(info, name)


def _scaled(name, factor):
    """
    Return a function for a number in another unit.
    """

    def convert(info):
        value = grain(info, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        return value * factor

    return convert


def _kib(name):
    def convert(info):
        value = grain(info, name)
        return value // 1024 if isinstance(value, int) else value

    return convert


def _running(info):
    state = grain(info, "state")
    return state == "running" if isinstance(state, str) else state


def _autostart(info):
    value = grain(info, "autostart")
    return bool(value) if isinstance(value, int) else value


def _parts(info, name):
    """
    Return the disks or interfaces in natural order of their names.
    """
    found = info.get(name)
    if not isinstance(found, dict):
        return None
    names = sorted(map(str, found), key=saltext.query.natural.key)
    return [(one, found.get(one)) for one in names]


def _count(name):
    def convert(info):
        found = _parts(info, name)
        return MISSING_NODATA if found is None else len(found)

    return convert


def mebibytes(value):
    """
    Return a size as a disk's: bytes as a number, or such as ``8.0 GiB``.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value // (1024 * 1024)
    match = _SIZE.match(value) if isinstance(value, str) else None
    try:
        return int(float(match.group(1)) * _MIB[match.group(2)])
    except (AttributeError, ValueError):
        return MISSING_NODATA


def _disk_field(number):
    def convert(info):
        found = _parts(info, "disks")
        if found is None:
            return MISSING_NODATA
        if number >= len(found):
            return MISSING_UNAVAIL
        disk = found[number][1]
        return mebibytes(disk.get("virtual size") if isinstance(disk, dict) else None)

    return _info_field(
        f"disk{number}.size",
        f"Disk.Size/{number}",
        "unit",
        f"Size of disk {number}",
        convert,
    )


def _mac_field(number):
    def convert(info):
        found = _parts(info, "nics")
        if found is None:
            return MISSING_NODATA
        return found[number][0] if number < len(found) else MISSING_UNAVAIL

    return _info_field(
        f"nic{number}.mac",
        f"Nic.MAC/{number}",
        "text",
        f"Hardware address of interface {number}",
        convert,
    )


def _ip_field(number):
    def get(instance):
        found = interfaces(instance.guest_grains())
        if not isinstance(found, list):
            return found
        return found[number] if number < len(found) else MISSING_UNAVAIL

    return Field(
        f"nic{number}.ip",
        f"Nic.IP/{number}",
        "text",
        f"First IPv4 address of interface {number} inside, counted without loopback",
        get,
        needs=("grains:ip4_interfaces",),
    )


def _guest_field(name, title, doc, key):
    return Field(
        name,
        title,
        "text",
        doc,
        lambda instance: grain(instance.guest_grains(), key),
        needs=(f"grains:{key}",),
    )


def _guest(instance):
    found = instance.guest()
    return MISSING_UNAVAIL if found is None else found


def _written(instance):
    if not instance.is_virtual():
        return MISSING_UNAVAIL
    found = instance.context.documents.updated("mine", instance.node)
    return MISSING_UNAVAIL if found is None else found


_NODE = Field(
    "pnode",
    "PrimaryNode",
    "text",
    "Minion that manages the instance",
    lambda instance: instance.node,
    host=True,
)

_INSTANCE = ItemType(
    "instance",
    "Virtual machines and other resources that minions manage",
    [
        Field(
            "name",
            "Instance",
            "text",
            "Type and identifier with a colon between them",
            lambda instance: instance.name,
        ),
        Field("type", "Type", "text", "Type", lambda instance: instance.type),
        Field("id", "ID", "text", "Identifier", lambda instance: instance.id),
        _NODE,
        alias("node", _NODE),
        Field(
            "pnode_online",
            "PrimaryOnline",
            "bool",
            "Whether an address of the managing minion is connected, if that can be told",
            _is_online,
            needs=("presence", "grains:ipv4", "grains:ipv6"),
        ),
        _live_info_field("status", "Status", "text", "Status", _key("state")),
        _live_info_field(
            "oper_state", "Running", "bool", "Whether the instance runs", _running
        ),
        _live_info_field("oper_ram", "Memory", "unit", "Memory in use", _kib("mem")),
        _info_field("max_ram", "MaxMemory", "unit", "Most memory", _kib("maxMem")),
        _info_field(
            "vcpus", "VCPUs", "number", "Number of virtual processors", _key("cpu")
        ),
        _live_info_field(
            "cputime",
            "CPUTime",
            "float",
            "Processor time that it has used, in seconds",
            _scaled("cputime", 1e-9),
        ),
        _info_field("uuid", "UUID", "text", "UUID of the instance", _key("uuid")),
        _info_field(
            "autostart",
            "Autostart",
            "bool",
            "Whether the instance starts with its node",
            _autostart,
        ),
        Field(
            "minion",
            "Minion",
            "text",
            "Minion inside the instance: the one of the same name",
            _guest,
            host=True,
        ),
        _guest_field("os", "OS", "Operating system inside", "os"),
        _guest_field("os_release", "OSRelease", "Its release", "osrelease"),
        _info_field(
            "disk.count", "Disks", "number", "Number of disks", _count("disks")
        ),
        *[_disk_field(number) for number in range(DISKS)],
        _info_field(
            "nic.count", "NICs", "number", "Number of interfaces", _count("nics")
        ),
        *[_mac_field(number) for number in range(NICS)],
        *[_ip_field(number) for number in range(NICS)],
        Field(
            "data_ts",
            "DataTime",
            "timestamp",
            "Time at which its node last wrote to the mine",
            _written,
            needs=("mtime",),
        ),
    ],
    _items,
    usual=("name", "pnode", "status", "vcpus", "oper_ram"),
)


def item_type():
    """
    Return the item type.
    """
    return _INSTANCE
