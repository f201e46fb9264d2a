"""The lists that apt has of its repositories, one file for each, as apt itself names them.

Reading all of Debian takes a second or two, so the digest of a list is kept while its file is the same.
"""

import glob
import json
import os
import re
from typing import NamedTuple

import saltext.package_states.managers.journal as journal
import saltext.package_states.minion.replace as replace
import saltext.package_states.model.version as versions
from saltext.package_states.errors import PackageStateError

import salt.utils.files

HELPER = "/usr/lib/apt/apt-helper"
_FIELDS = (
    "FILENAME REPO_URI RELEASE COMPONENT ARCHITECTURE LABEL SUITE CODENAME".split()
)
_FORMAT = "\t".join(f"$({field})" for field in _FIELDS)
# the rest of a list is descriptions
# a list that can't be read would else be a repository without packages
_FAILED = "!failed"
_SCRIPT = (
    f'{{ {HELPER} cat-file "$1" || echo {_FAILED}; }}'
    f' | grep -E "^(Package|Version|Architecture): |^$|^{_FAILED}$" || true'
)
_PASSWORD = re.compile(r"//[^/@]*@")
_QUOTED = re.compile(r'[\\|{}\[\]<>"^~_=!@#$%&*]')


class List(NamedTuple):
    path: str  # its file
    name: str  # the repository as ``sources.list`` has it, without a password
    security: bool  # whether its packages are security updates


def is_lost(folder, source):
    """Return whether there is no list of a source, or none that can be read"""
    uri, dist = source.get("uri") or "", source.get("dist") or ""
    if (
        source.get("disabled")
        or source.get("type") != "deb"
        or uri.startswith("cdrom:")
    ):
        return False
    place = dist if dist.endswith("/") else f"dists/{dist}/"
    # apt names a file after its address, with these characters in hexadecimal
    name = _PASSWORD.sub("//", f"{uri.rstrip('/')}/{place}").partition(":")[2]
    name = _QUOTED.sub(lambda found: f"%{ord(found.group()):02x}", name)
    name = re.sub(r"\A//", "", name).replace("/", "_")
    found = glob.glob(os.path.join(folder, glob.escape(name) + "*"))
    return not any(map(os.path.exists, found))


def shown(uri):
    """Return an address without a password"""
    return _PASSWORD.sub("//", uri)


def lists(manager):
    """Return the lists that there are, of :class:`List`"""
    out = manager.run(
        "apt-get", "indextargets", "--format", _FORMAT, "Created-By: Packages"
    )
    found = []
    for line in out.splitlines():
        values = {
            # what a repository has not is left as it was asked for
            field: "" if value == f"$({field})" else value
            for field, value in zip(_FIELDS, line.split("\t"))
        }
        if len(values) != len(_FIELDS) or not os.path.exists(values["FILENAME"]):
            continue
        words = [_PASSWORD.sub("//", values["REPO_URI"]), values["RELEASE"]]
        words += [values["COMPONENT"]] if values["COMPONENT"] else []
        if values["ARCHITECTURE"] not in (manager.native(), "all", ""):
            words.append(values["ARCHITECTURE"])
        found.append(List(values["FILENAME"], " ".join(words), _is_security(values)))
    return found


def _is_security(values):
    """Return whether a repository is one of security updates, by its label or suite"""
    return values["LABEL"].lower() == "debian-security" or any(
        values[field].endswith("-security") for field in ("SUITE", "CODENAME")
    )


def packages(manager, path):
    out = manager.run("sh", "-c", _SCRIPT, "sh", path)
    if _FAILED in out.splitlines():
        raise _unreadable(path)
    native, found, fields = manager.native(), {}, {}
    for line in [*out.splitlines(), ""]:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value.strip()
            continue
        if "Package" in fields and "Version" in fields:
            arch = fields.get("Architecture", native)
            key = fields["Package"]
            key = key if arch in (native, "all") else f"{key}:{arch}"
            found.setdefault(key, []).append(fields["Version"])
        fields = {}
    return versions.ordered(versions.APT, found)


def _unreadable(path):
    return PackageStateError(
        f"{path} can't be read; run apt-get update on the minion, then try again."
    )


def digests(manager, place):
    """Return the names of all repositories that have a list, by the digest of what they have"""
    try:
        with salt.utils.files.fopen(place) as handle:
            known = json.load(handle)
    except (OSError, ValueError):
        known = {}
    kept = {}
    for one in lists(manager):
        there = replace.stamp(one.path)
        if there is None:
            # apt is reading it anew
            raise _unreadable(one.path)
        stamp = [one.name, *there]
        before = known.get(one.path) if isinstance(known, dict) else None
        if before and before[:-1] == stamp:
            kept[one.path] = before
        else:
            there = packages(manager, one.path)
            kept[one.path] = [*stamp, versions.digest(versions.APT, one.name, there)]
    if kept != known:
        journal.write(place, kept)
    return {there[-1]: there[0] for there in kept.values()}
