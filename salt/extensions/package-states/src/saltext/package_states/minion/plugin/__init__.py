"""The package managers' side of change detection: what tells the beacon ``pkgset``

``notify.sh`` becomes ``/usr/bin/pkgset-notify``, which writes the cookie that the beacon looks at;
a hook of each package manager calls it. They need nothing of Salt's, and run while it is upgraded.
"""

import glob
import os

import saltext.package_states.errors as errors
import saltext.package_states.minion.replace as replace

import salt.utils.files
import salt.utils.path

COMMAND = "/usr/bin/pkgset-notify"
#: each of the files has it
MARK = "saltext-package-states"

_HERE = os.path.dirname(os.path.abspath(__file__))
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


def _folders(pattern, root):
    if pattern == _ZYPP:
        # libzypp does without the folder
        return [root + pattern] if os.path.isdir(f"{root}/etc/zypp") else []
    return sorted(filter(os.path.isdir, glob.glob(root + pattern)))


def hooks(root=""):
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


def install(root=""):
    """Write the command and the hooks, or bring them up to date

    Returns the paths ``written`` and those ``unchanged``; raises :class:`Unsupported`, and writes
    nothing, if no package manager is there, or if a file is somebody else's.
    """
    root = root.rstrip("/")
    found = hooks(root)
    if not found:
        raise errors.Unsupported(
            "the plugin knows dpkg, zypper and dnf, and none of them is here;"
            " use the beacon pkgset on minions that have one."
        )
    wanted = {root + COMMAND: ("notify.sh", 0o755), **found}
    there = {path: _read(path) for path in wanted}
    foreign = [
        path for path, text in there.items() if text is not None and MARK not in text
    ]
    if foreign:
        raise errors.Unsupported(
            f"{', '.join(foreign)} is not of {MARK}; move it away and call this again."
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


def remove(root=""):
    root = root.rstrip("/")
    ours = [
        path for path in (*hooks(root), root + COMMAND) if MARK in (_read(path) or "")
    ]
    for path in ours:
        os.remove(path)
    return ours
