"""
The interface of the virtual module ``lowpkg``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class LowpkgInterface(Interface):
    """
    The database of installed packages below the package manager
    """

    __modulename__ = "lowpkg"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns((None, dict))
    def bin_pkg_info(self, path, saltenv="base"):
        """
        Parses DEB metadata and returns a dictionary of information about the
        package (name, version, etc.)
        """

    def list_pkgs(self, *packages, **kwargs):
        """
        List the packages currently installed in a dict
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    @Interface.returns(dict)
    def verify(self, *packages, **kwargs):
        """
        Runs an rpm -Va on a system, and returns the results in a dict
        """
        return {}

    @Interface.supported(os_family=["RedHat", "Suse"])
    def modified(self, *packages, **kwargs):
        """
        List the modified files that belong to a package
        """

    def file_list(self, *packages, **kwargs):
        """
        List the files that belong to a package
        """

    def file_dict(self, *packages, **kwargs):
        """
        List the files that belong to a package, grouped by package
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    def owner(self, *paths, **kwargs):
        """
        Return the name of the package that owns the file
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    def diff(self, package_path, path):
        """
        Return a formatted diff between current file and original in a package
        """

    @Interface.returns(dict)
    def info(self, *packages, **kwargs):
        """
        Returns a detailed summary of package information for provided package names
        """
        return {}

    @Interface.supported(os_family=["RedHat", "Suse"])
    def version_cmp(self, ver1, ver2, ignore_epoch=False):
        """
        Do a cmp-style comparison on two packages
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    @Interface.returns(dict)
    def checksum(self, *paths, **kwargs):
        """
        Return if the signature of a RPM file is valid
        """
        return {}

    # --- Some modules

    @Interface.optional
    @Interface.supported(os_family=["Debian"])
    def unpurge(self, *packages):
        """
        Change package selection for each package specified to 'install'
        """
