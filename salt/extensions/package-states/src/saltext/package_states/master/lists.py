"""The package lists that the engine and the runner ``pkgset`` store: with ``package_states`` in the
master's configuration in its database, otherwise in the bank ``packages`` of the master's cache.
"""

import logging

import saltext.package_states.master.returns as returns
import saltext.package_states.model.names as names
import saltext.package_states.store.refresh as refresh
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.cache

log = logging.getLogger(__name__)

# where the stored package lists are if there are no package states
BANK = "packages"
# how many packages a minion may have in such a list, and how many characters a name, the
# versions of a package, of which there may be many, and all together
PACKAGES = 100000
LONGEST = 4096
MOST = 16 * 1024 * 1024


def function(opts):
    """Return the execution function whose result :func:`store` takes"""
    return "package_state.inventory" if "package_states" in opts else "pkg.list_pkgs"


def take(opts, minion, answer):
    """Store what a minion answered to :func:`function`, see :func:`store`"""
    packages = answer["return"]
    if answer.get("retcode") or not isinstance(packages, dict):
        said = returns.problem(answer).rstrip(".")
        own = ", and that it has saltext-package-states"
        more = own if "package_states" in opts else ""
        raise PackageStateError(
            f"it returned {said}; see what {function(opts)} says there{more}."
        )
    return store(opts, minion, packages)


def store(opts, minion, packages):
    """Store the packages that a minion told of, and return the digests that it is to be asked for"""
    states = "package_states" in opts
    if not (packages.get("packages") if states else packages):
        raise InvalidInput(
            f"{minion} says that it has no packages; see what {function(opts)} says there."
        )
    if states:
        return refresh.store(opts, minion, packages)
    good = len(packages) <= PACKAGES and all(
        names.is_line(one, LONGEST) for pair in packages.items() for one in pair
    )
    if not good or sum(map(len, (*packages, *packages.values()))) > MOST:
        raise InvalidInput(
            f"{minion} sent no list of packages; see what {function(opts)} says there."
        )
    salt.cache.factory(opts).store(BANK, minion, packages)
    return []


def mark(opts, minions, why):
    """Let the status of minions say that their packages are others than what is stored"""
    if "package_states" not in opts or not minions:
        return
    try:
        refresh.mark(opts, minions, why)
    except Exception as exc:  # pylint: disable=broad-except
        # a database that is away will be back, and they are asked again
        log.warning("The status is older than it says: %s", names.line(exc, 500))


def stored(opts, minion):
    """Return the versions of a minion's packages that :func:`store` put there, maybe none"""
    if "package_states" in opts:
        return refresh.installed(opts, minion)
    return salt.cache.factory(opts).fetch(BANK, minion)
