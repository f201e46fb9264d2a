"""What a minion knows of its packages, for package states

See the runner :mod:`package_states <saltext.package_states.runners.package_states>`, and for what
is applied the state module :mod:`package_state <saltext.package_states.states.package_state>`.
"""

import hashlib
import json
import logging

import saltext.package_states.managers as managers
import saltext.package_states.minion.transaction as transaction
import saltext.package_states.model.item as items
from saltext.package_states.errors import PackageStateError
from saltext.package_states.model import platforms, version
from saltext.package_states.model.decision import NOTHING, word

log = logging.getLogger(__name__)

__virtualname__ = "package_state"


def __virtual__():
    if platforms.manager(__grains__) is None:
        return False, "package states need apt, zypper or dnf"
    return __virtualname__


def _manager():
    return managers.get(__salt__, __opts__, __grains__, __context__)


def inventory():
    """Return all packages of this minion, as package states want them

    :return: a dictionary with ``platform``, ``packages`` and ``digest``, which changes with the
        installed versions and holds; and if the package manager can tell, ``repositories``, their
        names by the digests of what they have, and ``security``, newer versions that mend it.
        ``held_by_others`` are the packages that somebody else holds or locks, if there are any.

    CLI Example: ``salt web1 package_state.inventory``
    """
    manager = _manager()
    packages = manager.inventory()
    found = {
        "platform": manager.name,
        "digest": _digest(packages),
        "packages": packages,
    }
    others = [key for key in packages if manager.held(key)]
    if others:
        found["held_by_others"] = others
    more = {"repositories": manager.digests, "security": manager.security}
    for name, ask in more.items():
        try:
            told = ask()
        except PackageStateError as exc:
            log.warning("It is not known what to tell of %s: %s", name, exc)
            continue
        if told is not None:
            found[name] = told
    return found


def offers(*digests):
    """Return what some repositories of this minion have

    :param digests: those of which :func:`inventory` told, all of them by default; a repository that
        has changed since is left out
    :return: a list of ``digest``, ``name`` and ``packages``: the versions, the newest first

    CLI Example: ``salt web1 package_state.offers``
    """
    manager = _manager()
    found = []
    for name, packages in manager.repositories().items():
        digest = version.digest(manager.name, name, packages)
        if not digests or digest in digests:
            found.append({"digest": digest, "name": name, "packages": packages})
    return found


def _digest(packages):
    facts = [
        [key, there["versions"], there["held"]]
        for key, there in sorted(packages.items())
        if there["versions"] or there["held"]
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _word(manager, made, key):
    there = manager.installed().get(key, ())
    return (
        "refused"
        if key in made.refused
        else word(manager.name, made.decisions[key], there)
    )


def plan(packages, protected=(), left=()):
    """Return what would be done, without doing it

    ``packages`` are lists of ``[name, wanted, version, floor]``, as in the state ``locks``,
    ``protected`` further names that must not be removed, and the locks of what is ``left`` stay, as
    the master could not decide what is wanted of it.

    :return: by package for which anything is to be done, the ``action`` (``install``, ``upgrade``,
        ``downgrade``, ``reinstall``, ``remove``, ``impossible``, ``refused``, or ``lock`` or
        ``unlock``, if nothing else is), the ``version``, a ``reason``, and the packages that would
        go too, ``also_removed``

    CLI Example: ``salt web1 package_state.plan '[["nginx", "removed", "", ""]]'``
    """
    manager = _manager()
    entries = [items.make(*row) for row in packages]
    manager.within(left=left)
    made = transaction.plan(manager, entries, {*platforms.PROTECTED, *protected})
    found = {
        key: {
            "action": _word(manager, made, key),
            "version": decision.version,
            "reason": made.refused.get(key, decision.reason),
            "also_removed": made.also.get(key, []),
        }
        for key, decision in made.decisions.items()
        if decision.action != NOTHING
    }
    locks = manager.locks(entries, True, [step.key for step in made.steps])
    for key, lock in locks.items():
        words = {
            "action": "lock" if lock["new"] else "unlock",
            "version": "",
            "reason": f"its lock is {lock['old'] or 'none'}, and would be {lock['new'] or 'none'}",
            "also_removed": [],
        }
        found.setdefault(key, words)
    return found
