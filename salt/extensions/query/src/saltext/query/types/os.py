"""Operating systems: the nodes with an accepted key, in groups by what they run. All
that is told of a group is made of what fields of its nodes say.
"""

import saltext.query.types.node
from saltext.query import compare, dynamic, kinds
from saltext.query.field import Known, read
from saltext.query.item import Item, ItemType, named
from saltext.query.kinds import MISSING_NODATA, NODATA, NORMAL

_NODE = saltext.query.types.node.item_type()
_KNOWN = Known(_NODE.fields, dynamic.find)


class System(Item):
    """
    :ivar str name: the name and major release
    :ivar list nodes: the nodes that run it
    """

    __slots__ = ("nodes",)

    def __init__(self, context, name):
        super().__init__(context, name)
        self.nodes = []

    def cells(self, name):
        """Return the cells of its nodes in a field of theirs."""
        field = _KNOWN.find(name)
        return [field.cell(node) for node in self.nodes]

    def online_cnt(self):
        cells = self.cells("online")
        # one that can't be told makes the number one that can't be told
        if any(status == NODATA for status, _ in cells):
            return MISSING_NODATA
        return sum(bool(value) for _, value in cells)


def _items(context, _names):
    context.want(["grains:osfinger", "grains:os", "grains:osrelease"])
    found = {}
    for minion in context.accepted():
        node = saltext.query.types.node.Node(context, minion, minion)
        grains = node.grains or {}
        parts = [grains[key] for key in ("os", "osrelease") if grains.get(key)]
        name = grains.get("osfinger") or "-".join(
            str(one) for one in parts if isinstance(one, (str, int, float))
        )
        # what is no text, or too long for one, names nothing
        if name and kinds.is_kind("text", name):
            found.setdefault(name, System(context, name)).nodes.append(node)
    for name in named(found):
        yield found[name]


def _of(make):
    """Return a function of a node's field that makes a system's value of its values."""

    def of_field(name):
        return lambda system: make(
            [value for status, value in system.cells(name) if status == NORMAL]
        )

    return of_field


def _distinct(values):
    return {one for one in values if isinstance(one, (str, int))}


def _agreed(values):
    """Return the value that all nodes agree on; it is missing if they don't."""
    values = _distinct(values)
    return values.pop() if len(values) == 1 else None


def _all(values):
    return sorted(map(str, _distinct(values)), key=compare.text_key)


def _major(values):
    value = _agreed(values)
    # int() refuses what is very long, and longer numbers can't be sent
    is_number = isinstance(value, str) and value.isdecimal() and len(value) < 19
    return int(value) if is_number else value


_ONE = _of(_agreed)
_AGREED = ("os", "os_family", "kernel")


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


def item_type():
    return ItemType(
        "os",
        "Operating systems of the minions with an accepted key and grains",
        read(
            _FIELDS,
            System,
            {
                "name": lambda system: system.name,
                "major": _of(_major)("grain.osmajorrelease"),
                "node_cnt": lambda system: len(system.nodes),
                "node_list": lambda system: [node.name for node in system.nodes],
                "valid": lambda system: all(_ONE(name)(system) for name in _AGREED),
                "one:": _ONE,
                "all:": _of(_all),
                "sum:": _of(lambda values: sum(values) if values else MISSING_NODATA),
                "min:": _of(lambda values: min(values, default=None)),
                "max:": _of(lambda values: max(values, default=None)),
            },
            needs={
                **dict.fromkeys(("one", "all", "sum", "min", "max"), _needs),
                "agree": lambda _key: _needs(*_AGREED),
            },
        ),
        _items,
        usual=("name", "node_cnt", "family", "kernel", "salt_versions"),
    )
