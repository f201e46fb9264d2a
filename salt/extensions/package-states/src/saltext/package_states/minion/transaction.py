"""All that is to be done for the items of a minion, planned first and then done at once.

The solver of the package manager checks the plan, with the locks that will be in force. What it
refuses, and what would take along a package that is wanted or protected, is left out with the
reason; the rest is one call of the package manager.
"""

import re
from typing import NamedTuple

from saltext.package_states.managers.base import Step
from saltext.package_states.model import condition, platforms
from saltext.package_states.model.decision import (
    IMPOSSIBLE,
    INSTALL,
    NOTHING,
    REMOVE,
    Decision,
)
from saltext.package_states.model.item import ABSENT, PURGED, UNMANAGED

# how often what is left over is tried again, as after the failure of one package
ROUNDS = 3
# removals whose own losses are asked for one by one
ALONE = 20
# how often the solver is asked at most, which takes half a second
MOST = 64


class Plan(NamedTuple):
    items: tuple  # all items
    decisions: dict  # what is to be done for each item, by key
    steps: tuple  # those that can be done, a tuple
    refused: dict  # why others can't, sentences by key
    also: dict  # the packages that would go too, lists by key
    # the packages whose version would give way to another one, a tuple of keys
    replaced: tuple = ()


def plan(manager, items, protected=platforms.PROTECTED):
    items = tuple(items)
    manager.fetch([item.key for item in items])
    decisions = {item.key: _decide(manager, item) for item in items}
    steps = [
        _step(manager, item, decisions[item.key])
        for item in items
        if decisions[item.key].action in (INSTALL, REMOVE)
    ]
    # removals come first: what is installed may need their place
    steps.sort(key=lambda step: step.action == INSTALL)
    wanted = _wanted(items)
    solutions = {}

    def solve(some):
        key = frozenset(step.key for step in some)
        if key not in solutions:
            solutions[key] = manager.solve(some, items)
        return solutions[key]

    def check(some):
        return _problem(manager, some, solve(some), wanted, protected)

    chosen, refused = Choice(check).made(steps)
    also = _also(chosen, solve)
    replaced = solve(chosen).replaced if chosen else ()
    return Plan(items, decisions, tuple(chosen), refused, also, replaced)


def _wanted(items):
    return {item.key for item in items if item.wanted not in (*ABSENT, UNMANAGED)}


def recover(manager, items, notes, protected=platforms.PROTECTED):
    """Tidy up after a run that was killed, and return what changed, see :attr:`Outcome.changes`

    Only what that run changed itself is removed, and nothing protected, wanted or held.
    """
    own, wanted = {step[0] for step in notes.get("steps", ())}, _wanted(items)

    def check(found):
        others = [key for key in found.removed if key not in own]
        if others:
            return f"{', '.join(others)} would be removed."
        return _problem(manager, (), found, wanted, protected)

    manager.forget()
    before = manager.installed()
    manager.recover(notes, check)
    manager.forget()
    return _changes(before, manager.installed())


def _changes(before, after):
    return {
        key: {
            "old": ", ".join(before.get(key, ())),
            "new": ", ".join(after.get(key, ())),
        }
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    }


def siblings(manager, items):
    """Return items for other architectures of packages to be removed under their bare name"""
    items = tuple(items)
    named = {item.key for item in items}
    bare = {
        item.name: item
        for item in items
        if item.wanted in ABSENT and not item.architecture
    }
    found = []
    for key in manager.installed() if bare else ():
        name, _, architecture = key.partition(":")
        if architecture and name in bare and key not in named:
            found.append(bare[name]._replace(architecture=architecture))
    return found


def _decide(manager, item):
    problem = platforms.problem(manager.name, item)
    return Decision(IMPOSSIBLE, "", problem) if problem else manager.decide(item)


def _step(manager, item, decision):
    there = ()
    if decision.action == REMOVE and item.condition:
        installed = manager.facts(item.key).installed
        wrong = tuple(
            one
            for one in installed
            if condition.meets(manager.name, one, item.condition)
        )
        there = () if len(wrong) == len(installed) else wrong
    return Step(
        item.key, decision.action, decision.version, there, item.wanted == PURGED
    )


