"""Instances: virtual machines and other resources that minions manage."""

import operator

from saltext.query import compare, documents, human
from saltext.query.field import read
from saltext.query.item import Item, ItemType, address, grain
from saltext.query.kinds import MISSING_NODATA, MISSING_OFFLINE

#: The bank of what nodes tell of their resources, which Salt has since 3008.
_RESOURCE_GRAINS = "resource_grains"

#: Disks and interfaces that have fields of their own.
DISKS = 8
NICS = 8

#: The type of those that come out of the mine.
VIRT = "virt"

_MINE = f"mine:{documents.VM_INFO}"


class Instance(Item):
    """
    :ivar str name: its type, a colon and its id
    :ivar dict info: what its node says of it, or None
    """

    __slots__ = ("id", "info", "type")

    def __init__(self, context, type_, id_, node, info=None):
        super().__init__(context, f"{type_}:{id_}", node)
        self.type = type_
        self.id = id_
        self.info = info

    def guest(self):
        """Return the id of the minion inside, or None."""
        return self.id if self.context.keys.get(self.id) == "accepted" else None

    def guest_grains(self):
        """Return the grains of the minion inside, or what its node collected."""
        guest = self.guest()
        if guest is not None:
            return self.document("grains", guest)
        wanted = self.context.wanted.get("grains", set())
        return self.context.documents.fetch(_RESOURCE_GRAINS, self.name, wanted)

    def pnode_online(self):
        grains = self.document("grains", self.minion)
        return self.context.source("presence").is_connected(grains)

    def data_ts(self):
        if self.type != VIRT:
            return None
        return self.context.documents.updated("mine", self.minion)


def _items(context, _names):
    """Instances are many for each of few minions, so all are listed before they are
    sorted, with what the query needs of them.
    """
    context.want([_MINE])
    known = context.source("resources")
    found = []
    for minion in context.accepted():
        for name, info in (known.machines(minion) or {}).items():
            found.append(Instance(context, VIRT, name, minion, info))
        for type_, ids in known.resources(minion).items():
            found += [Instance(context, type_, one, minion) for one in ids]
    key = compare.text_key
    found.sort(key=lambda one: (key(one.name), key(one.minion)))
    yield from found


def _info(make):
    """Return a function for a key of what the node says, or what is made of it."""

    def get(instance):
        if instance.info is None:
            return MISSING_NODATA if instance.type == VIRT else None
        if isinstance(make, str):
            return grain(instance.info, make)
        return make(instance.info)

    return get


def _running(make):
    """Do the same for what does not hold any more once the node is offline."""
    inner = _info(make)
    return lambda instance: (
        MISSING_OFFLINE if instance.pnode_online() is False else inner(instance)
    )


def _parts(name, make):
    """Return a function for disks or interfaces: their names in order, and all."""

    def convert(info):
        found = info.get(name)
        if not isinstance(found, dict):
            return MISSING_NODATA
        return make(sorted(found, key=compare.text_key), found)

    return _info(convert)


def _disk(number):
    def size(names, disks):
        value = disks[names[number]]["virtual size"]
        if isinstance(value, int):
            return value // (1024 * 1024)
        # such as 8.0 GiB
        return int(human.size(value.partition("(")[0].strip()))

    return _parts("disks", size)


def _address(number):
    return lambda instance: address(instance.guest_grains(), number)


_FIELDS = """
name         Instance      text      -                Type and identifier with a colon between them
type         Type          text      -                Type
id           ID            text      -                Identifier
pnode,node   PrimaryNode   text      -                Minion that manages the instance
pnode_online PrimaryOnline bool      presence         Whether an address of the managing minion is connected, if that can be told
status       Status        text      running:state    Status
oper_state   Running       bool      running          Whether the instance runs
oper_ram     Memory        unit      running          Memory in use
max_ram      MaxMemory     unit      info             Most memory
vcpus        VCPUs         number    info:cpu         Number of virtual processors
cputime      CPUTime       float     running          Processor time that it has used, in seconds
uuid         UUID          text      info:uuid        UUID of the instance
autostart    Autostart     bool      info             Whether the instance starts with its node
minion       Minion        text      -                Minion inside the instance: the one of the same name
os           OS            text      grains:os        Operating system inside
os_release   OSRelease     text      grains:osrelease Its release
disk.count   Disks         number    info             Number of disks
nic.count    NICs          number    info             Number of interfaces
data_ts      DataTime      timestamp mtime            Time at which its node last wrote to the mine
"""
_DISK = "disk{0}.size Disk.Size/{0} unit info Size of disk {0}\n"
_NIC = """nic{0}.mac Nic.MAC/{0} text info Hardware address of interface {0}
nic{0}.ip Nic.IP/{0} text grains:ip4_interfaces First IPv4 address of interface {0} inside, counted without loopback
"""
_ADDRESSES = ("presence", "grains:ipv4", "grains:ipv6")

_KNOWN = read(
    _FIELDS
    + "".join(map(_DISK.format, range(DISKS)))
    + "".join(map(_NIC.format, range(NICS))),
    Instance,
    {
        "pnode": operator.attrgetter("minion"),
        "oper_state": _running(lambda info: info["state"] == "running"),
        "oper_ram": _running(lambda info: info["mem"] // 1024),
        "max_ram": _info(lambda info: info["maxMem"] // 1024),
        "cputime": _running(lambda info: info["cputime"] * 1e-9),
        "autostart": _info(lambda info: bool(info["autostart"])),
        "minion": Instance.guest,
        "disk.count": _parts("disks", lambda names, _disks: len(names)),
        "nic.count": _parts("nics", lambda names, _nics: len(names)),
        **{f"disk{number}.size": _disk(number) for number in range(DISKS)},
        **{
            f"nic{number}.mac": _parts("nics", lambda names, _, at=number: names[at])
            for number in range(NICS)
        },
        **{f"nic{number}.ip": _address(number) for number in range(NICS)},
        "-:": operator.attrgetter,
        "info:": _info,
        "running:": _running,
        "grains:": lambda key: lambda one: grain(one.guest_grains(), key),
    },
    needs={
        "presence": _ADDRESSES,
        "info": (_MINE,),
        "running": (_MINE, *_ADDRESSES),
    },
    pnode={"host": True},
    minion={"host": True},
)


def item_type():
    return ItemType(
        "instance",
        "Virtual machines and other resources that minions manage",
        _KNOWN,
        _items,
        usual=("name", "pnode", "status", "vcpus", "oper_ram"),
    )
