"""What the beacon ``pkgset`` and the package managers share: which changes are Salt's own.

A plugin leaves a line in a cookie file when packages have changed. For its own changes Salt sets
``SALT_RUNNING`` in the environment of the plugins, and writes down what dpkg's status file was
before and after. The beacon follows such pairs from what it has seen to what is there; what they
don't explain was changed by someone else, even just before Salt's change. A Salt without
:mod:`salt.utils.pkgset` doesn't tell: what it does itself with apt and dpkg is reported too.
"""

import contextlib
import hashlib
import os

import salt.utils.files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

try:
    from salt.utils.pkgset import own_change  # pylint: disable=unused-import
except ImportError:

    @contextlib.contextmanager
    def own_change(opts, path="", changes=True):
        """Do nothing: this Salt doesn't tell what it changes itself"""
        yield


COOKIES = ("/var/cache/salt/minion/rpmdb.cookie", "/var/cache/salt/minion/dpkg.cookie")
DPKG_STATUS = "/var/lib/dpkg/status"


def folder(opts):
    """Return where the beacon keeps what it has seen; absent if it never ran"""
    return os.path.join(opts.get("cachedir", ""), "pkgset")


def digest(path):
    """Return the SHA-256 and the ``os.stat`` of a file, two times None if it can't be read"""
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
def own_changes(opts):
    """Yield the changes of dpkg's status file by Salt, pairs of before and after, and forget them if all
    went well; None while Salt is changing it
    """
    place = folder(opts)
    os.makedirs(place, mode=0o700, exist_ok=True)
    with salt.utils.files.fopen(os.path.join(place, "own"), "a+") as fh_:
        try:
            fcntl.flock(fh_, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        fh_.seek(0)
        pairs = [tuple(line.split()) for line in fh_ if len(line.split()) == 2]
        yield pairs
        if pairs:
            fh_.truncate(0)


def explained(pairs, before, after):
    """Say whether Salt's own changes lead from one state of the file to another"""
    seen, waiting = set(), [before]
    while waiting:
        state = waiting.pop()
        if state == after:
            return True
        if state not in seen:
            seen.add(state)
            waiting.extend(end for begin, end in pairs if begin == state)
    return False
