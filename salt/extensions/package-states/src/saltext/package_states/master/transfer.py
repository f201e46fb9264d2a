"""Files that callers of the runner name."""

import contextlib
import os

import saltext.package_states.master.yamltext as yamltext
import saltext.package_states.minion.replace as replace
import saltext.package_states.model.names as names
from saltext.package_states.errors import InvalidInput

import salt.utils.files


def read(path):
    with _told(path, "read"), salt.utils.files.fopen(path, encoding="utf-8") as handle:
        # a device has no end; whoever reads the text says that it is too long
        return handle.read(yamltext.MOST + 1)


def write(path, text):
    """Write a file; what it had stays if that fails"""
    with _told(path, "written"):
        _check_link(path)
        if os.path.exists(path) and not os.path.isfile(path):
            # a pipe or a device
            with salt.utils.files.fopen(path, "w", encoding="utf-8") as handle:
                handle.write(text)
            return
        place = os.path.realpath(path)
        there = os.stat(place) if os.path.exists(place) else None
        mode = there.st_mode & 0o777 if there else 0o666 & ~salt.utils.files.get_umask()
        with replace.replaced(place, mode) as handle:
            handle.write(text)
            if there:
                with contextlib.suppress(OSError):
                    os.fchown(handle.fileno(), there.st_uid, there.st_gid)


def _check_link(path):
    if os.path.islink(path) and _owner(path) not in (0, os.geteuid()):
        raise InvalidInput(
            f"{names.shown(path)} is a link of another user; give the path of a file of"
            " your own."
        )


def _owner(path):
    return os.lstat(path).st_uid


@contextlib.contextmanager
def _told(path, can):
    if not isinstance(path, str):
        raise InvalidInput(
            f"{names.shown(path)} is no path; give that of a file of the master."
        )
    try:
        yield
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is not what can be opened"
        raise InvalidInput(
            f"{names.shown(path)} can't be {can}: {why}; give the path of a file of the"
            " master."
        ) from exc
