"""Let package managers tell the beacon ``pkgset`` of changes

See the beacon :mod:`pkgset <saltext.package_states.beacons.pkgset>`.
"""

import contextlib

import saltext.package_states.minion.plugin as plugin

import salt.utils.platform
from salt.exceptions import CommandExecutionError

__virtualname__ = "pkgset"


def __virtual__():
    if salt.utils.platform.is_windows():
        return False, "pkgset: not available on this platform"
    return __virtualname__


@contextlib.contextmanager
def _told(what):
    try:
        yield
    except OSError as exc:
        raise CommandExecutionError(
            f"{what}{exc}; run the minion as root, and call this again."
        ) from exc


def install_plugin():
    """Give the package managers of this minion the hook that tells of changes, or bring it up to date

    Returns the paths ``written`` and those ``unchanged``.

    CLI Example:

    .. code-block:: bash

        salt '*' pkgset.install_plugin
    """
    with _told("The plugin can't be written: "):
        return plugin.install()


def remove_plugin():
    """Remove what :func:`install_plugin` wrote, and return the paths

    CLI Example:

    .. code-block:: bash

        salt '*' pkgset.remove_plugin
    """
    with _told("The plugin can't be removed: "):
        return plugin.remove()
