"""A package and what is wanted of it.

The page of commands says what each word wants and locks.
"""

import hashlib
import json
from typing import NamedTuple

from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import condition, names

UNMANAGED = "unmanaged"
PRESENT = "present"
INSTALLED = "installed"
LATEST = "latest"
REMOVED = "removed"
PURGED = "purged"
KEPT = "kept"
WANTED = (UNMANAGED, PRESENT, INSTALLED, LATEST, REMOVED, PURGED, KEPT)
ABSENT = (REMOVED, PURGED)
# what it is called to want a package
THERE = (PRESENT, INSTALLED, LATEST, KEPT)
# what people call them who come from elsewhere
WORDS = {"absent": REMOVED}
# what locks a package
LOCKING = (INSTALLED, KEPT, *ABSENT)
CONDITIONAL = (PRESENT, INSTALLED, REMOVED, PURGED, KEPT)

FIELDS = frozenset({"package", "wanted", "version", "floor"})


class Item(NamedTuple):
    name: str  # the name of the package
    architecture: str  # its architecture, or an empty string for that of the minion
    wanted: str  # one of WANTED
    # what its version must fulfil: a tuple of pairs of operator and version
    condition: tuple = ()
    # the version that an upgrade of the entry asked for, or an empty string: an older
    # one is not accepted, whatever the condition says
    floor: str = ""

    @property
    def key(self):
        """The name that package managers and people use: ``name`` or ``name:architecture``"""
        return f"{self.name}:{self.architecture}" if self.architecture else self.name

    @property
    def policy(self):
        """What is wanted, without the name: equal policies do not conflict"""
        return self.wanted, frozenset(self.condition), self.floor

    @property
    def version(self):
        return condition.show(self.condition)

    @property
    def bounds(self):
        return (*self.condition, (">=", self.floor)) if self.floor else self.condition

    def to_dict(self):
        data = {"package": self.key, "wanted": self.wanted}
        if self.condition:
            data["version"] = self.version
        if self.floor:
            data["floor"] = self.floor
        return data


def make(package, wanted, version=None, floor=None):
    name, architecture = names.split(package)
    if isinstance(wanted, str):
        wanted = WORDS.get(wanted, wanted)
    if not isinstance(wanted, str) or wanted not in WANTED:
        raise InvalidInput(
            f"{package}: wanted={names.shown(wanted)} is no such word; say one of"
            f" {', '.join(WANTED)}."
        )
    if version is not None and not isinstance(version, str):
        names.version(version)
    word = version.strip().lower() if version else ""
    if word == "any":
        version = ""
    elif word == "latest":
        if wanted not in (INSTALLED, LATEST):
            raise InvalidInput(
                f"{package}: {wanted} takes no latest; name the versions, such as <2.0."
            )
        wanted, version = LATEST, ""
    parts = condition.parse(version or "")
    if parts and wanted not in CONDITIONAL:
        raise InvalidInput(f"{package}: {wanted} takes no version; leave it out.")
    exact = all(one == "=" and not condition.is_glob(other) for one, other in parts)
    if wanted == KEPT and not (exact and len(parts) <= 1):
        raise InvalidInput(f"{package}: kept takes one exact version, or none.")
    if floor:
        names.version(floor)
        if wanted != INSTALLED:
            raise InvalidInput(f"{package}: {wanted} has no floor; leave it out.")
    return Item(name, architecture, wanted, parts, floor or "")


def from_dict(data):
    """Return an item out of plain data, as :meth:`Item.to_dict` gives it"""
    if not isinstance(data, dict) or not {"package", "wanted"} <= set(data) <= FIELDS:
        raise InvalidInput(
            "An entry has the fields package and wanted, and may have version and floor."
        )
    return make(data["package"], data["wanted"], data.get("version"), data.get("floor"))


def ordered(items):
    result = tuple(sorted(items, key=lambda item: (item.name, item.architecture)))
    for one, two in zip(result, result[1:]):
        if one[:2] == two[:2]:
            raise InvalidInput(f"{one.key} is there twice; keep one of the entries.")
    return result


def dump(items):
    """Return items as one line of JSON, the same for the same items"""
    return json.dumps([item.to_dict() for item in items], separators=(",", ":"))


def digest(items):
    """Return a short digest of items: on every master the same for the same items"""
    return hashlib.sha256(dump(items).encode()).hexdigest()[:12]


def show(item):
    if item is None:
        return None
    words = [item.wanted, item.version, f"(from {item.floor} on)" if item.floor else ""]
    return " ".join(word for word in words if word)


def between(old, new):
    """Return what two lists of items differ in: by package, ``old`` and ``new`` as text or None"""
    old = {item.key: item for item in old}
    new = {item.key: item for item in new}
    return {
        key: {"old": show(old.get(key)), "new": show(new.get(key))}
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    }
