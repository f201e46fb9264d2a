"""
The interface of the virtual module ``pkg``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface

# parameters have the names that they have in the modules
# pylint: disable=redefined-builtin


@Interface.profile("minimal", ["list_pkgs", "install", "remove"])
@Interface.feature("upgrades", ["list_upgrades", "upgrade"])
@Interface.feature("holds", ["unhold", "hold"])
@Interface.feature("repositories", ["get_repo", "list_repos", "del_repo", "mod_repo"])
@Interface.feature("repository keys", ["get_repo_keys", "add_repo_key", "del_repo_key"])
@Interface.feature("files", ["file_list", "file_dict"])
@Interface.feature("groups", ["group_list", "group_info", "group_diff"])
@Interface.feature("patches", ["list_patches", "list_installed_patches"])
@Interface.feature("patterns", ["list_patterns", "list_installed_patterns"])
@Interface.feature("verification", ["verify", "modified", "diff"])
@Interface.feature("selections", ["get_selections", "set_selections"])
@Interface.feature("locks", ["list_locked", "locked", "lock", "unlock"])
class PkgInterface(Interface):
    """
    Packages: install, remove, list, and learn what can be upgraded

    A caller passes names by position and everything else by name. What a package
    manager offers on top is taken by ``**kwargs`` everywhere and used where it is known.
    The module behind ``pkg`` is chosen by the platform.
    """

    __modulename__ = "pkg"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns((str, dict, None))
    def latest_version(self, *names, **kwargs):
        """
        Return the version that an upgrade or an installation would bring

        An empty string if the installed one is the latest, or if there is none.
        With several names, a dictionary of names to versions. The option
        ``refresh`` says whether the database is refreshed before.
        """
        return ""

    @Interface.returns((str, list, dict, None))
    def version(self, *names, **kwargs):
        """
        Return the installed version of a package

        An empty string if it is not installed. With several names, a dictionary of
        names to versions.
        """
        return ""

    @Interface.returns({str: (str, list, dict)})
    def list_pkgs(self, versions_as_list=False, **kwargs):
        """
        List the packages that are installed

        The names of packages to their versions: a string, with commas between
        several versions; with ``versions_as_list`` a list. With options of one
        platform, a description may take the place of a version.
        """
        return {}

    @Interface.returns((dict, str))
    def install(self, name=None, refresh=False, pkgs=None, sources=None, **kwargs):
        """
        Install packages

        ``name`` is one package, or several with commas between them. ``pkgs`` is a
        list of names, or of dictionaries of a name to a version; it takes
        precedence over ``name``. ``sources`` is a list of dictionaries of a name to
        a file or an address. ``refresh`` refreshes the database before.

        Returns what has changed: names to dictionaries with ``old`` and ``new``
        versions, an empty dictionary if nothing has. Some platforms return their
        error as a string.
        """
        return {}

    @Interface.returns((dict, str))
    def remove(self, name=None, pkgs=None, **kwargs):
        """
        Remove packages, and leave their configuration where the platform makes that
        difference

        ``name`` and ``pkgs`` as for ``pkg.install``. Returns what has changed:
        names to dictionaries with ``old`` and ``new``.
        """
        return {}

    @Interface.not_applicable(os_family=["AIX", "Solaris"])
    @Interface.returns((bool, dict, None))
    def refresh_db(self, **kwargs):
        """
        Fetch the lists of available packages

        Returns true if it worked, or a dictionary of repositories to whether it
        did.
        """
        return True

    # --- Feature: upgrades

    # not promised: refresh, which is False or True by default
    @Interface.returns(dict)
    def list_upgrades(self, refresh=True, **kwargs):
        """
        List the packages that can be upgraded, with the versions that they would
        get
        """
        return {}

    # not promised: refresh, which is False or True by default
    @Interface.returns((dict, list))
    def upgrade(self, refresh=True, **kwargs):
        """
        Upgrade all packages

        Returns what has changed: names to dictionaries with ``old`` and ``new``.
        """
        return {}

    # --- Feature: holds

    @Interface.returns(dict)
    def unhold(self, name=None, pkgs=None, sources=None, **kwargs):
        """
        Let packages be upgraded again

        Returns the same as ``pkg.hold``.
        """
        return {}

    @Interface.returns(dict)
    def hold(self, name=None, pkgs=None, sources=None, **kwargs):
        """
        Keep packages at their versions

        Returns names to dictionaries with ``name``, ``changes``, ``result`` and
        ``comment``, as states do.
        """
        return {}

    # --- Feature: repositories

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def get_repo(self, repo, **kwargs):
        """
        Describe one repository; an empty dictionary if there is none
        """

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    @Interface.returns(dict)
    def list_repos(self, **kwargs):
        """
        List the repositories: names, or addresses where they have no names, to
        descriptions
        """
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def del_repo(self, repo):
        """
        Delete a repository
        """

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def mod_repo(self, repo, **kwargs):
        """
        Change a repository, or make it
        """

    # --- Feature: repository keys

    @Interface.supported(os_family=["Debian"])
    def get_repo_keys(self, aptkey=True, keydir=None):
        """
        List the keys of repositories
        """

    @Interface.supported(os_family=["Debian"])
    @Interface.returns(bool)
    def add_repo_key(
        self,
        path=None,
        text=None,
        keyserver=None,
        keyid=None,
        saltenv="base",
        aptkey=True,
        keydir=None,
        keyfile=None,
    ):
        """
        Add a key of a repository
        """
        return False

    @Interface.supported(os_family=["Debian"])
    def del_repo_key(self, name=None, aptkey=True, keydir=None, **kwargs):
        """
        Delete a key of a repository
        """

    # --- Feature: files

    @Interface.returns(dict)
    def file_list(self, *packages, **kwargs):
        """
        List the files of packages: ``files``, and ``errors`` for what was not found
        """
        return {}

    @Interface.returns(dict)
    def file_dict(self, *packages, **kwargs):
        """
        List the files of packages: ``packages`` to lists, and ``errors`` for what
        was not found
        """
        return {}

    # --- Feature: groups

    @Interface.supported(os_family=["Arch", "RedHat"])
    @Interface.returns(dict)
    def group_list(self):
        """
        List the groups of packages
        """
        return {}

    # not promised: expand, which pacmanpkg does not take
    # not promised: ignore_groups, which pacmanpkg does not take
    @Interface.supported(os_family=["Arch", "RedHat"])
    @Interface.returns(dict)
    def group_info(self, name):
        """
        List the packages of a group
        """
        return {}

    @Interface.supported(os_family=["Arch", "RedHat"])
    @Interface.returns(dict)
    def group_diff(self, name):
        """
        List which packages of a group are installed and which are not
        """
        return {}

    # --- Feature: patches

    @Interface.supported(os_family=["RedHat", "Suse"])
    def list_patches(self, refresh=False, root=None, **kwargs):
        """
        List the patches that are available
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    def list_installed_patches(self, root=None, **kwargs):
        """
        List the patches that are installed
        """

    # --- Feature: patterns

    @Interface.supported(os_family=["Suse"])
    def list_patterns(self, refresh=False, root=None):
        """
        List all known patterns from available repos
        """

    @Interface.supported(os_family=["Suse"])
    def list_installed_patterns(self, root=None):
        """
        List installed patterns on the system
        """

    # --- Feature: verification

    @Interface.supported(os_family=["RedHat", "Suse"])
    def verify(self, *names, **kwargs):
        """
        Runs an rpm -Va on a system, and returns the results in a dict
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    def modified(self, *packages, **kwargs):
        """
        List the modified files that belong to a package
        """

    @Interface.supported(os_family=["RedHat", "Suse"])
    @Interface.returns(dict)
    def diff(self, *paths, **kwargs):
        """
        Return a formatted diff between current files and original in a package
        """
        return {}

    # --- Feature: selections

    @Interface.supported(os_family=["Debian"])
    def get_selections(self, pattern=None, state=None):
        """
        View package state from the dpkg database
        """

    @Interface.supported(os_family=["Debian"])
    @Interface.returns(dict)
    def set_selections(self, path=None, selection=None, clear=False, saltenv="base"):
        """
        Change package state in the dpkg database
        """
        return {}

    # --- Feature: locks

    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns(list)
    def list_locked(self, **kwargs):
        """
        Query the package database those packages which are locked against
        reinstallation, modification or deletion
        """
        return []

    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns(bool)
    def locked(self, name, **kwargs):
        """
        Query the package database to determine if the named package is locked
        against reinstallation, modification or deletion
        """
        return False

    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns(bool)
    def lock(self, name, **kwargs):
        """
        Lock the named package against reinstallation, modification or deletion
        """
        return False

    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns(bool)
    def unlock(self, name, **kwargs):
        """
        Unlock the named package against reinstallation, modification or deletion
        """
        return False

    # --- Some modules

    @Interface.optional
    @Interface.supported(os_family=["RedHat", "Suse"])
    @Interface.returns(dict)
    def list_updates(self, refresh=True, root=None, **kwargs):
        """
        The same as ``pkg.list_upgrades``
        """
        return {}

    @Interface.optional
    def info_installed(self, *names, **kwargs):
        """
        Describe installed packages in detail
        """

    @Interface.optional
    @Interface.supported(os_family=["Suse"])
    @Interface.returns(dict)
    def info_available(self, *names, **kwargs):
        """
        Return the information of the named package available for the system
        """
        return {}

    @Interface.optional
    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    @Interface.returns(dict)
    def parse_arch(self, name):
        """
        Parse name and architecture from the specified package name
        """
        return {}

    @Interface.optional
    def available_version(self, *names, **kwargs):
        """
        The same as ``pkg.latest_version``
        """

    @Interface.optional
    @Interface.returns((bool, dict))
    def upgrade_available(self, name, **kwargs):
        """
        Say whether there is an upgrade for a package
        """
        return False

    @Interface.optional
    @Interface.returns((int, None))
    def version_cmp(self, pkg1, pkg2, ignore_epoch=False, **kwargs):
        """
        Compare two versions: -1 if the first one is older, 0 if both are the same,
        1 if it is newer, None if there is no telling
        """
        return 0

    @Interface.optional
    @Interface.returns(dict)
    def list_repo_pkgs(self, *args, **kwargs):
        """
        List the packages that the repositories have, with all versions
        """
        return {}

    @Interface.optional
    def normalize_name(self, name):
        """
        Strip the architecture off the name of a package, if it is the system's own
        """

    @Interface.optional
    def purge(self, name=None, pkgs=None, **kwargs):
        """
        Remove packages and their configuration

        As ``pkg.remove`` otherwise; where the platform makes no difference, it is
        the same.
        """

    # not promised: pattern, which is '[\\w+]+(?:[.-][^-]+)*' or None by default
    # not promised: root, which yumpkg does not take
    @Interface.optional
    @Interface.supported(os_family=["RedHat", "Suse"])
    def list_holds(self, full=True):
        """
        List information on locked packages
        """

    @Interface.optional
    @Interface.supported(os_family=["Suse"])
    @Interface.returns(dict)
    def list_locks(self, root=None):
        """
        List current package locks
        """
        return {}

    @Interface.optional
    @Interface.supported(os_family=["Suse"])
    @Interface.returns(dict)
    def clean_locks(self, root=None):
        """
        Remove unused locks that do not currently (with regard to repositories used)
        lock any package
        """
        return {}

    @Interface.optional
    def owner(self, *paths, **kwargs):
        """
        Name the package that a file belongs to, with several paths a dictionary
        """

    @Interface.optional
    def search(self, name):
        """
        Search for a package in the repositories
        """

    @Interface.optional
    @Interface.supported(os_family=["Suse"])
    @Interface.returns(list)
    def list_products(self, all=False, refresh=False, root=None):
        """
        List all available or installed SUSE products
        """
        return []

    @Interface.optional
    @Interface.supported(os_family=["RedHat", "Suse"])
    @Interface.returns(dict)
    def download(self, *packages, **kwargs):
        """
        Download packages and do not install them
        """
        return {}

    @Interface.optional
    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    @Interface.returns(dict)
    def list_downloaded(self, root=None, **kwargs):
        """
        List the packages that are downloaded
        """
        return {}

    @Interface.optional
    @Interface.supported(os_family=["Suse"])
    def list_provides(self, root=None, **kwargs):
        """
        List what installed packages provide
        """

    @Interface.optional
    @Interface.supported(os_family=["Suse"])
    @Interface.returns(list)
    def resolve_capabilities(self, pkgs, refresh=False, root=None, **kwargs):
        """
        Replace capabilities by the packages that provide them
        """
        return []

    @Interface.optional
    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def services_need_restart(self, **kwargs):
        """
        List the services that still run files of removed versions
        """

    @Interface.optional
    @Interface.supported(os_family=["RedHat"])
    def clean_metadata(self, **kwargs):
        """
        Clean the lists of available packages
        """

    @Interface.optional
    @Interface.supported(os_family=["FreeBSD", "RedHat"])
    def update(
        self,
        name=None,
        pkgs=None,
        refresh=True,
        skip_verify=False,
        normalize=True,
        minimal=False,
        obsoletes=False,
        jail=None,
        chroot=None,
        root=None,
        force=False,
        **kwargs,
    ):
        """
        Another name of ``pkg.upgrade`` on Red Hat, and of ``pkg.refresh_db`` on
        FreeBSD: better call these
        """

    @Interface.optional
    @Interface.supported(os_family=["RedHat"])
    def group_install(self, name, skip=(), include=(), **kwargs):
        """
        Install the packages of a group
        """

    # not promised: jail, which aptpkg does not take
    # not promised: chroot, which aptpkg does not take
    # not promised: root, which aptpkg does not take
    # not promised: dryrun, which aptpkg does not take
    # not promised: list_only, which pkgng does not take
    # not promised: purge, which pkgng does not take
    @Interface.optional
    @Interface.supported(os_family=["Debian", "FreeBSD"])
    def autoremove(self):
        """
        Remove packages that nothing needs any more
        """

    @Interface.optional
    @Interface.supported(os_family=["Debian"])
    @Interface.returns(dict)
    def show(self, *names, **kwargs):
        """
        Show what the repositories say of packages
        """
        return {}

    # not promised: jail, which aptpkg does not take
    # not promised: chroot, which aptpkg does not take
    # not promised: root, which aptpkg does not take
    # not promised: origin, which aptpkg does not take
    # not promised: quiet, which aptpkg does not take
    @Interface.optional
    @Interface.supported(os_family=["Debian", "FreeBSD"])
    def which(self, path):
        """
        Name the package that a file belongs to
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns((dict, str))
    def parse_config(self, file_name="/usr/local/etc/pkg.conf"):
        """
        Return dict of uncommented global variables
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def info(self, *names, **kwargs):
        """
        The same as ``pkg.version``
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns(bool)
    def update_package_site(self, new_url):
        """
        Updates remote package repo URL, PACKAGESITE var to be exact
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    @Interface.returns(list)
    def stats(
        self, local=False, remote=False, jail=None, chroot=None, root=None, bytes=False
    ):
        """
        Return pkgng stats
        """
        return []

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def backup(self, file_name, jail=None, chroot=None, root=None):
        """
        Export installed packages into yaml+mtree file
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def restore(self, file_name, jail=None, chroot=None, root=None):
        """
        Reads archive created by pkg backup -d and recreates the database
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def audit(self, jail=None, chroot=None, root=None):
        """
        Audits installed packages against known vulnerabilities
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def clean(self, jail=None, chroot=None, root=None, clean_all=False, dryrun=False):
        """
        Cleans the local cache of fetched remote packages
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def check(
        self,
        jail=None,
        chroot=None,
        root=None,
        depends=False,
        recompute=False,
        checksum=False,
        checklibs=False,
    ):
        """
        Sanity checks installed packages
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def fetch(
        self,
        name,
        jail=None,
        chroot=None,
        root=None,
        fetch_all=False,
        quiet=False,
        fromrepo=None,
        glob=True,
        regex=False,
        pcre=False,
        local=False,
        depends=False,
    ):
        """
        Fetches remote packages
        """

    @Interface.optional
    @Interface.supported(kernel=["FreeBSD"])
    def updating(
        self, name, jail=None, chroot=None, root=None, filedate=None, filename=None
    ):
        """
        ' Displays UPDATING entries of software packages
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns((dict, list, str))
    def list_available(self, *names, **kwargs):
        """
        Return a list of available versions of the specified package
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def genrepo(self, **kwargs):
        """
        Generate package metadata db based on files within the winrepo_source_dir
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_repo_data(self, saltenv=None):
        """
        Returns the existing package metadata db
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_package_info(self, name, saltenv=None):
        """
        Get information about the package as found in the winrepo database
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def compare_versions(self, ver1="", oper="==", ver2=""):
        """
        Compare software package versions
        """

    @Interface.optional
    def homebrew_prefix(self):
        """
        Returns the full path to the homebrew prefix
        """

    @Interface.optional
    def get_fmri(self, name, **kwargs):
        """
        Returns FMRI from partial name
        """

    @Interface.optional
    @Interface.returns(bool)
    def is_installed(self, name, **kwargs):
        """
        Returns True if the package is installed
        """
        return False

    @Interface.optional
    @Interface.supported(os_family=["NixOS"])
    def collect_garbage(self):
        """
        Completely removed all currently 'uninstalled' packages in the nix store
        """

    @Interface.optional
    @Interface.returns((None, bool, str))
    def installed(
        self,
        name,
        version=None,
        refresh=False,
        fromrepo=None,
        skip_verify=False,
        pkgs=None,
        sources=None,
        **kwargs,
    ):
        """
        Answer a state that asks for a package; for devices behind a proxy minion
        """

    # --- Deprecated

    @Interface.deprecated(successor="pkg.list_holds")
    @Interface.supported(os_family=["RedHat"])
    def get_locked_packages(self, pattern="[\\w+]+(?:[.-][^-]+)*", full=True):
        """
        The former name of ``pkg.list_holds``
        """

    @Interface.deprecated(successor="pkg.group_install")
    @Interface.supported(os_family=["RedHat"])
    def groupinstall(self, name, skip=(), include=(), **kwargs):
        """
        Another name of ``pkg.group_install``
        """

    @Interface.deprecated(successor="pkg.remove")
    @Interface.supported(kernel=["FreeBSD"])
    def delete(
        self,
        name=None,
        pkgs=None,
        jail=None,
        chroot=None,
        root=None,
        all_installed=False,
        force=False,
        glob=False,
        dryrun=False,
        recurse=False,
        regex=False,
        pcre=False,
        **kwargs,
    ):
        """
        Another name of ``pkg.remove``
        """

    @Interface.deprecated(successor="pkg.hold")
    @Interface.returns(dict)
    def pin(self, name=None, pkgs=None, sources=None, **kwargs):
        """
        Another name of ``pkg.hold``
        """
        return {}

    @Interface.deprecated(successor="pkg.unhold")
    @Interface.returns(dict)
    def unpin(self, name=None, pkgs=None, sources=None, **kwargs):
        """
        Another name of ``pkg.unhold``
        """
        return {}

    @Interface.deprecated(successor="pkg.remove")
    @Interface.supported(os_family=["NixOS"])
    def uninstall(self, *pkgs):
        """
        Erase packages from the profile of Nix
        """
