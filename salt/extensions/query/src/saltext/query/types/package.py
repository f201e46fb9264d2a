"""Packages: what minions have installed, as far as they have told the mine."""

import fnmatch
import operator

from saltext.query import compare
from saltext.query.field import read
from saltext.query.item import Item, ItemType
from saltext.query.kinds import MISSING_NODATA
from saltext.query.locks import hold

#: What the mine may have of packages.
FUNCTIONS = ("package_state.inventory", "pkg.list_pkgs")

_MANAGERS = {"apt": "dpkg", "dnf": "rpm", "yum": "rpm", "zypper": "rpm"}
_FAMILIES = {"Debian": "dpkg", "RedHat": "rpm", "Suse": "rpm"}


class Package(Item):
    """One version of a package on a minion.

    :ivar str version: the version
    :ivar str manager: whose order versions have: dpkg, rpm, or None
    :ivar held: whether it is held, if that is known
    """

    __slots__ = ("held", "manager", "version")

    def __init__(self, context, name, minion, known):
        super().__init__(context, name, minion)
        self.version, self.manager, self.held = known

    def key(self):
        """Return what tells it from all others: a minion may have several versions."""
        return [self.name, self.minion, self.version]

    def told_ts(self):
        return self.context.documents.updated("mine", self.minion)


def _items(context, names):
    """Packages are many for each minion, so all are listed before they are sorted."""
    context.want([f"mine:{function}" for function in (*FUNCTIONS, *hold.HOLDS)])
    context.want(["grains:os_family", "grains:osarch"])
    found = []
    for minion in context.accepted():
        entries = context.source("resources").mine(minion, *FUNCTIONS, *hold.HOLDS)
        inventory, listed = entries[: len(FUNCTIONS)]
        inventory = inventory if isinstance(inventory, dict) else {}
        grains = context.read("grains", minion) or {}
        holds = hold.held(entries[len(FUNCTIONS) :])
        if holds is not None:
            # dpkg adds its own architecture to some names
            holds = {one.removesuffix(f":{grains.get('osarch')}") for one in holds}
        manager = _MANAGERS.get(str(inventory.get("platform")))
        manager = manager or _FAMILIES.get(str(grains.get("os_family")))
        packages = inventory.get("packages")
        packages = packages if isinstance(packages, dict) else listed
        if not isinstance(packages, dict):
            context.untold += 1
            continue
        for name, versions in _listed(packages):
            if names is not None and name not in names:
                continue
            held = any(fnmatch.fnmatchcase(name, one) for one in holds or ())
            held = MISSING_NODATA if holds is None else held
            for version in versions:
                one = Package(context, name, minion, (version, manager, held))
                if context.filter.holds(one) is not False:
                    found.append(one)
    key = compare.text_key
    # most minions have the same packages
    keys = {one.name: key(one.name) for one in found}
    found.sort(key=lambda one: (keys[one.name], key(one.minion), key(one.version)))
    yield from found


def _listed(packages):
    """Yield the name and the versions of each package."""
    for name, entry in packages.items():
        if isinstance(entry, dict) and "versions" in entry:
            entry = entry["versions"]
        if isinstance(entry, str):
            entry = entry.split(",")
        if isinstance(name, str) and isinstance(entry, list):
            versions = [
                one.get("version") if isinstance(one, dict) else one for one in entry
            ]
            yield name, [one for one in versions if isinstance(one, str)]


_FIELDS = """
name    Package text      - Name
node,minion Node text      - Minion that has it
version Version text      - Version that is installed, in the order of the minion's package manager
held    Held    bool      - Whether it is held, if the minion's mine has its holds
told_ts Told    timestamp mtime Time at which the minion last wrote to the mine
"""
_KNOWN = read(
    _FIELDS,
    Package,
    {"node": operator.attrgetter("minion"), "-:": operator.attrgetter},
    node={"host": True},
    version={"manager": operator.attrgetter("manager")},
)


def item_type():
    return ItemType(
        "package",
        "Packages of the minions whose mine has pkg.list_pkgs or package_state.inventory",
        _KNOWN,
        _items,
        usual=("name", "node", "version"),
    )
