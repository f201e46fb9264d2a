"""The package managers of the minions, behind one face."""

import os

import saltext.package_states.model.platforms as platforms
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers import apt, dnf, zypper

import salt.utils.path

_MANAGERS = {
    platforms.APT: apt.Apt,
    platforms.ZYPPER: zypper.Zypper,
    platforms.DNF: dnf.Dnf,
}


def get(salt, opts, grains, context):
    """Return the package manager of this minion, or raise why it has none"""
    name = platforms.manager(grains)
    if name == platforms.DNF and _is_dnf5():
        name = platforms.DNF5
    if name in platforms.REFUSED:
        raise PackageStateError(platforms.REFUSED[name])
    if name is None:
        raise PackageStateError(
            f"package states know no package manager of {grains.get('os_family')};"
            " use them on systems with apt, zypper or dnf."
        )
    found = _MANAGERS[name](salt, opts, context)
    # what was found in an earlier job of this process may be old
    found.refreshed()
    return found


def _is_dnf5():
    """Return whether ``dnf`` is another name of dnf 5 here"""
    found = salt.utils.path.which("dnf")
    return bool(found) and os.path.basename(os.path.realpath(found)) == platforms.DNF5
