"""
Operating systems: what the accepted minions run, put together from their grains.
"""

import saltext.query.compare
import saltext.query.kinds
from saltext.query.field import read
from saltext.query.item import Item, ItemType, named
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL


class System(Item):
    """
    :ivar str name: the name and major release
    :ivar dict grains: the grains of each minion that runs it, by its id
    """

    __slots__ = ("minions",)

    def __init__(self, context, name):
        super().__init__(context, name)
        self.minions = {}

    def values(self, key):
        """
        Return the values of a grain that occur.
        """
        found = [grains.get(key) for grains in self.minions.values()]
        return {one for one in found if isinstance(one, (str, int)) and one != ""}


def _items(context, _names):
    """
    Read each minion's grains once, and keep what they have in common.
    """
    context.want(["grains:osfinger", "grains:os", "grains:osrelease"])
    found = {}
    for minion in context.accepted():
        grains = context.read("grains", minion)
        if not grains:
            continue
        name = grains.get("osfinger") or "-".join(
            str(grains[key]) for key in ("os", "osrelease") if grains.get(key)
        )
        if not isinstance(name, str) or not name:
            continue
        if name not in found:
            found[name] = System(context, name)
        found[name].minions[minion] = grains
    for name in named(found):
        yield found[name]


def _one(key):
    """
    Return a function for a grain that all minions are to agree on; it is missing if they
    don't.
    """

    def get(system):
        values = system.values(key)
        return values.pop() if len(values) == 1 else MISSING_UNAVAIL

    return get


def _all(key):
    def get(system):
        return sorted(map(str, system.values(key)), key=saltext.query.compare.text_key)

    return get


def _sum(key):
    """
    Return a function for the sum of what minions have told.
    """

    def get(system):
        found = [grains.get(key) for grains in system.minions.values()]
        told = [int(one) for one in found if saltext.query.kinds.is_kind("float", one)]
        return sum(told) if told else MISSING_NODATA

    return get


def _seen(choose):
    """
    Return a function for the first or the last time at which a minion sent its grains.
    """

    def get(system):
        documents = system.context.documents
        found = [documents.updated("grains", minion) for minion in system.minions]
        told = [one for one in found if one is not None]
        return choose(told) if told else MISSING_UNAVAIL

    return get


def _online(system):
    presence = system.context.source("presence")
    found = [presence.is_connected(grains) for grains in system.minions.values()]
    # one that can't be told makes the number one that can't be told
    return MISSING_NODATA if MISSING_NODATA in found else sum(found)


def _major(system):
    value = _one("osmajorrelease")(system)
    if isinstance(value, str) and value.isdecimal():
        # int() refuses what is very long, and longer numbers can't be sent
        return int(value) if len(value) < 19 else MISSING_UNAVAIL
    return value


def _agrees(system):
    return all(len(system.values(key)) == 1 for key in ("os", "os_family", "kernel"))


_FIELDS = """
name            Name           text      -                  Name and major release, as in the grain osfinger
os              OS             text      one:os             Name
family          Family         text      one:os_family      Family
fullname        FullName       text      one:osfullname     Long name
codename        Codename       text      one:oscodename     Name of the release
major           Major          number    one:osmajorrelease Number of the major release
releases        Releases       other     all:osrelease      Releases that occur
kernel          Kernel         text      one:kernel         Kernel
kernel_releases KernelReleases other     all:kernelrelease  Kernel releases that occur
arches          Arches         other     all:osarch         Architectures that occur
init            Init           other     all:init           Init systems that occur
virtuals        Virtuals       other     all:virtual        Types of virtualisation that occur
salt_versions   SaltVersions   other     all:saltversion    Salt versions that occur
node_cnt        Nodes          number    -                  Number of minions
node_list       NodeList       other     -                  Minions that run it
online_cnt      Online         number    presence           Number of minions with a connected address, if that can be told
mtotal          MTotal         unit      grains:mem_total   Memory of those of its minions that have told it
ctotal          CTotal         number    grains:num_cpus    Logical processors of those of its minions that have told it
first_ts        FirstSeen      timestamp mtime              Longest time ago that one of its minions last sent its grains
last_ts         LastSeen       timestamp mtime              Time at which the last of its minions sent its grains
valid           Valid          bool      agree              Whether its minions agree on name, family and kernel
"""

_OS = ItemType(
    "os",
    "Operating systems of the minions with an accepted key and grains",
    read(
        _FIELDS,
        {
            "name": lambda system: system.name,
            "major": _major,
            "node_cnt": lambda system: len(system.minions),
            "node_list": lambda system: list(system.minions),
            "online_cnt": _online,
            "first_ts": _seen(min),
            "last_ts": _seen(max),
            "valid": _agrees,
            "one:": _one,
            "all:": _all,
            "grains:": _sum,
        },
        needs={
            "one": ("grains:{}",),
            "all": ("grains:{}",),
            "presence": ("presence", "grains:ipv4", "grains:ipv6"),
            "agree": ("grains:os", "grains:os_family", "grains:kernel"),
        },
    ),
    _items,
    usual=("name", "node_cnt", "family", "kernel", "salt_versions"),
)


def item_type():
    """
    Return the item type.
    """
    return _OS
