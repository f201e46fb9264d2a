"""Packages that minions hold."""

import re

from saltext.query import compare
from saltext.query.locks import of_minion

#: What the mine may have of held packages.
HOLDS = (
    "pkg.list_holds",
    "pkg.list_locks",
    "pkg.get_selections",
    "package_state.inventory",
)

# as yum has it, with the epoch first, and as dnf and zypper have it
_EVR = re.compile(
    r"(?:(?P<first>[0-9]+):)?(?P<name>.+?)-"
    r"(?P<evr>(?:[0-9]+:)?[0-9*][^-:]*-[^-:]+?)"
    r"(?:\.(?:\*|noarch|src|x86_64|i[3-6]86|aarch64|ppc64le|s390x|armv[0-9a-z]+))?"
)


def locks(context):
    """Yield the packages that minions hold, as far as they have told the mine."""
    context.want([f"mine:{function}" for function in HOLDS])
    for minion in context.accepted():
        found = held(context.source("resources").mine(minion, *HOLDS)) or {}
        when = context.documents.updated("mine", minion) if found else None
        for package in sorted(found, key=compare.text_key):
            yield of_minion(
                minion,
                package,
                package=package,
                version=found[package],
                mode="hold",
                told_ts=when,
                reason="The package is held",
            )


def held(entries):
    """Return the version, or None, of each package that is held, by what the mine has
    for each of :data:`HOLDS`; None if it has nothing for any of them.
    """
    ret = {}
    for entry in entries:
        for package, version in _held(entry):
            ret[package] = version or ret.get(package)
    is_known = any(isinstance(entry, (dict, list)) for entry in entries)
    return ret if is_known else None


def split(text):
    """Return the name and the version, or None, of ``vim-2:8.0.1763-19.el8.*``."""
    match = _EVR.fullmatch(text)
    if match is None:
        return text, None
    first, name, evr = match.group("first", "name", "evr")
    return name, f"{first}:{evr}" if first and first != "0" else evr


def _held(found):
    """Yield the name and the version of each package that is held."""
    if isinstance(found, dict) and isinstance(found.get("packages"), dict):
        # of package_state.inventory
        for name, entry in found["packages"].items():
            if isinstance(name, str) and isinstance(entry, dict) and entry.get("held"):
                versions = entry.get("versions")
                versions = versions if isinstance(versions, list) else []
                yield name, versions[-1] if versions else None
        return
    if isinstance(found, dict) and (
        isinstance(found.get("hold"), list)
        or all(isinstance(one, list) for one in found.values())
    ):
        # of pkg.get_selections, which has no key of what there is none of
        found = found.get("hold")
    for name in found if isinstance(found, (dict, list)) else ():
        if isinstance(name, str):
            yield split(name)
