"""
What the beacon, the engine and the runner ``pkgset`` share.

A package manager's plugin leaves a line in a cookie file when the set of packages has
changed. Salt's own changes are no news, where Salt tells of them: it sets
``SALT_RUNNING`` in the environment for the plugins, and for the beacon, which looks at
dpkg's status file as well, it writes down what the file was before and after. The
beacon follows such pairs from what it has seen to what is there; a change that the
pairs don't explain was made by someone else, even if it was made just before Salt's.

A Salt without :mod:`salt.utils.pkgset` doesn't tell: there, what it does itself with
apt and dpkg is reported too.
"""

import contextlib
import hashlib
import os

import saltext.package_states.model.names as names
from saltext.package_states.errors import InvalidInput

import salt.cache
import salt.utils.files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

try:
    from salt.utils.pkgset import own_change  # pylint: disable=unused-import

    TELLS = True
except ImportError:
    TELLS = False

    @contextlib.contextmanager
    def own_change(opts, path="", changes=True):
        """
        Do nothing: this Salt doesn't tell what it changes itself
        """
        yield


COOKIES = ("/var/cache/salt/minion/rpmdb.cookie", "/var/cache/salt/minion/dpkg.cookie")
DPKG_STATUS = "/var/lib/dpkg/status"
# where the stored package lists are if there are no package states
BANK = "packages"
# how many packages a minion may have in such a list, and how many characters a name, the
# versions of a package, of which there may be many, and all together
PACKAGES = 100000
LONGEST = 4096
MOST = 16 * 1024 * 1024


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
def own_changes(opts):
    """
    Yield the changes of dpkg's status file that Salt has made, pairs of before and
    after, and forget them if all went well; or ``None`` while Salt is changing it
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
    Store what a minion has said of its packages, and return the digests of what its
    repositories have that is to be asked for, a list

    With ``package_states`` in the master's configuration it goes to its database;
    otherwise to the bank ``packages`` of the master's cache.

    :raises PackageStateError: if it is something else or nothing, or the database says so
    """
    states = "package_states" in opts
    if not (packages.get("packages") if states else packages):
        raise InvalidInput(
            f"{minion} says that it has no packages; see what {function(opts)} says there."
        )
    if states:
        # psycopg2 is only needed where there are package states
        # pylint: disable-next=import-outside-toplevel
        import saltext.package_states.store.refresh

        return saltext.package_states.store.refresh.store(opts, minion, packages)
    salt.cache.factory(opts).store(BANK, minion, _lines(minion, packages))
    return []


def mark(opts, minions, why):
    """
    Let the status of minions say that their packages are others than what is stored

    :param dict opts: the options of the master
    :param minions: the ids of minions
    :param str why: how it is known
    :raises PackageStateError: if the database says so
    """
    if "package_states" in opts and minions:
        # pylint: disable-next=import-outside-toplevel
        import saltext.package_states.store.refresh

        saltext.package_states.store.refresh.mark(opts, minions, why)


def _lines(minion, packages):
    """
    Return the versions by package as one printable line each

    :raises InvalidInput: if a minion sent something else than ``pkg.list_pkgs`` does
    """
    good = len(packages) <= PACKAGES and all(
        isinstance(one, str) and len(one) <= LONGEST
        for pair in packages.items()
        for one in pair
    )
    if not good or sum(map(len, (*packages, *packages.values()))) > MOST:
        raise InvalidInput(
            f"{minion} sent no list of packages; see what {function({})} says there."
        )
    return {
        names.line(name, LONGEST): names.line(version, LONGEST)
        for name, version in packages.items()
    }


def store_offers(opts, minion, answer):
    """
    Store what a minion has said of its repositories, see
    :func:`saltext.package_states.store.offers.store`

    :return: the digests of what it has told
    :raises PackageStateError: if it is something else, or the database says so
    """
    # pylint: disable-next=import-outside-toplevel
    import saltext.package_states.store.offers

    return saltext.package_states.store.offers.store(opts, minion, answer)


def stored(opts, minion):
    """
    Return the packages of a minion with their versions, from where :func:`store`
    puts them; they are empty if none are stored
    """
    if "package_states" in opts:
        # pylint: disable-next=import-outside-toplevel
        import saltext.package_states.store.refresh

        return saltext.package_states.store.refresh.installed(opts, minion)
    return salt.cache.factory(opts).fetch(BANK, minion)
