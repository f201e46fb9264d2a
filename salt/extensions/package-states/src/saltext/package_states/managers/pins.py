"""The preferences file of apt in which Salt's pins are.

It is the record of the locks as well: what Salt holds, and which state asked for a pin.
"""

import contextlib
import fnmatch
import os
import re
from typing import NamedTuple

import saltext.package_states.minion.replace as replace

import salt.utils.files

HELD = "held by Salt"
ANY = ":any"
_FIELD = re.compile(r"^([\w-]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_STANZA = re.compile(
    r"Explanation: package state, (\w+)(, held by Salt)?(?:, of (\S+))?\n"
    r"Package: (\S+)\nPin: version (\S+)\nPin-Priority: (-?\d+)\n"
)


class Pin(NamedTuple):
    # ``name`` or ``name:architecture``; of a package that is away in any architecture,
    # the name
    key: str
    version: str  # the version that is wanted or not, with wildcards
    priority: int  # above 1000, this version and no other; below 0, not this version
    wanted: str  # what is wanted of the package
    held: bool = False  # whether Salt has put the package on hold too
    scope: str = ""  # the state for which it was set, if that was applied by itself

    @property
    def text(self):
        held = f", {HELD}" if self.held else ""
        scope = f", of {self.scope}" if self.scope else ""
        # without an architecture, apt means its own
        everywhere = ANY if self.priority < 0 and ":" not in self.key else ""
        return (
            f"Explanation: package state, {self.wanted}{held}{scope}\n"
            f"Package: {self.key}{everywhere}\n"
            f"Pin: version {self.version}\nPin-Priority: {self.priority}\n"
        )


def read(path):
    try:
        with salt.utils.files.fopen(path) as handle:
            text = handle.read()
    except FileNotFoundError:
        return []
    return [
        Pin(key.removesuffix(ANY), version, int(priority), wanted, bool(held), scope)
        for wanted, held, scope, key, version, priority in _STANZA.findall(text)
    ]


def text(pins):
    ordered = sorted(pins, key=lambda pin: ":" not in pin.key)
    return "\n".join(pin.text for pin in ordered)


def write(path, pins):
    """Replace a preferences file, or remove it if there are no pins"""
    if pins:
        # apt reads no file of this directory with the ending of the new one
        replace.put(path, text(pins))
    elif os.path.exists(path):
        os.unlink(path)


@contextlib.contextmanager
def instead(path, pins):
    """Yield options that let apt read other pins in the place of Salt's own"""
    folder, own = os.path.split(path)
    files = {own: text(pins) if pins else None}
    with replace.beside(files, folder) as others:
        yield ("-o", f"Dir::Etc::PreferencesParts={others}/")


class Other(NamedTuple):
    path: str  # its file
    names: tuple  # of packages, with wildcards
    # whether it keeps them at versions, or away, and is not of all packages
    locks: bool

    def has(self, key):
        name = key.partition(":")[0]
        return any(fnmatch.fnmatchcase(name, word) for word in self.names)


def others(path):
    """Return the stanzas of all preferences that apt reads beside Salt's own, a list of :class:`Other`"""
    folder, found = os.path.dirname(path), []
    places = [os.path.join(os.path.dirname(folder), "preferences")]
    if os.path.isdir(folder):
        places += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    for place in places:
        head, end = os.path.splitext(os.path.basename(place))
        if place == path or head.startswith(".") or end not in ("", ".pref"):
            continue
        try:
            with salt.utils.files.fopen(place) as handle:
                text = handle.read()
        except (OSError, ValueError):
            continue
        for stanza in re.split(r"\n[ \t]*\n", text):
            fields = dict(_FIELD.findall(stanza))
            words = fields.get("Package", "").split()
            away = fields.get("Pin-Priority", "").startswith("-")
            locks = away or fields.get("Pin", "").startswith("version")
            names = tuple(word.partition(":")[0] for word in words)
            found.append(Other(place, names, locks and "*" not in names))
    return found


def rival(path, key):
    """Return the preferences file in which somebody else names a package or all"""
    found = [other.path for other in others(path) if other.has(key)]
    return found[0] if found else "another preference of apt"


def shown(pins):
    found = {}
    for pin in pins:
        what = f"not {pin.version}" if pin.priority < 0 else f"only {pin.version}"
        found[pin.key] = f"{found[pin.key]}, {what}" if pin.key in found else what
    return found
