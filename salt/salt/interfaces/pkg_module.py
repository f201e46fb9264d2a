"""
The interface of the virtual module ``pkg``
"""

from __future__ import annotations

import typing

from salt.interfaces import Feature, Interface

#: One version, or several: with commas between them, or as a list
Version = "str | list[str]"


class Change(typing.TypedDict):
    """The versions before and after; an empty string for none"""

    old: Version
    new: Version


#: Packages that changed by name; empty if none did
Changes = dict[str, Change]


class Held(typing.TypedDict):
    """What holding one package did, as a state returns it"""

    name: str
    changes: dict
    result: bool | None
    comment: str


class FileList(typing.TypedDict):
    """Paths, and a message for each package that is not installed"""

    files: list
    errors: list


class FileDict(typing.TypedDict):
    """Paths by package, and a message for each package that is not installed"""

    packages: dict
    errors: list


class PkgInterface(Interface):
    """
    Packages. Pass names by position and everything else by name: platforms take more
    arguments than these.
    """

    __modulename__ = "pkg"
    __deprecated__ = {
        "available_version": "latest_version",
        "delete": "remove",
        "get_locked_packages": "list_holds",
        "groupinstall": "group_install",
        "info": "version",
        "list_updates": "list_upgrades",
        "pin": "hold",
        "uninstall": "remove",
        "unpin": "unhold",
        "which": "owner",
    }

    def install(
        self, name=None, refresh=False, pkgs=None, sources=None, **kwargs
    ) -> Changes:
        """
        Install packages, and return what has changed.

        ``name`` is one package, or several with commas between them. ``pkgs`` is a list
        of names or of dictionaries of a name to a version, and takes precedence.
        ``sources`` is a list of dictionaries of a name to a file. A version that no
        repository has is an error.
        """

    def remove(self, name=None, pkgs=None, **kwargs) -> Changes:
        """
        Remove packages, keep their configuration where the platform makes this
        difference, and return what has changed.

        A package that is not installed is no error. ``version`` removes this version
        only.
        """

    def list_pkgs(
        self, versions_as_list=False, **kwargs
    ) -> dict[str, Version | list[dict]]:
        """
        List the installed packages with their versions; with ``versions_as_list`` each
        value is a list.
        """

    def version(self, *names, **kwargs) -> Version | dict[str, Version]:
        """
        Return the installed version of a package, an empty string if there is none; for
        several names return a dictionary.
        """

    def latest_version(self, *names, **kwargs) -> str | dict[str, str]:
        """
        Return the version that an installation or upgrade would bring, an empty string
        if the installed one is the latest or nobody knows the package; for several
        names return a dictionary.
        """

    @Interface.not_applicable(os_family=["AIX", "Solaris"])
    def refresh_db(self, **kwargs) -> bool | dict:
        """
        Fetch the lists of available packages; return whether it worked, for all or for
        each repository.
        """
        return True

    def list_upgrades(self, refresh=True, **kwargs) -> dict[str, str]:
        """
        List the packages that an upgrade would change with their new versions. Held
        packages are not among them.
        """

    def upgrade(self, refresh=True, **kwargs) -> Changes:
        """Upgrade all packages, and return what has changed."""

    def upgrade_available(self, name, **kwargs) -> bool:
        """
        Return whether an upgrade would change this package; ``False`` if it is not
        known.
        """

    class Purge(Feature):
        """Removal of configuration"""

        def purge(self, name=None, pkgs=None, **kwargs) -> Changes:
            """Remove packages and their configuration, and return what has changed."""

    class Holds(Feature):
        """Packages that stay at their version"""

        def hold(self, name=None, pkgs=None, **kwargs) -> dict[str, Held]:
            """Keep packages at their versions."""

        def unhold(self, name=None, pkgs=None, **kwargs) -> dict[str, Held]:
            """
            Let packages be upgraded again. A package that is not held is no error.
            """

        def list_holds(self, full=True) -> list[str]:
            """
            List the held packages: names, or with ``full`` names and versions where the
            platform holds a version.
            """

    class Repositories(Feature):
        """Where packages come from"""

        def list_repos(self, **kwargs) -> dict:
            """
            List the repositories by their identifier. The description is the platform's
            own.
            """

        def get_repo(self, repo, **kwargs) -> dict:
            """Describe one repository; an empty dictionary if there is none"""

        def mod_repo(self, repo, **kwargs) -> dict:
            """Change a repository, or add it."""

        def del_repo(self, repo) -> str | dict:
            """Delete a repository; one that does not exist is an error."""

    class RepositoryPackages(Feature):
        """What repositories have"""

        def list_repo_pkgs(self, *args, **kwargs) -> dict:
            """List the packages that the repositories have, with all versions"""

    class NormalizedNames(Feature):
        """Names without the architecture"""

        def normalize_name(self, name) -> str:
            """Return the name of a package without the system's own architecture."""

    class Architectures(Feature):
        """Name and architecture"""

        def parse_arch(self, name) -> dict:
            """Parse name and architecture from the specified package name"""

    class VersionComparison(Feature):
        """Order of versions"""

        def version_cmp(self, pkg1, pkg2, ignore_epoch=False, **kwargs) -> int | None:
            """
            Return -1 if the first version is older, 0 if both are the same, 1 if it is
            newer, and ``None`` if they cannot be compared.
            """

    class Files(Feature):
        """Files of packages"""

        def file_list(self, *packages, **kwargs) -> FileList:
            """
            List the files of packages. A package that is not installed is in
            ``errors``.
            """

        def file_dict(self, *packages, **kwargs) -> FileDict:
            """
            List the files of packages by package. A package that is not installed is in
            ``errors``.
            """

        def owner(self, *paths, **kwargs) -> str | dict[str, str]:
            """
            Return the package that owns a file, an empty string if none does; for
            several paths return a dictionary.
            """

    class Details(Feature):
        """Descriptions of installed packages"""

        def info_installed(self, *names, **kwargs) -> dict[str, dict]:
            """Describe installed packages; absent packages are left out."""

    class Groups(Feature):
        """Groups of packages"""

        def group_list(self) -> dict:
            """List the groups of packages"""

        def group_info(self, name) -> dict:
            """List the packages of a group"""

        def group_diff(self, name) -> dict:
            """List which packages of a group are installed and which are not"""

    class Verification(Feature):
        """Files that changed since the installation"""

        def verify(self, *names, **kwargs) -> dict[str, dict]:
            """Return the files of packages that changed since the installation."""

        def modified(self, *packages, **kwargs) -> dict[str, dict]:
            """List the modified files that belong to a package"""

        def diff(self, *paths, **kwargs) -> dict[str, str]:
            """
            Return a formatted diff between current files and original in a package
            """

    class Patches(Feature):
        """Patches that a vendor publishes"""

        def list_patches(self, refresh=False, **kwargs) -> dict[str, dict]:
            """List the patches that are available"""

        def list_installed_patches(self, **kwargs) -> dict[str, dict]:
            """List the patches that are installed"""

    class Downloads(Feature):
        """Packages in the cache"""

        def list_downloaded(self, **kwargs) -> dict:
            """List the packages that are downloaded"""

    class Search(Feature):
        """Search in the repositories"""

        def search(self, name) -> dict:
            """Search for a package in the repositories"""

    class Autoremove(Feature):
        """Packages that nothing needs"""

        def autoremove(self) -> dict | list:
            """Remove packages that nothing needs any more"""

    class Restarts(Feature):
        """Services that run replaced files"""

        def services_need_restart(self, **kwargs) -> list[str]:
            """List the services that still run files of removed versions"""
