"""
Operating systems: what the accepted minions run, put together from their grains.
"""

import saltext.query.natural
from saltext.query.field import Field
from saltext.query.item import Item, ItemType, named
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL

#: Grains of which all values that occur are kept.
_GRAINS = (
    "os",
    "os_family",
    "osfullname",
    "oscodename",
    "osmajorrelease",
    "osrelease",
    "kernel",
    "kernelrelease",
    "osarch",
    "init",
    "saltversion",
    "virtual",
)


class System(Item):
    """
    :ivar str name: the name and major release
    :ivar list minions: ids of the minions that run it
    :ivar dict values: for each grain, the values that occur
    """

    __slots__ = ("minions", "values", "online", "first", "last", "memory", "cpus")

    def __init__(self, context, name):
        super().__init__(context, name)
        self.minions = []
        self.values = {}
        self.online = None
        self.first = self.last = None
        self.memory = self.cpus = None

    def add(self, minion, grains):
        """
        Count a minion.
        """
        self.minions.append(minion)
        for key in _GRAINS:
            value = grains.get(key)
            if isinstance(value, (str, int)) and value != "":
                self.values.setdefault(key, set()).add(value)
        wanted = self.context.wanted
        if "presence" in wanted:
            found = self.context.source("presence").is_connected(grains)
            if found is not None:
                self.online = (self.online or 0) + found
        if "mtime" in wanted:
            when = self.context.documents.updated("grains", minion)
            if when is not None:
                self.first = when if self.first is None else min(self.first, when)
                self.last = when if self.last is None else max(self.last, when)
        self.memory = _sum(self.memory, grains, "mem_total")
        self.cpus = _sum(self.cpus, grains, "num_cpus")


def _sum(before, grains, key):
    """
    Return a sum with what a minion has told; None while none has.
    """
    value = grains.get(key)
    if isinstance(value, float) and value - value == 0:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return before
    return (before or 0) + value


def _items(context, names):
    """
    Read each minion's grains once, and keep what they have in common.
    """
    context.wanted.setdefault("grains", set()).update(("osfinger", "os", "osrelease"))
    found = {}
    for minion in sorted(context.keys, key=saltext.query.natural.key):
        if context.keys[minion] != "accepted":
            continue
        grains = context.read("grains", minion, minion)
        if not grains:
            continue
        name = grains.get("osfinger") or "-".join(
            str(grains[key]) for key in ("os", "osrelease") if grains.get(key)
        )
        if not isinstance(name, str) or not name:
            continue
        if name not in found:
            found[name] = System(context, name)
        found[name].add(minion, grains)
    for name in named(found, names, context.absent):
        yield found[name]


def _one(key):
    """
    Return a function for a grain that all minions are to agree on; it is missing if they
    don't.
    """

    def get(system):
        values = system.values.get(key, ())
        return next(iter(values)) if len(values) == 1 else MISSING_UNAVAIL

    return get


def _all(key):
    def get(system):
        return sorted(
            (str(value) for value in system.values.get(key, ())),
            key=saltext.query.natural.key,
        )

    return get


def _major(system):
    value = _one("osmajorrelease")(system)
    if isinstance(value, str) and value.isdecimal():
        # int() refuses what is very long, and longer numbers can't be sent
        return int(value) if len(value) < 19 else MISSING_UNAVAIL
    return value


def _agrees(system):
    return all(
        len(system.values.get(key, ())) == 1 for key in ("os", "os_family", "kernel")
    )


def _or_missing(name, missing):
    def get(system):
        value = getattr(system, name)
        return missing if value is None else value

    return get


def _field(name, title, kind, doc, get, *grains):
    return Field(name, title, kind, doc, get, [f"grains:{grain}" for grain in grains])


_OS = ItemType(
    "os",
    "Operating systems of the minions with an accepted key and grains",
    [
        Field(
            "name",
            "Name",
            "text",
            "Name and major release, as in the grain osfinger",
            lambda system: system.name,
            cost=0,
        ),
        _field("os", "OS", "text", "Name", _one("os"), "os"),
        _field("family", "Family", "text", "Family", _one("os_family"), "os_family"),
        _field(
            "fullname",
            "FullName",
            "text",
            "Long name",
            _one("osfullname"),
            "osfullname",
        ),
        _field(
            "codename",
            "Codename",
            "text",
            "Name of the release",
            _one("oscodename"),
            "oscodename",
        ),
        _field(
            "major",
            "Major",
            "number",
            "Number of the major release",
            _major,
            "osmajorrelease",
        ),
        _field(
            "releases",
            "Releases",
            "other",
            "Releases that occur",
            _all("osrelease"),
            "osrelease",
        ),
        _field("kernel", "Kernel", "text", "Kernel", _one("kernel"), "kernel"),
        _field(
            "kernel_releases",
            "KernelReleases",
            "other",
            "Kernel releases that occur",
            _all("kernelrelease"),
            "kernelrelease",
        ),
        _field(
            "arches",
            "Arches",
            "other",
            "Architectures that occur",
            _all("osarch"),
            "osarch",
        ),
        _field(
            "init", "Init", "other", "Init systems that occur", _all("init"), "init"
        ),
        _field(
            "virtuals",
            "Virtuals",
            "other",
            "Types of virtualisation that occur",
            _all("virtual"),
            "virtual",
        ),
        _field(
            "salt_versions",
            "SaltVersions",
            "other",
            "Salt versions that occur",
            _all("saltversion"),
            "saltversion",
        ),
        Field(
            "node_cnt",
            "Nodes",
            "number",
            "Number of minions",
            lambda system: len(system.minions),
        ),
        Field(
            "node_list",
            "NodeList",
            "other",
            "Minions that run it",
            lambda system: system.minions,
        ),
        Field(
            "online_cnt",
            "Online",
            "number",
            "Number of minions with a connected address",
            _or_missing("online", MISSING_NODATA),
            needs=("presence", "grains:ipv4", "grains:ipv6"),
        ),
        _field(
            "mtotal",
            "MTotal",
            "unit",
            "Memory of those of its minions that have told it",
            _or_missing("memory", MISSING_NODATA),
            "mem_total",
        ),
        _field(
            "ctotal",
            "CTotal",
            "number",
            "Logical processors of those of its minions that have told it",
            _or_missing("cpus", MISSING_NODATA),
            "num_cpus",
        ),
        Field(
            "first_ts",
            "FirstSeen",
            "timestamp",
            "Longest time ago that one of its minions last sent its grains",
            _or_missing("first", MISSING_UNAVAIL),
            needs=("mtime",),
        ),
        Field(
            "last_ts",
            "LastSeen",
            "timestamp",
            "Time at which the last of its minions sent its grains",
            _or_missing("last", MISSING_UNAVAIL),
            needs=("mtime",),
        ),
        _field(
            "valid",
            "Valid",
            "bool",
            "Whether its minions agree on name, family and kernel",
            _agrees,
            "os",
            "os_family",
            "kernel",
        ),
    ],
    _items,
    usual=("name", "node_cnt", "family", "kernel", "salt_versions"),
)


def item_type():
    """
    Return the item type.
    """
    return _OS
