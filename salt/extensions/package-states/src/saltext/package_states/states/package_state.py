"""Packages as a package state wants them

The runner :mod:`package_states <saltext.package_states.runners.package_states>` compiles package
states to these. They differ from :mod:`pkg <salt.states.pkg>` in what they lock: what is installed
stays at its version, what is absent stays away. The arguments of all are those of :func:`installed`.

.. code-block:: yaml

    "package_states locks":
      package_state.locks:
        - packages:
          - ["nginx", "installed", ">=1.18,<2.0", ""]

    "package_states nginx":
      package_state.installed:
        - name: nginx
        - version: ">=1.18,<2.0"
"""

import saltext.package_states.managers as managers
import saltext.package_states.managers.journal as journal
import saltext.package_states.minion.transaction as transaction
import saltext.package_states.model.item as items
import saltext.package_states.model.platforms as platforms
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model.decision import IMPOSSIBLE, INSTALL, NOTHING

import salt.exceptions
import salt.utils.pkg

__virtualname__ = "package_state"

# what the state ``locks`` tells the others of its run
_CONTEXT = "package_state.run"


def __virtual__():
    if platforms.manager(__grains__) is None:
        return False, "package states need apt, zypper or dnf"
    return __virtualname__


def _result(name, result, comment, changes=None):
    return {
        "name": name,
        "result": result,
        "comment": comment,
        "changes": changes or {},
    }


def locks(name, packages, protected=(), scope="", trouble=None):
    """Bring all packages of this minion into the state that is wanted, and set their locks

    All of them are planned first, and what the package manager's own solver accepts is done in one
    call; then all locks are set at once. The other states of this module tell what became of each
    package, so this one must come before them. It refreshes the lists of the repositories once.

    ``packages`` is a list of ``[name, wanted, version, floor]``: all entries of this minion.
    ``protected`` names further packages that must not be removed. ``scope`` is the state to which the
    entries belong, if it is applied by itself: locks of others are not released then. ``trouble`` is
    what the master could not decide, sentences by package: these stay as they are, with their locks.
    """
    test, changes, said = __opts__["test"], {}, []
    others, sources = _beside(scope)
    try:
        entries, wrong, stories = [], list((trouble or {}).values()), {}
        for row in packages:
            try:
                entry = items.make(*row)
            except (InvalidInput, TypeError) as exc:
                wrong.append(str(exc))
                continue
            rivals = sources.get(entry.key, {})
            against = sorted(one for one, how in rivals.items() if how != entry.policy)
            # none of them tries alone what all together could not
            story = f"{entry.key} was left as it is: the state of the locks failed"
            if against:
                story = (
                    f"{entry.key}: {', '.join(against)} wants something else of it in this"
                    " run; apply the states one by one, or change one of them"
                )
                wrong.append(f"{story}.")
            else:
                entries.append(entry)
            stories[entry.key] = (entry, (False, story, {}))
        _keep(stories)
        manager = managers.get(__salt__, __opts__, __grains__, __context__)
        manager.within(scope, others, trouble or ())
        protected = {*platforms.PROTECTED, *protected}
        told, changes = _recovered(manager, entries, protected, test)
        if salt.utils.pkg.check_refresh(__opts__):
            manager.refresh()
            salt.utils.pkg.clear_rtag(__opts__)
        # what is removed under its bare name goes in all architectures
        others_too = transaction.siblings(manager, entries)
        made = transaction.plan(manager, [*entries, *others_too], protected)
        outcome = None if test else transaction.run(manager, made)
        stories = {
            entry.key: (entry, _story(manager, entry, made, outcome))
            for entry in made.items
        }
        for one in others_too:
            entry, story = stories[one.name]
            stories[one.name] = (entry, _both(story, stories.pop(one.key)[1]))
        _keep(stories)
        also = {key for some in made.also.values() for key in some}
        if outcome:
            manager.recovered()
            # the package manager came to its end, whatever becomes of the locks
            journal.end()
            own = {entry.key for entry in made.items}
            along = {
                key: change
                for key, change in outcome.changes.items()
                if key not in own and key not in also
            }
            if along:
                said.append(f"{len(along)} other packages changed along with them.")
            changes.update(
                {
                    key: {**change, "old": changes.get(key, change)["old"]}
                    for key, change in along.items()
                }
            )
        coming = [step.key for step in made.steps]
        locked = manager.locks(entries, test, coming)
        wrong.extend(manager.loose())
    except (salt.exceptions.CommandExecutionError, OSError) as exc:
        return _result(name, False, " ".join([*said, str(exc)]), changes)
    # a package may have changed and have another lock
    changes.update(
        {
            key if key not in changes else f"lock of {key}": change
            for key, change in locked.items()
        }
    )
    if locked:
        many = "1 lock was" if len(locked) == 1 else f"{len(locked)} locks were"
        if test:
            many = f"{many.rpartition(' ')[0]} would be"
        said.insert(0, f"{many} changed.")
    elif not wrong and not said:
        said.append("All locks are as they should be.")
    said = " ".join([*told, *said, *wrong])
    if wrong:
        return _result(name, False, said, changes)
    return _result(name, None if test and changes else True, said, changes)


