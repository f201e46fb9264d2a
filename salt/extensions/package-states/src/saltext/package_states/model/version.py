"""How versions compare, the same on the master and on the minions, and what repositories have.

Epochs always count: ``1:0.5`` is newer than ``0.6``. Debian's order is written out here: ``dpkg``
would be a process for each comparison, and a master on another system has none.
"""

import functools
import hashlib
import json
import re

from salt.utils.pkg.rpm import evr_compare, version_to_evr

APT = "apt"
ZYPPER = "zypper"
DNF = "dnf"
MANAGERS = (APT, ZYPPER, DNF)

_RUNS = re.compile(r"([^0-9]*)([0-9]*)")


def _weight(mark):
    """Return what a character that is no digit weighs: a tilde less than the end"""
    if mark == "~":
        return -1
    return ord(mark) if mark.isalpha() else ord(mark) + 256


@functools.lru_cache(maxsize=16384)
def _deb_part(text):
    key = []
    for marks, digits in _RUNS.findall(text):
        if marks or digits:
            # the 0 stands for the end, between a tilde and a letter
            key.append(([_weight(mark) for mark in marks] + [0], _number(digits)))
    # "1." is "1.0", and the end of a version weighs 0 as well
    key.append(([0], _number("")))
    return key


def _number(digits):
    """Return the key of a number, which may have more digits than Python makes an int of"""
    digits = digits.lstrip("0")
    return len(digits), digits


@functools.lru_cache(maxsize=16384)
def _deb_key(version):
    epoch, colon, rest = version.partition(":")
    if not colon or not (epoch.isascii() and epoch.isdigit()):
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    return _number(epoch), _deb_part(upstream), _deb_part(revision)


def _deb_compare(one, two):
    one, two = _deb_key(one), _deb_key(two)
    return (one > two) - (one < two)


def _rpm_compare(one, two):
    one, two = version_to_evr(one), version_to_evr(two)
    if not one[2] or not two[2]:
        # a version without a release is that of any release
        one, two = (*one[:2], ""), (*two[:2], "")
    return evr_compare(one, two)


def compare(manager, one, two):
    """Return -1, 0 or 1 for an older, equal or newer version; without a manager, as Debian does"""
    if manager in (ZYPPER, DNF):
        return _rpm_compare(one, two)
    return _deb_compare(one, two)


def newest(manager, versions):
    order = functools.cmp_to_key(functools.partial(compare, manager))
    return max(versions, key=order, default="")


def sort(manager, versions):
    order = functools.cmp_to_key(functools.partial(compare, manager))
    # those that are equal, such as 1.0 and 1.00, have one order everywhere as well
    return sorted(sorted(set(versions)), key=order)


def ordered(manager, packages):
    """Return packages with lists of their versions, the newest first"""
    return {key: sort(manager, set(there))[::-1] for key, there in packages.items()}


def digest(manager, name, packages):
    """Return the digest of what a repository has: minions of the same one have the same"""
    text = json.dumps([manager, name, packages], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
