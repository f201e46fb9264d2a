"""
Packages that minions hold.
"""

import saltext.query.locks
import saltext.query.natural

#: What the mine may have of held packages.
HOLDS = ("pkg.list_holds", "pkg.list_locks", "package_state.inventory")


def needs():
    """
    Return what of each minion's documents it reads.
    """
    return [("mine", function) for function in HOLDS]


def locks(context):
    """
    Yield the packages that minions hold, as far as they have told the mine.
    """
    for minion in saltext.query.locks.accepted(context):
        found = {}
        for entry in context.source("resources").mine(minion, *HOLDS):
            for package, version in _held(entry):
                if package not in found or version:
                    found[package] = version
        when = context.documents.updated("mine", minion) if found else None
        for package in sorted(found, key=saltext.query.natural.key):
            yield saltext.query.locks.of_minion(
                minion,
                package,
                package=package,
                version=found[package],
                mode="hold",
                told_ts=when,
                reason="The package is held",
            )


def _held(found):
    """
    Yield the name and the version of each package that is held, whichever form the
    function has.
    """
    if isinstance(found, dict) and isinstance(found.get("packages"), dict):
        # of package_state.inventory
        for name, entry in found["packages"].items():
            if isinstance(name, str) and isinstance(entry, dict) and entry.get("held"):
                versions = entry.get("versions")
                yield name, (
                    versions[-1] if isinstance(versions, list) and versions else None
                )
    elif isinstance(found, (dict, list)):
        for name in found:
            if isinstance(name, str):
                yield name, None
