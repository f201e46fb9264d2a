"""
The interface of the virtual module ``pkg``

.. versionadded:: 3008.6
"""

from salt.interfaces import Interface


@Interface.profile("minimal", ["install", "list_pkgs", "remove"])
@Interface.feature("holds", ["hold", "unhold"])
class PkgInterface(Interface):
    """
    Packages: install, remove, list
    """

    __modulename__ = "pkg"
    __version__ = "1.0"

    @Interface.returns((dict, str))
    def install(self, name=None, refresh=False, pkgs=None, sources=None, **kwargs):
        """
        Install packages
        """
        return {}

    @Interface.returns({str: (str, list)})
    def list_pkgs(self, versions_as_list=False, **kwargs):
        """
        List the packages that are installed
        """
        return {}

    @Interface.returns((dict, str))
    def remove(self, name=None, pkgs=None, **kwargs):
        """
        Remove packages
        """
        return {}

    @Interface.returns((str, dict))
    def version(self, *names, **kwargs):
        """
        Return the installed version of one package, or a dictionary of several
        """
        return ""

    @Interface.returns((str, dict))
    def latest_version(self, *names, **kwargs):
        """
        Return the version that an upgrade would install, empty if there is none
        """
        return ""

    @Interface.optional
    @Interface.returns(bool)
    def upgrade_available(self, name, **kwargs):
        """
        Say whether there is an upgrade for a package
        """
        return False

    @Interface.returns(dict)
    def hold(self, name=None, pkgs=None, **kwargs):
        """
        Keep packages at their versions
        """
        return {}

    @Interface.returns(dict)
    def unhold(self, name=None, pkgs=None, **kwargs):
        """
        Let packages be upgraded again
        """
        return {}
