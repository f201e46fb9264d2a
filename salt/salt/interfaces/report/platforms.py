"""
The grains of the platforms that a provider is for

Source text does not tell them: a module asks for them in ``__virtual__``, in any way it
likes. They decide in the report whether a function that is not there is missing, not
supported or not applicable.

.. versionadded:: 3009.0
"""

import fnmatch

LINUX = {"kernel": ["Linux"]}
DEBIAN = {"kernel": ["Linux"], "os_family": ["Debian"], "os": ["Debian", "Ubuntu"]}
REDHAT = {"kernel": ["Linux"], "os_family": ["RedHat"], "os": ["RedHat", "Fedora"]}
SUSE = {"kernel": ["Linux"], "os_family": ["Suse"], "os": ["SUSE"]}
ARCH = {"kernel": ["Linux"], "os_family": ["Arch"], "os": ["Arch"]}
NIX = {"kernel": ["Linux"], "os_family": ["NixOS"], "os": ["NixOS"]}
WINDOWS = {"kernel": ["Windows"], "os_family": ["Windows"], "os": ["Windows"]}
MACOS = {"kernel": ["Darwin"], "os_family": ["MacOS"], "os": ["MacOS"]}
AIX = {"kernel": ["AIX"], "os_family": ["AIX"], "os": ["AIX"]}
SOLARIS = {"kernel": ["SunOS"], "os_family": ["Solaris"], "os": ["Solaris"]}
FREEBSD = {"kernel": ["FreeBSD"], "os_family": ["FreeBSD"], "os": ["FreeBSD"]}
NETBSD = {"kernel": ["NetBSD"], "os_family": ["NetBSD"], "os": ["NetBSD"]}
DEVICE = {"kernel": ["proxy"], "os_family": ["proxy"], "os": ["proxy"]}
# Linux and what is run like it
UNIX = {"kernel": ["Linux", "FreeBSD", "OpenBSD", "NetBSD", "AIX", "SunOS"]}
UNIX_USERS = {"kernel": ["Linux", "OpenBSD", "NetBSD"]}
ANY = {"kernel": ["Linux", "FreeBSD", "OpenBSD", "NetBSD", "SunOS", "Darwin"]}

# The first pattern that fits a module's name counts
PLATFORMS = (
    ("dummyproxy_*", DEVICE),
    ("rest_*", DEVICE),
    ("ssh_*", DEVICE),
    ("napalm_*", DEVICE),
    ("nxos*", DEVICE),
    ("win_*", WINDOWS),
    ("mac_*", MACOS),
    ("aix*", AIX),
    ("*solaris*", SOLARIS),
    ("smf_service", SOLARIS),
    ("pkgutil", SOLARIS),
    ("pkgng", FREEBSD),
    ("pw_*", FREEBSD),
    ("pkgin", NETBSD),
    ("debian_*", DEBIAN),
    ("netplan_ip", DEBIAN),
    ("dpkg_*", DEBIAN),
    ("deb*_pkgbuild", DEBIAN),
    ("aptpkg", DEBIAN),
    ("*_apt", DEBIAN),
    ("rh_*", REDHAT),
    ("nm_ip", LINUX),
    ("rpm*", {"kernel": ["Linux"], "os_family": ["RedHat", "Suse"]}),
    ("yumpkg", REDHAT),
    ("*_yum", REDHAT),
    ("zypperpkg", SUSE),
    ("pacmanpkg", ARCH),
    ("nixpkg", NIX),
    ("linux_*", LINUX),
    ("systemd_service", LINUX),
    ("upstart_service", LINUX),
    ("useradd", UNIX_USERS),
    ("groupadd", UNIX_USERS),
    ("x509*", {"kernel": [*ANY["kernel"], "AIX", "Windows"]}),
    ("timezone", UNIX),
    ("system", {"kernel": ["Linux", "FreeBSD", "OpenBSD", "NetBSD", "AIX"]}),
    ("*", {"kernel": [*ANY["kernel"], "AIX"]}),
)


def grains_of(provider):
    """
    Give the grains of the platforms of a provider

    :param str provider: The name of its module, for example ``aptpkg``
    :return: The names of grains to lists of values
    :rtype: dict
    """
    for pattern, grains in PLATFORMS:
        if fnmatch.fnmatchcase(provider, pattern):
            return grains
    return {}


def condition(providers, having):
    """
    Say with grains which of the providers have a function

    :param providers: The names of all providers
    :param having: The names of those that have it
    :return: The grains, or an empty dictionary if no single one tells
    :rtype: dict
    """
    for grain in ("kernel", "os_family"):
        inside = {
            value for name in having for value in grains_of(name).get(grain, [None])
        }
        outside = {
            value
            for name in providers
            if name not in having
            for value in grains_of(name).get(grain, [None])
        }
        if inside and outside and not inside & outside and None not in inside:
            return {grain: sorted(inside)}
    return {}
