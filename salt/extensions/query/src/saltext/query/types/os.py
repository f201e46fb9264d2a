"""
Operating systems: the nodes with an accepted key, in groups by what they run. All that is
told of a group is made of what fields of its nodes say.
"""

import saltext.query.compare
import saltext.query.dynamic
import saltext.query.kinds
import saltext.query.types.node
from saltext.query.field import Known, read
from saltext.query.item import Item, ItemType, named
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL, NODATA, NORMAL

_NODE = saltext.query.types.node.item_type()
_KNOWN = Known(_NODE.fields, saltext.query.dynamic.find)


class System(Item):
    """
    :ivar str name: the name and major release
    :ivar list nodes: the nodes that run it
    """

    __slots__ = ("nodes",)

    def __init__(self, context, name):
        super().__init__(context, name)
        self.nodes = []

    def values(self, name):
        """
        Return what nodes have in a field of theirs.
        """
        cells = [_KNOWN.find(name).cell(node) for node in self.nodes]
        return [value for status, value in cells if status == NORMAL]

    def distinct(self, name):
        """
        Return the texts and numbers that occur in a field of nodes.
        """
        return {one for one in self.values(name) if isinstance(one, (str, int))}


def _items(context, _names):
    context.want(["grains:osfinger", "grains:os", "grains:osrelease"])
    found = {}
    for minion in context.accepted():
        node = saltext.query.types.node.Node(context, minion)
        grains = node.grains(minion) or {}
        parts = [grains[key] for key in ("os", "osrelease") if grains.get(key)]
        name = grains.get("osfinger") or "-".join(
            str(one) for one in parts if isinstance(one, (str, int, float))
        )
        # what is no text, or too long for one, names nothing
        if name and saltext.query.kinds.is_kind("text", name):
            found.setdefault(name, System(context, name)).nodes.append(node)
    for name in named(found):
        yield found[name]


def _one(name):
    """
    Return a function for a value that all nodes are to agree on; it is missing if they don't.
    """

    def get(system):
        values = system.distinct(name)
        return values.pop() if len(values) == 1 else MISSING_UNAVAIL

    return get


def _all(name):
    return lambda system: sorted(
        map(str, system.distinct(name)), key=saltext.query.compare.text_key
    )


def _of_numbers(function, otherwise):
    def make(name):
        def get(system):
            values = system.values(name)
            return function(values) if values else otherwise

        return get

    return make


def _online(system):
    cells = [_KNOWN.find("online").cell(node) for node in system.nodes]
    # one that can't be told makes the number one that can't be told
    if any(status == NODATA for status, _ in cells):
        return MISSING_NODATA
    return sum(bool(value) for _, value in cells)


def _major(system):
    value = _one("grain.osmajorrelease")(system)
    if isinstance(value, str) and value.isdecimal():
        # int() refuses what is very long, and longer numbers can't be sent
        return int(value) if len(value) < 19 else MISSING_UNAVAIL
    return value


_AGREED = ("os", "os_family", "kernel")


def _agrees(system):
    return all(len(system.distinct(name)) == 1 for name in _AGREED)


def _needs(*names):
    return [need for name in names for need in _KNOWN.find(name).needs]


_FIELDS = """
name            Name           text      -                  Name and major release, as in the grain osfinger
os              OS             text      one:os             Name
family          Family         text      one:os_family      Family
fullname        FullName       text      one:grain.osfullname Long name
codename        Codename       text      one:grain.oscodename Name of the release
major           Major          number    one:grain.osmajorrelease Number of the major release
releases        Releases       other     all:os_release     Releases that occur
kernel          Kernel         text      one:kernel         Kernel
kernel_releases KernelReleases other     all:kernel_release Kernel releases that occur
arches          Arches         other     all:grain.osarch   Architectures that occur
init            Init           other     all:init           Init systems that occur
virtuals        Virtuals       other     all:virtual        Types of virtualisation that occur
salt_versions   SaltVersions   other     all:salt_version   Salt versions that occur
node_cnt        Nodes          number    -                  Number of minions
node_list       NodeList       other     -                  Minions that run it
online_cnt      Online         number    one:online         Number of minions with a connected address, if that can be told
mtotal          MTotal         unit      sum:mtotal         Memory of those of its minions that have told it
ctotal          CTotal         number    sum:ctotal         Logical processors of those of its minions that have told it
first_ts        FirstSeen      timestamp min:seen_ts        Longest time ago that one of its minions last sent its grains
last_ts         LastSeen       timestamp max:seen_ts        Time at which the last of its minions sent its grains
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
            "node_cnt": lambda system: len(system.nodes),
            "node_list": lambda system: [node.name for node in system.nodes],
            "online_cnt": _online,
            "valid": _agrees,
            "one:": _one,
            "all:": _all,
            "sum:": _of_numbers(sum, MISSING_NODATA),
            "min:": _of_numbers(min, MISSING_UNAVAIL),
            "max:": _of_numbers(max, MISSING_UNAVAIL),
        },
        needs={
            **dict.fromkeys(("one", "all", "sum", "min", "max"), _needs),
            "agree": lambda _key: _needs(*_AGREED),
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
