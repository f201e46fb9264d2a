"""Which steps of a transaction can be done together, when not all can.

What a solver names in its refusal is left out first; if that is not it, halves are tried. Packages
that need each other and were parted by that are tried together again at the end.
"""

import re

# how often the solver is asked at most, which takes half a second
MOST = 64


class Choice:
    """The largest part of a transaction that is possible: ``check`` returns why steps are not"""

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
        """Add those that are possible only with each other"""
        for one in left if len(left) > 1 else ():
            others = [step for step in left if step != one]
            if not self.problem([*chosen, *others]):
                return [*chosen, *others], [one]
        return chosen, left


def _names(text, key):
    name = re.escape(key.partition(":")[0])
    return bool(re.search(rf"(?<![\w.+-]){name}(?![\w+])(?!-[A-Za-z])", text))
