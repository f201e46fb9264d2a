"""
Tell whoever watches a minion's packages which changes are Salt's own

.. versionadded:: 3009.0

A package manager's plugin leaves a line in a cookie file when the set of
packages has changed. Salt's own changes are no news: for the plugins, the package
modules set ``SALT_RUNNING`` in the environment. For a beacon that looks at dpkg's
status file as well, they write down what the file was before and after, in the
file ``pkgset/own`` of the minion's ``cachedir``, if a beacon has made that. A
change that such pairs don't explain was made by someone else, even if it was made
just before Salt's.
"""

import contextlib
import hashlib
import os
import threading

import salt.utils.files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

DPKG_STATUS = "/var/lib/dpkg/status"

# minions without multiprocessing have a thread for each job
_LOCK = threading.Lock()
_inside = 0
_outside = None


@contextlib.contextmanager
def _running():
    """
    Have ``SALT_RUNNING`` in the environment of the commands that are started inside

    In this process's own environment, as a call's ``env`` takes the place of the
    module's ``system-environment``.
    """
    global _inside, _outside  # pylint: disable=global-statement
    with _LOCK:
        if not _inside:
            _outside = os.environ.get("SALT_RUNNING")
        _inside += 1
        os.environ["SALT_RUNNING"] = "1"
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside and _outside is None:
                os.environ.pop("SALT_RUNNING", None)


def folder(opts):
    """
    Return where the beacon keeps what it has seen; absent if it never ran
    """
    return os.path.join(opts.get("cachedir", ""), "pkgset")


def digest(path):
    """
    Return the SHA-256 of a file and what ``os.stat`` says of it, or two times
    ``None`` if the file can't be read
    """
    sha = hashlib.sha256()
    try:
        with salt.utils.files.fopen(path, "rb") as fh_:
            stat = os.fstat(fh_.fileno())
            for block in iter(lambda: fh_.read(1 << 18), b""):
                sha.update(block)
    except OSError:
        return None, None
    return sha.hexdigest(), stat


@contextlib.contextmanager
def own_change(opts, path=DPKG_STATUS, changes=True):
    """
    Tell the beacon that what changes inside is Salt's own doing

    For the plugins, ``SALT_RUNNING`` is in the environment. For the beacon, what
    the file was before and after is written down if it ever ran on this minion;
    not so with ``changes=False``, for what can't change the file: if it is another
    one afterwards, someone else has changed it meanwhile.
    """
    with _running():
        place = os.path.join(folder(opts), "own")
        if not changes or fcntl is None or not os.path.exists(place):
            yield
            return
        with salt.utils.files.fopen(place, "a") as fh_:
            # many of Salt's processes may be at it, but no beacon in between
            fcntl.flock(fh_, fcntl.LOCK_SH)
            before = digest(path)[0]
            try:
                yield
            finally:
                after = digest(path)[0]
                if before != after:
                    fh_.write(f"{before} {after}\n")
