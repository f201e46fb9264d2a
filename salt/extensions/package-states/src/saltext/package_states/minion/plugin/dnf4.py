"""saltext-package-states; a plugin of dnf 4: tells Salt's beacon pkgset of transactions."""

import subprocess

import dnf

NOTIFY = ["/usr/bin/pkgset-notify", "rpm"]


class PkgsetNotify(dnf.Plugin):
    """dnf calls ``transaction`` when a transaction has succeeded."""

    name = "pkgset_notify"

    def transaction(self):
        """Write the cookie; dnf has done its work, so nothing here may fail."""
        try:
            subprocess.call(NOTIFY)
        except OSError as exc:
            print(f"Salt is not told of the changed packages: {exc}")
