"""Let package managers tell the beacon ``pkgset`` of changes

``notify.sh`` becomes ``/usr/bin/pkgset-notify``, which writes the cookie that the beacon
:mod:`pkgset <saltext.package_states.beacons.pkgset>` looks at; a hook of each package manager calls
it. They need nothing of Salt's, and run while it is upgraded.
"""

import glob
import os

import saltext.package_states.minion as plugins
import saltext.package_states.minion.replace as replace
from saltext.package_states.errors import PackageStateError

import salt.utils.files
import salt.utils.platform

__virtualname__ = "pkgset"

_COMMAND = "/usr/bin/pkgset-notify"
#: each of the files has it
_MARK = "saltext-package-states"

_HERE = os.path.join(os.path.dirname(plugins.__file__), "plugin")
_ZYPP = "/usr/lib/zypp/plugins/commit"
# folders of dnf's own Python, which may be several
_DNF4 = "/usr/lib/python3*/*-packages/dnf-plugins"
_DNF5 = "/etc/dnf/libdnf5-plugins/actions.d"
# by the folder that a package manager looks into: the file there, what it is made of, its mode
_HOOKS = (
    ("/etc/dpkg/dpkg.cfg.d", "99pkgset-notify", "dpkg.cfg", 0o644),
    (_ZYPP, "pkgset-notify", "zypp.bash", 0o755),
    (_DNF4, "pkgset_notify.py", "dnf4.py", 0o644),
    (_DNF5, "pkgset-notify.actions", "dnf5.actions", 0o644),
)


def __virtual__():
    if salt.utils.platform.is_windows():
        return False, "pkgset: not available on this platform"
    return __virtualname__


def _folders(pattern, root):
    if pattern == _ZYPP:
        # libzypp does without the folder
        return [root + pattern] if os.path.isdir(f"{root}/etc/zypp") else []
    return sorted(filter(os.path.isdir, glob.glob(root + pattern)))


def _hooks(root=""):
    """Return the file and mode of each hook of the package managers that are there, by path"""
    return {
        os.path.join(folder, name): (source, mode)
        for pattern, name, source, mode in _HOOKS
        for folder in _folders(pattern, root.rstrip("/"))
    }


def _read(path):
    try:
        with salt.utils.files.fopen(path, "r", encoding="utf-8") as fh_:
            return fh_.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""


def install_plugin(root=""):
    """Give the package managers of this minion the hook that tells of changes, or bring it up to date

    Returns the paths ``written`` and those ``unchanged``; raises an error, and writes
    nothing, if no package manager is there, or if a file is somebody else's.

    CLI Example: ``salt '*' pkgset.install_plugin``
    """
    root = root.rstrip("/")
    found = _hooks(root)
    if not found:
        raise PackageStateError(
            "the plugin knows dpkg, zypper and dnf, and none of them is here;"
            " use the beacon pkgset on minions that have one."
        )
    wanted = {root + _COMMAND: ("notify.sh", 0o755), **found}
    there = {path: _read(path) for path in wanted}
    foreign = [
        path for path, text in there.items() if text is not None and _MARK not in text
    ]
    if foreign:
        raise PackageStateError(
            f"{', '.join(foreign)} is not of {_MARK}; move it away and call this again."
        )
    report = {"written": [], "unchanged": []}
    for path, (source, mode) in wanted.items():
        text = _read(os.path.join(_HERE, source))
        if there[path] == text and os.stat(path).st_mode & 0o777 == mode:
            report["unchanged"].append(path)
            continue
        replace.put(path, text, mode)
        report["written"].append(path)
    return report


def remove_plugin(root=""):
    """Remove what :func:`install_plugin` wrote, and return the paths

    CLI Example: ``salt '*' pkgset.remove_plugin``
    """
    root = root.rstrip("/")
    ours = [
        path
        for path in (*_hooks(root), root + _COMMAND)
        if _MARK in (_read(path) or "")
    ]
    for path in ours:
        os.remove(path)
    return ours
