"""The generated files, ``susemanager/packages-$id.sls`` of minions and ``susemanager/state-$name.sls``
of states by themselves, below a root.

Their names never meet: a state that is named like a minion must not write what this minion
includes. A file is written beside its place and then moved there; one that would not change is
not touched.
"""

import os

import saltext.package_states.compile.sls as sls
import saltext.package_states.minion.replace as replace
import saltext.package_states.model.names as names
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.utils.files

FOLDER = "susemanager"
# the master may be another user than who writes
MODE = 0o644
_HEAD, _END = "packages-", ".sls"
_ALONE = "state-"
# no id of a minion, and no name of a state, has a colon
_MARK = "state:"
# no name of a state has it
_DOT = "+"


def alone(name):
    """Return by what name the functions here know the file of a state by itself"""
    return f"{_MARK}{name}"


def is_alone(name):
    return name.startswith(_MARK)


def shown(name):
    return name[len(_MARK) :] if is_alone(name) else name


def root(opts):
    """Return the first folder of the environment ``base`` of a master"""
    found = (opts.get("file_roots") or {}).get("base")
    if not found:
        raise PackageStateError(
            "The master has no file_roots for base; give sls_root under package_states."
        )
    return found[0]


def path(root, name):
    stem = names.state(shown(name))
    if is_alone(name):
        # a state can be applied by the name of its file, in which a dot is a folder
        stem = stem.replace(".", _DOT)
    head = _ALONE if is_alone(name) else _HEAD
    return os.path.join(root, FOLDER, f"{head}{stem}{_END}")


def write(root, name, text):
    return _write(path(root, name), text)


def read(root, name):
    """Return what the file of a state or minion holds, empty if there is none that can be read"""
    try:
        # what somebody else wrote there may be no text
        return _read(path(root, name)).decode(errors="replace")
    except PackageStateError:
        return ""


def _read(place):
    try:
        with salt.utils.files.fopen(place, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise _unwritable(place, exc) from exc


def names_of(root):
    try:
        found = os.listdir(os.path.join(root, FOLDER))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise _unwritable(os.path.join(root, FOLDER), exc) from exc
    stems = [name[: -len(_END)] for name in found if name.endswith(_END)]
    return sorted(
        [stem[len(_HEAD) :] for stem in stems if stem.startswith(_HEAD)]
        + [
            alone(stem[len(_ALONE) :].replace(_DOT, "."))
            for stem in stems
            if stem.startswith(_ALONE) and "." not in stem
        ]
    )


def remove(root, name):
    """Remove a file that was made here and is nobody's any more, and return whether there was one"""
    try:
        place = path(root, name)
        with salt.utils.files.fopen(place, "rb") as handle:
            if sls.MADE.encode() not in handle.read(1000):
                return False
        os.unlink(place)
    except (InvalidInput, FileNotFoundError, IsADirectoryError):
        return False
    except OSError as exc:
        raise _unwritable(place, exc) from exc
    return True


def ship(root):
    """Write ``susemanager/packages.sls``, which includes the file of each minion"""
    return _write(os.path.join(root, FOLDER, "packages.sls"), sls.SHIPPED)


def _write(place, text):
    if _read(place) == text.encode():
        return False
    try:
        replace.put(place, text, MODE)
    except OSError as exc:
        raise _unwritable(place, exc) from exc
    return True


def _unwritable(place, exc):
    return PackageStateError(
        f"{place} can't be written: {exc.strerror}; see that the master may write"
        " there and that there is room, then run package_states.refresh."
    )
