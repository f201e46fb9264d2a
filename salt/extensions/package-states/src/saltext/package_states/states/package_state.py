"""
Packages as a package state wants them

The runner :mod:`package_states <saltext.package_states.runners.package_states>` compiles package
states to these. They differ from :mod:`pkg <salt.states.pkg>` in what they lock:
what is installed stays at its version, what is absent stays away. They know
ranges and ``!=`` on each platform, compare epochs, name each package that a
removal takes along, and refuse to remove what other entries want or what is
protected.

.. code-block:: yaml

    "package_states locks":
      package_state.locks:
        - packages:
          - ["nginx", "installed", ">=1.18,<2.0", ""]
          - ["telnetd", "purged", "", ""]

    "package_states telnetd":
      package_state.purged:
        - name: telnetd

    "package_states nginx":
      package_state.installed:
        - name: nginx
        - version: ">=1.18,<2.0"
"""

import saltext.package_states.item as items
import saltext.package_states.managers as managers
import saltext.package_states.platforms as platforms
from saltext.package_states.decision import IMPOSSIBLE, INSTALL, NOTHING
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.item import ABSENT

import salt.exceptions
import salt.utils.pkg

__virtualname__ = "package_state"

# what the state ``locks`` tells the others of its run
_CONTEXT = "package_state.run"


def __virtual__():
    if platforms.manager(__grains__) is None:
        return False, "package states need apt, zypper or dnf"
    return __virtualname__


def _manager():
    return managers.get(__salt__, __opts__, __grains__, __context__)


def _result(name, result, comment, changes=None):
    return {
        "name": name,
        "result": result,
        "comment": comment,
        "changes": changes or {},
    }


def locks(name, packages, protected=()):
    """
    Set the locks of all packages of this minion, and release those that are no more

    Must come before the other states of this module. It refreshes the lists of the
    repositories once in a run, as :mod:`pkg <salt.states.pkg>` does.

    name
        Any text.

    packages
        A list of ``[name, wanted, version, floor]``: all entries of this minion.

    protected
        The names of further packages that must not be removed.
    """
    try:
        entries, wrong = [], []
        for row in packages:
            try:
                entries.append(items.make(*row))
            except (InvalidInput, TypeError) as exc:
                wrong.append(str(exc))
        __context__[_CONTEXT] = {
            "wanted": {
                entry.key
                for entry in entries
                if entry.wanted not in (*ABSENT, items.UNMANAGED)
            },
            "protected": {*platforms.PROTECTED, *protected},
        }
        manager = _manager()
        if salt.utils.pkg.check_refresh(__opts__):
            __salt__["pkg.refresh_db"]()
            salt.utils.pkg.clear_rtag(__opts__)
        changes = manager.locks(entries, __opts__["test"])
    except (salt.exceptions.CommandExecutionError, OSError) as exc:
        return _result(name, False, str(exc))
    if wrong:
        return _result(name, False, " ".join(wrong), changes)
    if not changes:
        return _result(name, True, "All locks are as they should be.")
    if __opts__["test"]:
        return _result(name, None, f"{len(changes)} locks would be changed.", changes)
    return _result(name, True, f"{len(changes)} locks were changed.", changes)


