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
from saltext.package_states.model.decision import NOTHING

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

    CLI Example:

    .. code-block:: bash

        salt web1 package_state.inventory
    """
    manager = _manager()
    packages = manager.inventory()
    found = {
        "platform": manager.name,
        "digest": _digest(packages),
        "packages": packages,
    }
    try:
        found["repositories"] = manager.digests()
    except PackageStateError as exc:
        # the master keeps what it knows of them
        log.warning("What the repositories have is not known: %s", exc)
    try:
        security = manager.security()
    except PackageStateError as exc:
        log.warning("Security updates are not known: %s", exc)
    else:
        if security is not None:
            found["security"] = security
    return found


def offers(*digests):
    """Return what some repositories of this minion have

    digests
        The digests of which :func:`inventory` told, all of them by default. A repository
        that has changed since is left out.

    :return: a list of ``digest``, ``name`` and ``packages``: the versions, the newest first

    CLI Example:

    .. code-block:: bash

        salt web1 package_state.offers
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


def plan(packages, protected=()):
    """Return what would be done, without doing it

    packages
        A list of ``[name, wanted, version, floor]``, as in the state ``locks``.

    protected
        The names of further packages that must not be removed.

    :return: by package for which anything is to be done, the ``action``, the ``version``, a
        ``reason``, and the packages that would go too, ``also_removed``

    CLI Example:

    .. code-block:: bash

        salt web1 package_state.plan '[["nginx", "removed", "", ""]]'
    """
    manager = _manager()
    entries = [items.make(*row) for row in packages]
    made = transaction.plan(manager, entries, {*platforms.PROTECTED, *protected})
    return {
        key: {
            "action": "refused" if key in made.refused else decision.action,
            "version": decision.version,
            "reason": made.refused.get(key, decision.reason),
            "also_removed": made.also.get(key, []),
        }
        for key, decision in made.decisions.items()
        if decision.action != NOTHING
    }
