"""
What the beacon ``pkgset``, the package modules and the engine ``pkgset`` share.

.. versionadded:: 3009.0

A package manager's plugin leaves a line in a cookie file when the set of
packages has changed. Salt's own changes are no news: for the plugins Salt sets
``SALT_RUNNING`` in the environment, and for the beacon, which looks at dpkg's
status file as well, the package module writes down what the file was before and
after. The beacon follows such pairs from what it has seen to what is there; a
change that the pairs don't explain was made by someone else, even if it was made
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

COOKIES = ("/var/cache/salt/minion/rpmdb.cookie", "/var/cache/salt/minion/dpkg.cookie")
DPKG_STATUS = "/var/lib/dpkg/status"
# where the stored package lists are if there are no package states
BANK = "packages"

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


@contextlib.contextmanager
def own_changes(opts):
    """
    Yield a function that returns the pairs which :func:`own_change` has written,
    and forgets them if all went well; or ``None`` while Salt is changing something
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
    """
    Say whether Salt's own changes lead from one state of the file to another
    """
    seen, waiting = set(), [before]
    while waiting:
        state = waiting.pop()
        if state == after:
            return True
        if state not in seen:
            seen.add(state)
            waiting.extend(end for begin, end in pairs if begin == state)
    return False


def function(opts):
    """
    Return the execution function whose result :func:`store` takes
    """
    return "package_state.inventory" if "package_states" in opts else "pkg.list_pkgs"


def store(opts, minion, packages):
    """
    Store what a minion has said of its packages

    With ``package_states`` in the master's configuration it goes to its database,
    and the minion's status is made anew; otherwise to the bank ``packages`` of the
    master's cache.
    """
    if "package_states" in opts:
        # pylint: disable=import-error,no-name-in-module,no-member
        import salt.package_states.refresh

        return salt.package_states.refresh.store(opts, minion, packages)
    import salt.cache

    salt.cache.factory(opts).store(BANK, minion, packages)
    return {"minion": minion}


def stored(opts, minion):
    """
    Return the packages of a minion with their versions, from where :func:`store`
    puts them; they are empty if none are stored
    """
    if "package_states" in opts:
        # pylint: disable=import-error,no-name-in-module,no-member
        import salt.package_states.refresh

        return salt.package_states.refresh.installed(opts, minion)
    import salt.cache

    return salt.cache.factory(opts).fetch(BANK, minion)