def _apply(wanted, name, version=None, floor=None, source=""):
    origin = f" (from {source})" if source else ""
    try:
        entry = items.make(name, wanted, version, floor)
        manager = _manager()
        problem = platforms.problem(manager.name, entry)
        if problem:
            return _result(name, False, problem + origin)
        decision = manager.decide(entry)
        if decision.action == NOTHING:
            text = f"{entry.key} is as it should be"
            return _result(
                name, True, f"{text}, {decision.version or 'absent'}{origin}."
            )
        if decision.action == IMPOSSIBLE:
            return _result(name, False, decision.reason + origin)
        run = __context__.get(_CONTEXT, {})
        also, refusal = manager.losses(
            entry,
            decision,
            run.get("wanted", ()),
            run.get("protected", platforms.PROTECTED),
        )
        if refusal:
            return _result(
                name, False, f"{entry.key} was left as it is: {refusal}{origin}"
            )
        text = "it would be removed"
        if decision.action == INSTALL:
            text = f"version {decision.version} would be installed"
        goes = f" With it {', '.join(also)} would go." if also else ""
        if __opts__["test"]:
            return _result(
                name,
                None,
                f"{entry.key}: {decision.reason}, {text}{origin}.{goes}",
                _expected(manager, entry, decision, also),
            )
        said = ""
        try:
            changes = manager.apply(entry, decision) or {}
        except PackageStateError:
            # not what the package manager said
            raise
        except salt.exceptions.CommandExecutionError as exc:
            # apt fails as long as any other package is half configured, whatever
            # became of this one
            changes, said = _changes(exc), f" The package manager said: {exc}"
        decision = manager.decide(entry)
        if decision.action != NOTHING:
            return _result(
                name,
                False,
                f"{entry.key} is not as it should be after the change:"
                f" {decision.reason}{origin}.{said}",
                changes,
            )
        manager.finish(entry)
    except (salt.exceptions.SaltException, OSError) as exc:
        return _result(name, False, f"{name}: {exc}{origin}", _changes(exc))
    goes = (f" With it {', '.join(also)} went." if also else "") + said
    if not changes:
        # such as the configuration of a package that was gone before
        changes = {entry.key: {"old": "configuration", "new": ""}}
    return _result(
        name,
        True,
        f"{entry.key} is {decision.version or 'absent'} now{origin}.{goes}",
        changes,
    )


def _expected(manager, entry, decision, also):
    """
    Return the changes of a dry run
    """
    changes = {}
    for key in (entry.key, *also):
        facts = manager.facts(key)
        old = ", ".join(facts.installed) or (
            "configuration" if facts.configured else ""
        )
        changes[key] = {"old": old, "new": ""}
    if decision.action == INSTALL:
        changes[entry.key]["new"] = decision.version
    return changes


def _changes(exc):
    info = getattr(exc, "info", None)
    changes = info.get("changes") if isinstance(info, dict) else None
    return changes if isinstance(changes, dict) else {}


def installed(name, version=None, floor=None, source=""):
    """
    A package is installed in a version that meets a condition, and stays at it

    name
        The package, ``name`` or ``name:architecture``.

    version
        What the version must fulfil, such as ``>=1.0,<2.0``, ``!=1.5`` or ``1.*``.
        Without it, any version does.

    floor
        The oldest version that does, whatever the condition says: an upgrade of the
        entry sets it.

    source
        Where the entry comes from, for the comment.
    """
    return _apply(items.INSTALLED, name, version, floor, source)


def latest(name, source=""):
    """
    A package is installed in the version that the package manager prefers

    name
        The package, ``name`` or ``name:architecture``.

    source
        Where the entry comes from, for the comment.
    """
    return _apply(items.LATEST, name, None, None, source)


def removed(name, version=None, source=""):
    """
    A package is not installed, or not in the versions that meet a condition

    name
        The package, ``name`` or ``name:architecture``.

    version
        The versions that are removed, as for :func:`installed`.

    source
        Where the entry comes from, for the comment.
    """
    return _apply(items.REMOVED, name, version, None, source)


def purged(name, version=None, source=""):
    """
    As :func:`removed`, and the configuration of the package goes too

    name
        The package, ``name`` or ``name:architecture``.

    version
        The versions that are removed, as for :func:`installed`.

    source
        Where the entry comes from, for the comment.
    """
    return _apply(items.PURGED, name, version, None, source)


def kept(name, version=None, source=""):
    """
    What is installed of a package stays as it is: for orphans

    name
        The package, ``name`` or ``name:architecture``.

    version
        The exact version to keep. Without it, the one that is found first.

    source
        Where the entry comes from, for the comment.
    """
    return _apply(items.KEPT, name, version, None, source)
