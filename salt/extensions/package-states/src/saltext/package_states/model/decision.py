"""What is to be done for an item, given what is installed and what is available.

The minion does what is decided here; the master shows it in the status.
"""

from typing import NamedTuple

import saltext.package_states.model.condition as condition
import saltext.package_states.model.version as versions
from saltext.package_states.model.item import ABSENT, KEPT, LATEST, PURGED, UNMANAGED

NOTHING = "nothing"
INSTALL = "install"
REMOVE = "remove"
IMPOSSIBLE = "impossible"


class Facts(NamedTuple):
    """What a package manager says of a package"""

    manager: str  # ``apt``, ``zypper`` or ``dnf``
    installed: tuple = ()  # the versions that are installed, as a tuple
    available: tuple = ()  # the versions that the repositories have, as a tuple
    # the version that the package manager would install, or an empty string
    candidate: str = ""
    configured: bool = False  # whether the package is gone and its configuration is not
    recorded: str = ""  # the version that was there when the package was kept first
    # whether a change of the package was begun and not ended, as by a script that
    # failed or a power cut
    broken: bool = False


class Decision(NamedTuple):
    action: str  # one of ``nothing``, ``install``, ``remove`` and ``impossible``
    version: str = ""  # the one to install; for ``nothing``, the one that is right
    reason: str = ""  # why not, or why, for people


def word(manager, decision, installed):
    """Return what is done with what is installed, for people"""
    there = versions.newest(manager, installed)
    if decision.action != INSTALL or not there:
        return decision.action
    order = versions.compare(manager, decision.version, there)
    return ("reinstall", "upgrade", "downgrade")[order]


def decide(item, facts):
    if item.wanted == UNMANAGED:
        return Decision(NOTHING, versions.newest(facts.manager, facts.installed))
    if item.wanted in ABSENT:
        return _absent(item, facts)
    if item.wanted == KEPT:
        return _kept(item, facts)
    if item.wanted == LATEST:
        return _latest(item, facts)
    return _installed(item, facts)


def _matching(facts, these, bounds):
    return [
        version for version in these if condition.meets(facts.manager, version, bounds)
    ]


def _absent(item, facts):
    wrong = _matching(facts, facts.installed, item.condition)
    if wrong:
        return Decision(
            REMOVE, versions.newest(facts.manager, wrong), "it is installed"
        )
    if item.wanted == PURGED and facts.configured and not item.condition:
        return Decision(REMOVE, "", "its configuration is there")
    return Decision(NOTHING, versions.newest(facts.manager, facts.installed))


def _installed(item, facts):
    right = _matching(facts, facts.installed, item.bounds)
    if right:
        return _there(facts, versions.newest(facts.manager, right))
    found = _matching(facts, facts.available, item.bounds)
    if facts.candidate in found:
        target = facts.candidate
    else:
        target = versions.newest(facts.manager, found)
    if target:
        return Decision(INSTALL, target, _why(facts))
    return Decision(IMPOSSIBLE, "", _missing(item, facts))


def _latest(item, facts):
    current = versions.newest(facts.manager, facts.installed)
    if not facts.candidate:
        if current:
            # an orphan is the latest of its kind
            return _there(facts, current)
        return Decision(IMPOSSIBLE, "", _missing(item, facts))
    if current and versions.compare(facts.manager, current, facts.candidate) >= 0:
        return _there(facts, current)
    return Decision(INSTALL, facts.candidate, _why(facts))


def _kept(item, facts):
    wanted = item.condition[0][1] if item.condition else facts.recorded
    if not wanted:
        if facts.installed:
            return _there(facts, versions.newest(facts.manager, facts.installed))
        return Decision(
            IMPOSSIBLE, "", f"{item.key} is not installed, so it can't be kept."
        )
    bounds = (("=", wanted),)
    right = _matching(facts, facts.installed, bounds)
    if right:
        return _there(facts, right[0])
    found = _matching(facts, facts.available, bounds)
    if found:
        return Decision(INSTALL, found[0], _why(facts))
    there = (
        f"version {', '.join(facts.installed)} is" if facts.installed else "nothing is"
    )
    return Decision(
        IMPOSSIBLE,
        "",
        f"{item.key} should be kept at {wanted}, {there} installed, and no repository"
        " has that version: install it by hand, or change the state.",
    )


def _there(facts, version):
    """Return that nothing is to be done for a right version, unless it is half installed"""
    if facts.broken:
        return Decision(INSTALL, version, f"{version} is only half installed")
    return Decision(NOTHING, version)


def _why(facts):
    return (
        f"{', '.join(facts.installed)} is installed"
        if facts.installed
        else "it is not installed"
    )


def _missing(item, facts):
    if not facts.available:
        return f"No repository has {item.key}; correct the name or add a repository."
    bounds = condition.show(item.bounds)
    there = ", ".join(versions.sort(facts.manager, facts.available))
    return f"No version of {item.key} meets {bounds or item.wanted}; there are {there}."
