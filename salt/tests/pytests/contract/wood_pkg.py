"""
A module for a made-up package manager, as an author of one writes it: packages are lines
of a file
"""

import pathlib

from salt.exceptions import CommandExecutionError, SaltInvocationError
from salt.interfaces.pkg_module import PkgInterface

__virtualname__ = PkgInterface(
    __name__,
    own=["saw"],
    lacks={"Groups": "wood has no groups"},
)()

KNOWN = {"plank": "2.0", "nail": "1.1"}


def __virtual__():
    return __virtualname__


def _file():
    return pathlib.Path(__opts__["cachedir"], "wood")


def _installed():
    lines = _file().read_text(encoding="utf-8").splitlines() if _file().exists() else []
    return dict(line.split(" ") for line in lines)


def _change(wanted):
    old = _installed()
    _file().parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name} {wanted[name]}\n" for name in wanted)
    _file().write_text(lines, encoding="utf-8")
    return {
        name: {"old": old.get(name, ""), "new": wanted.get(name, "")}
        for name in {*old, *wanted}
        if old.get(name) != wanted.get(name)
    }


def _names(name, pkgs):
    names = pkgs or (name or "").split(",")
    if names == [""]:
        raise SaltInvocationError("Name a package.")
    return names


def install(name=None, refresh=False, pkgs=None, sources=None, **kwargs):
    wanted = _installed()
    for one in _names(name, pkgs):
        version = kwargs.get("version") or KNOWN.get(one)
        if KNOWN.get(one) != version or version is None:
            raise CommandExecutionError(f"There is no {one} {version or ''}")
        wanted[one] = version
    return _change(wanted)


def remove(name=None, pkgs=None, **kwargs):
    gone = _names(name, pkgs)
    return _change({key: one for key, one in _installed().items() if key not in gone})


def list_pkgs(versions_as_list=False, **kwargs):
    found = _installed()
    return {key: [one] for key, one in found.items()} if versions_as_list else found


def _each(names, versions):
    found = {name: versions.get(name, "") for name in names}
    return found[names[0]] if len(names) == 1 else found


def version(*names, **kwargs):
    return _each(names, _installed())


def latest_version(*names, **kwargs):
    old = _installed()
    return _each(names, {key: one for key, one in KNOWN.items() if old.get(key) != one})


def refresh_db(**kwargs):
    return True


def list_upgrades(refresh=True, **kwargs):
    return {key: KNOWN[key] for key, one in _installed().items() if KNOWN[key] != one}


def upgrade(refresh=True, **kwargs):
    return _change({**_installed(), **list_upgrades()})


def upgrade_available(name, **kwargs):
    return name in list_upgrades()


def saw(name):
    return f"half of {name}"
