"""
The interface of the virtual module ``pkgutil``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class PkgutilInterface(Interface):
    """
    Two modules of one name and no common purpose: packages of OpenCSW on Solaris,
    installer packages on macOS. Nothing is promised of both.
    """

    __modulename__ = "pkgutil"
    __version__ = "1.0"
    __func_alias__ = {"list_": "list"}

    # --- Every module

    # not promised: name, which mac_pkgutil does not take
    # not promised: refresh, which mac_pkgutil does not take
    # not promised: version, which mac_pkgutil does not take
    # not promised: pkgs, which mac_pkgutil does not take
    def install(self, source, package_id):
        """
        Install a .pkg from an URI or an absolute path
        """

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    @Interface.returns(bool)
    def refresh_db(self):
        """
        Updates the pkgutil repo database (pkgutil -U)
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def upgrade_available(self, name):
        """
        Check if there is an upgrade available for a certain package
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    @Interface.returns(dict)
    def list_upgrades(self, refresh=True, **kwargs):
        """
        List all available package upgrades on this system
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def upgrade(self, refresh=True):
        """
        Upgrade all of the packages to the latest available version
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def list_pkgs(self, versions_as_list=False, **kwargs):
        """
        List the packages currently installed as a dict
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def version(self, *names, **kwargs):
        """
        Returns a version if the package is installed, else returns an empty string
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def latest_version(self, *names, **kwargs):
        """
        Return the latest version of the named package available for upgrade or
        installation
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def available_version(self, *names, **kwargs):
        """
        Return the latest version of the named package available for upgrade or
        installation
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def remove(self, name=None, pkgs=None, **kwargs):
        """
        Remove a package and all its dependencies which are not in use by other
        packages
        """

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    def purge(self, name=None, pkgs=None, **kwargs):
        """
        Package purges are not supported, this function is identical to ``remove()``
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def list_(self):
        """
        List the installed packages
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def is_installed(self, package_id):
        """
        Returns whether a given package id is installed
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def forget(self, package_id):
        """
        Remove the receipt data about the specified package
        """
        return False