def _beside(scope):
    """Return the other scopes of this run, and what they want: by package, the policies by scope"""
    scopes, found = [], {}
    for chunk in globals().get("__lowstate__") or ():
        if chunk.get("state") != __virtualname__ or chunk.get("fun") != "locks":
            continue
        other = chunk.get("scope") or ""
        if other == scope:
            continue
        scopes.append(other)
        for row in chunk.get("packages") or ():
            try:
                entry = items.make(*row)
            except (InvalidInput, TypeError):
                continue
            found.setdefault(entry.key, {})[other or "the minion"] = entry.policy
    return scopes, found


def _recovered(manager, entries, protected, test):
    """Tidy up after a run that was killed, and return what to say of it, a list, and the changes"""
    notes = journal.unfinished()
    if notes is None:
        return [], {}
    story = "An earlier run was ended too early; this one"
    if test:
        goes = manager.leftovers(notes)
        goes = f" It would remove {', '.join(goes)}." if goes else ""
        return [f"{story} would tidy up first.{goes}"], {}
    changes = transaction.recover(manager, entries, notes, protected)
    return [f"{story} has tidied up and gone on."], changes


def _asked(entry):
    return entry.wanted, entry.version, entry.floor, bool(__opts__["test"])


def _keep(stories):
    __context__.setdefault(_CONTEXT, {}).update(
        (key, (_asked(entry), story)) for key, (entry, story) in stories.items()
    )


def _story(manager, entry, made, outcome):
    key, decision = entry.key, made.decisions[entry.key]
    if key in made.refused:
        return False, f"{key} was left as it is: {made.refused[key]}", {}
    also = made.also.get(key, [])
    planned = any(step.key == key for step in made.steps)
    if outcome is None and planned:
        return None, *_planned(manager, entry, decision, also)
    after = outcome.decisions[key] if outcome else decision
    changes = {}
    if outcome:
        changes = {
            one: outcome.changes[one] for one in (key, *also) if one in outcome.changes
        }
    if after.action == NOTHING and not planned and not changes:
        return True, f"{key} is as it should be, {after.version or 'absent'}", changes
    if after.action == NOTHING:
        goes = f" With it {', '.join(also)} went." if also else ""
        said = f" The package manager said: {outcome.said}" if outcome.said else ""
        text = f"{key} is {after.version or 'absent'} now"
        return True, (text, f".{goes}{said}"), changes
    if not planned and after.action == IMPOSSIBLE:
        return False, after.reason, changes
    said = f". The package manager said: {outcome.said}" if outcome.said else ""
    return (
        False,
        (f"{key} is not as it should be after the change: {after.reason}", said),
        changes,
    )


def _both(story, other):
    worse = min(story, other, key=lambda one: (False, None, True).index(one[0]))
    return worse[0], worse[1], {**story[2], **other[2]}


def _planned(manager, entry, decision, also):
    text = "it would be removed"
    if decision.action == INSTALL:
        text = f"version {decision.version} would be installed"
    goes = f" With it {', '.join(also)} would go." if also else ""
    changes = {}
    for key in (entry.key, *also):
        facts = manager.facts(key)
        old = ", ".join(facts.installed) or (
            "configuration" if facts.configured else ""
        )
        changes[key] = {"old": old, "new": ""}
    if decision.action == INSTALL:
        changes[entry.key]["new"] = decision.version
    return (f"{entry.key}: {decision.reason}, {text}", f".{goes}"), changes


def _apply(wanted, name, version=None, floor=None, source=""):
    origin = f" (from {source})" if source else ""
    try:
        entry = items.make(name, wanted, version, floor)
        asked, story = __context__.get(_CONTEXT, {}).pop(entry.key, (None, None))
        if asked != _asked(entry):
            raise InvalidInput(
                "no state package_state.locks of this run has planned it, without which"
                " nothing is locked or protected; apply the whole file that"
                " package_states.set has written, or use pkg states."
            )
    except (salt.exceptions.SaltException, OSError) as exc:
        return _result(name, False, f"{name}: {exc}{origin}")
    result, comment, changes = story
    if isinstance(comment, tuple):
        comment, end = comment
    else:
        end = "." if result else ""
    return _result(name, result, f"{comment}{origin}{end}", changes)


def installed(name, version=None, floor=None, source=""):
    """A package is installed in a version that meets a condition, and stays at it

    The package is ``name`` or ``name:architecture``, ``version`` what its version must fulfil,
    such as ``>=1.0,<2.0``, and ``floor`` the oldest one that does, which an upgrade of the entry
    sets. ``source`` is where the entry comes from, for the comment.
    """
    return _apply(items.INSTALLED, name, version, floor, source)


def present(name, version=None, source=""):
    """A package is installed in a version that meets a condition, and updates are welcome"""
    return _apply(items.PRESENT, name, version, None, source)


def latest(name, source=""):
    """A package is installed in the version that the package manager prefers"""
    return _apply(items.LATEST, name, None, None, source)


def removed(name, version=None, source=""):
    """A package is not installed, or not in the versions that meet a condition"""
    return _apply(items.REMOVED, name, version, None, source)


def purged(name, version=None, source=""):
    """As :func:`removed`, and the configuration of the package goes too"""
    return _apply(items.PURGED, name, version, None, source)


def kept(name, version=None, source=""):
    """What is installed of a package stays as it is, first found or in an exact version: for orphans"""
    return _apply(items.KEPT, name, version, None, source)
