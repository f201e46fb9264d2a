"""What apt, zypper and dnf can do; the rest is an error when a state is compiled for such a minion."""

import functools
import re

from saltext.package_states.errors import PackageStateError
from saltext.package_states.model.item import ABSENT, PURGED
from saltext.package_states.model.version import APT, DNF, ZYPPER

# what a system says of itself whose packages change at its next start only
TRANSACTIONAL = "transactional"
# systems whose package manager package states do not know
OTHER = "other"
YUM = "yum"
# another program than dnf 4, with other commands and another plugin for locks
DNF5 = "dnf5"
REFUSED = {
    OTHER: (
        "package states know apt, zypper and dnf only, and this system has none of them; use pkg"
        " states there, and leave it out of what package states are assigned to."
    ),
    YUM: (
        "package states work with dnf 4, and this system is so old that it has yum; use pkg"
        " states there, and leave it out of what package states are assigned to."
    ),
    TRANSACTIONAL: (
        "package states can't change a transactional system, as its packages change at the next"
        " start only; use transactional_update.apply with pkg states there."
    ),
    DNF5: (
        "package states work with dnf 4, and dnf is version 5 on this system; use pkg states"
        " there, and leave it out of what package states are assigned to."
    ),
}
# Fedora calls dnf 5 dnf since then
FEDORA = 41

# the grain os_family
FAMILIES = {"Debian": APT, "Suse": ZYPPER, "RedHat": DNF}

# Without these, a minion does not come back. More can be protected with the
# option ``protected``; apt and dnf know of others themselves.
PROTECTED = frozenset(
    "apt base-files bash coreutils dnf dpkg glibc init libc6 libsolv-tools libzypp"
    " python3 rpm salt salt-common salt-minion systemd systemd-sysv venv-salt-minion"
    " zypper".split()
)

_RPM = (
    re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*\Z"),
    re.compile(r"[A-Za-z0-9.+~^:_*?-]+\Z"),
    frozenset({"amd64", "arm64", "i386", "all"}),
)
# names, versions, and architectures that others have
_KNOWN = {
    APT: (
        re.compile(r"[a-z0-9][a-z0-9+.-]+\Z"),
        re.compile(r"[A-Za-z0-9.+~:*?-]+\Z"),
        frozenset({"x86_64", "aarch64", "i586", "i686", "noarch", "ppc64le"}),
    ),
    ZYPPER: _RPM,
    DNF: _RPM,
}


def manager(grains):
    """Return the package manager of a minion, one of :data:`REFUSED`, or None if it is not known"""
    grains = grains or {}
    if grains.get("transactional"):
        return TRANSACTIONAL
    major = grains.get("osmajorrelease")
    if grains.get("os") == "Fedora" and isinstance(major, int) and major >= FEDORA:
        return DNF5
    family = grains.get("os_family")
    # a minion sends what it likes
    if not isinstance(family, str):
        return None
    found = FAMILIES.get(family, OTHER)
    # dnf came with version 8, and with Fedora before that
    if found == DNF and grains.get("os") != "Fedora":
        return YUM if isinstance(major, int) and major < 8 else DNF
    return found


@functools.lru_cache(maxsize=65536)
def problem(platform, item):
    """Return why a package manager, if it is known, can't do what is wanted, or None if it can"""
    if platform is None:
        return None
    if platform in REFUSED:
        return REFUSED[platform]
    if platform not in _KNOWN:
        return f"package states know no {platform}; use apt, zypper or dnf."
    names, numbers, foreign = _KNOWN[platform]
    if not names.match(item.name):
        return f"{platform} has no package names like {item.name}; correct the name."
    if item.architecture in foreign:
        return (
            f"{item.key}: {platform} has another name for this architecture; use that."
        )
    for _, version in (*item.condition, (">=", item.floor)):
        if version and not numbers.match(version):
            return f"{item.key}: {platform} has no versions like {version}; correct it."
    if platform != APT and item.wanted == PURGED:
        return (
            f"{item.key}: {platform} can't purge, it keeps changed configuration;"
            " use removed."
        )
    return None


def guard(items, protected=PROTECTED):
    """Check that no protected package is to be removed"""
    wrong = [
        item.key for item in items if item.wanted in ABSENT and item.name in protected
    ]
    if wrong:
        raise PackageStateError(
            f"{', '.join(wrong)} must not be removed; leave it installed, or say"
            " unmanaged."
        )
