"""
The interface of the virtual module ``lowpkg``
"""

from __future__ import annotations

from salt.interfaces import Interface


class LowpkgInterface(Interface):
    """The package database below the package manager: dpkg and rpm."""

    __modulename__ = "lowpkg"

    def list_pkgs(self, *packages, **kwargs) -> dict:
        """List the packages currently installed in a dict"""

    def file_list(self, *packages, **kwargs) -> dict | str:
        """List the files that belong to a package"""

    def file_dict(self, *packages, **kwargs) -> dict | str:
        """List the files that belong to a package, grouped by package"""

    def info(self, *packages, **kwargs) -> dict:
        """
        Returns a detailed summary of package information for provided package names
        """

    def bin_pkg_info(self, path, saltenv="base") -> dict | None:
        """Describe a package file: at least its name and version."""
