"""
Files that are whole or not there.

The new file has a name that nobody can foresee, so that no link of another user waits for it,
and then takes the place of the old one, which may be a link: that is replaced, not followed.
"""

import contextlib
import os
import tempfile

import salt.utils.atomicfile


@contextlib.contextmanager
def replaced(path, mode, encoding="utf-8"):
    """
    Yield a file for writing that takes the place of another one if nothing fails

    It is on the disk by then, also after a power cut.
    """
    # apt, dpkg and dnf read no file of their folders with this ending
    number, beside = tempfile.mkstemp(
        prefix=".", suffix=".new", dir=os.path.dirname(path) or "."
    )
    try:
        with os.fdopen(number, "w", encoding=encoding) as handle:
            yield handle
            os.fchmod(handle.fileno(), mode)
            handle.flush()
            os.fsync(handle.fileno())
        salt.utils.atomicfile.atomic_rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