def _problem(manager, steps, found, wanted, protected):
    if found.problem:
        return found.problem
    precious = [
        key
        for key in found.removed
        if key.partition(":")[0] in protected or manager.essential(key)
    ]
    if precious:
        return f"{', '.join(precious)} must not be removed: it is protected."
    own = {step.key for step in steps}
    missed = [key for key in found.removed if key in wanted and key not in own]
    if missed:
        return (
            f"{', '.join(missed)} would go too, which the package states want to be"
            " there; change one of the entries."
        )
    held = [key for key in (*found.removed, *found.changed) if manager.held(key)]
    if held:
        return (
            f"{', '.join(held)} would have to change, which somebody else holds on the"
            " minion; release the hold, or say unmanaged."
        )
    return ""


def _also(steps, solve):
    """Return the packages that would go along with each step, lists by key"""
    own = {step.key for step in steps if step.action == REMOVE}
    if not steps:
        return {}
    extra = [key for key in solve(steps).removed if key not in own]
    if not extra:
        return {}
    if len(steps) == 1:
        return {steps[0].key: extra}
    found, left = {}, set(extra)
    for step in steps[:ALONE]:
        mine = [key for key in solve([step]).removed if key in extra]
        if mine:
            found[step.key] = mine
            left.difference_update(mine)
    if left:
        found.setdefault(steps[0].key, []).extend(sorted(left))
    return found


class Outcome(NamedTuple):
    # what is still to be done for each item, by key: nothing where all went well
    decisions: dict
    # all packages whose version changed, a dictionary of the key to ``old`` and ``new``
    changes: dict
    # what the package manager complained of, empty if nothing is left to be done
    said: str


def run(manager, made):
    """Do what was planned, and return what became of it, an :class:`Outcome`"""
    if not made.steps:
        return Outcome(made.decisions, {}, "")
    # it compares with what is there, which somebody else may have changed since
    manager.forget()
    before = manager.begin(made.steps, made.replaced)
    steps, decisions, said = list(made.steps), dict(made.decisions), ""
    for _ in range(ROUNDS):
        said = manager.commit(steps, made.items)
        manager.forget()
        manager.fetch([item.key for item in made.items])
        # what has become wrong by this is told as well
        decisions = {item.key: _decide(manager, item) for item in made.items}
        left = [
            step
            for step in steps
            if decisions[step.key].action in (INSTALL, REMOVE)
            and not manager.facts(step.key).broken
        ]
        if not left or len(left) == len(steps):
            break
        steps = left
    changes = _changes(before, manager.installed())
    for step in made.steps:
        if (
            step.key not in changes
            and not step.version
            and decisions[step.key].action == NOTHING
        ):
            changes[step.key] = {"old": "configuration", "new": ""}
    wrong = any(decisions[step.key].action != NOTHING for step in made.steps)
    return Outcome(decisions, changes, said if wrong else "")


class Choice:
    """The largest part of a transaction that is possible: ``check`` returns why steps are not

    What a solver names in its refusal is left out first; if that is not it, halves are tried. Packages
    that need each other and were parted by that are tried together again at the end.
    """

    def __init__(self, check):
        self._check = check
        self._known = {}

    def problem(self, steps):
        """Return why steps can't be done together, or an empty string"""
        key = frozenset(step.key for step in steps)
        if not key:
            return ""
        if key not in self._known:
            if len(self._known) >= MOST:
                return "the package manager was asked too often what can be done"
            self._known[key] = self._check(steps)
        return self._known[key]

    def made(self, steps):
        """Return the steps that can be done, a list, and why each other one can't, by key"""
        problem = self.problem(steps)
        if not problem:
            return list(steps), {}
        named = [step for step in steps if _names(problem, step.key)]
        others = [step for step in steps if step not in named]
        if not named or not others or self.problem(others):
            named, others = steps, []
        chosen = others + self._halves(others, named)
        left = [step for step in steps if step not in chosen]
        chosen, left = self._together(chosen, left)
        order = {step.key: number for number, step in enumerate(steps)}
        chosen.sort(key=lambda step: order[step.key])
        return chosen, {
            step.key: self.problem([*chosen, step]) or problem for step in left
        }

    def _halves(self, chosen, steps):
        if not steps:
            return []
        if not self.problem([*chosen, *steps]):
            return list(steps)
        if len(steps) == 1:
            return []
        half = len(steps) // 2
        first = self._halves(chosen, steps[:half])
        return first + self._halves([*chosen, *first], steps[half:])

    def _together(self, chosen, left):
        for one in left if len(left) > 1 else ():
            others = [step for step in left if step != one]
            if not self.problem([*chosen, *others]):
                return [*chosen, *others], [one]
        return chosen, left


def _names(text, key):
    name = re.escape(key.partition(":")[0])
    return bool(re.search(rf"(?<![\w.+-]){name}(?![\w+])(?!-[A-Za-z])", text))
