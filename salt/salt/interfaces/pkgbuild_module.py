"""
The interface of the virtual module ``pkgbuild``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class PkgbuildInterface(Interface):
    """
    Build packages and their repositories
    """

    __modulename__ = "pkgbuild"
    __version__ = "1.0"

    # --- Every module

    # not promised: template, which debuild_pkgbuild does not take
    @Interface.returns(list)
    def make_src_pkg(
        self, dest_dir, spec, sources, env=None, saltenv="base", runas="root"
    ):
        """
        Create a platform specific source package from the given platform
        spec/control file and sources
        """
        return []

    @Interface.returns(dict)
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
    ):
        """
        Given the package destination directory, the tarball containing debian files
        (e.g
        """
        return {}

    def make_repo(
        self,
        repodir,
        keyid=None,
        env=None,
        use_passphrase=False,
        gnupghome="/etc/salt/gpgkeys",
        runas="root",
        timeout=15.0,
    ):
        """
        Make a package repository and optionally sign it and packages present
        """
