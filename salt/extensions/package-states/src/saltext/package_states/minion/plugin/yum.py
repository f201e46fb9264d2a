"""saltext-package-states; a plugin of yum, for Python 2.6: tells Salt's beacon pkgset of transactions."""

import subprocess

from yum.plugins import TYPE_CORE

requires_api_version = "2.5"
plugin_type = TYPE_CORE
NOTIFY = ["/usr/bin/pkgset-notify", "rpm"]


def posttrans_hook(conduit):
    """Write the cookie after a transaction; yum has done its work, so nothing here may fail."""
    try:
        subprocess.call(NOTIFY)
    except (IOError, OSError) as exc:
        conduit.info(2, "Salt is not told of the changed packages: %s" % exc)
