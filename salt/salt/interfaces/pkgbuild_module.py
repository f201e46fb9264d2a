"""
The interface of the virtual module ``pkgbuild``
"""

from __future__ import annotations

from salt.interfaces import Interface


class PkgbuildInterface(Interface):
    """Build packages and repositories of them."""

    __modulename__ = "pkgbuild"

    def build(
        self,
        runas,
        tgt,
        dest_dir,
        spec,
        sources,
        deps,
        env,
        template,
        saltenv="base",
        log_dir="/var/log/salt/pkgbuild",
    ) -> dict:
        """Build a package from a specification and sources"""

    def make_repo(
        self,
        repodir,
        keyid=None,
        env=None,
        use_passphrase=False,
        gnupghome="/etc/salt/gpgkeys",
        runas="root",
        timeout=15.0,
    ) -> dict:
        """Make a package repository and optionally sign it and packages present"""

    def make_src_pkg(
        self, dest_dir, spec, sources, env=None, saltenv="base", runas="root"
    ) -> list:
        """Build a source package from a specification and sources"""
