"""
The rules of ``rate_limiting: rules``, and pauses, which are rules that administrators
give while the master runs.

The first rule that matches a job by function, user and target decides:

========== ==================================================================
``accept`` the job is published at once, whatever the limits are
``queue``  it waits for its turn, as without a rule
``reject`` it is refused before it gets a job id
``pause``  it waits until the rule is gone, and other jobs pass
``limit``  it waits while ``limit`` slots are occupied by jobs that match
========== ==================================================================

Each rule may set the ``cost`` and the ``priority`` of a job, and has a ``reason``, which
callers read.
"""

import fnmatch
import re

import salt.job_criteria
from salt.exceptions import SaltInvocationError
from salt.job_criteria import is_number, is_text
from salt.job_handler import date

ACTIONS = ("accept", "queue", "reject", "pause", "limit")

#: The highest priority; the lowest is as far below 0.
MAX_PRIORITY = 1000000

#: So many rules may pause jobs.
MAX_PAUSES = 100


def is_priority(value):
    """Return whether a value is a priority."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and -MAX_PRIORITY <= value <= MAX_PRIORITY


_NUMBER = (is_number, "write a number above 0.")
_TEXT = (is_text, "write a text of at most 1000 characters.")

#: What each key of a rule accepts, and what to write instead of something else.
_KINDS = {
    "function": _TEXT,
    "user": _TEXT,
    "target": (
        lambda value: isinstance(value, str) and len(value) <= 100000,
        "write a text of at most 100000 characters.",
    ),
    "reason": _TEXT,
    "limit": _NUMBER,
    "cost": _NUMBER,
    "priority": (
        is_priority,
        f"write a whole number from {-MAX_PRIORITY} to {MAX_PRIORITY}.",
    ),
}


def errors(rules):
    """Yield a sentence for each thing that is wrong with the rules."""
    if not isinstance(rules, list):
        yield f"rules is {rules!r}: write a list."
        return
    for number, rule in enumerate(rules, 1):
        if not isinstance(rule, dict):
            yield f"rule {number} is {rule!r}: write a mapping with an action."
            continue
        of = f" of rule {number}"
        yield from salt.job_criteria.unknown(rule, {*_KINDS, "action"}, of)
        yield from salt.job_criteria.errors(rule, _KINDS, of)
        action = rule.get("action")
        if action not in ACTIONS:
            yield (
                f"action of rule {number} is {action!r}: write one of"
                f" {', '.join(ACTIONS)}."
            )
        if action == "limit" and rule.get("limit") is None:
            yield f"rule {number} has no limit: write how many slots may be occupied."


class Rule:
    """One rule. A pause is one that is ``given``, and not in the configuration."""

    def __init__(self, settings, given=False):
        self.settings = settings = salt.job_criteria.given(settings)
        self.given = given
        self.action = settings["action"]
        self.target = settings.get("target")
        self.limit = settings.get("limit")
        self.cost = settings.get("cost")
        self.priority = settings.get("priority")
        self._function = re.compile(fnmatch.translate(settings.get("function", "*")))
        self._user = re.compile(fnmatch.translate(settings.get("user", "*")))
        #: the jobs that it let go, and that may still run
        self.jids = set()
        #: the ids of the minions in the target, when they are known
        self.minions = frozenset()

    @property
    def reason(self):
        """Why the rule does what it does."""
        if self.settings.get("reason"):
            return salt.job_criteria.text(self.settings["reason"])
        what = [
            f"{key} {self.settings[key][:100]}"
            for key in ("function", "user", "target")
            if self.settings.get(key)
        ]
        ret = f"a rule says {self.action} for {', '.join(what) or 'all jobs'}"
        until = self.settings.get("until")
        return f"{ret} until {date(until)}" if until else ret

    def matches(self, functions, user, minions):
        """Return whether the rule matches a job, given the ids of its minions."""
        return (
            self._user.match(user) is not None
            and any(map(self._function.match, functions or [""]))
            and (self.target is None or not self.minions.isdisjoint(minions))
        )


def _scope(rule):
    return tuple(rule.get(key) for key in ("function", "user", "target"))


#: of a pause of all jobs, which stops the queue
_ALL = (None, None, None)


class Rules:
    """All rules, in their order.

    :ivar list pauses: those of administrators; ``until`` is when each ends
    """

    def __init__(self, settings=()):
        self.pauses = []
        #: writes pauses down, before they hold
        self.keep = lambda pauses: None
        self.version = 0
        self.rules = []
        #: the targets of all rules
        self.targets = set()
        self._targets = {}
        self.set(settings)

    def set(self, settings):
        """Take over the rules of a configuration."""
        self._settings = list(settings)
        self.refresh()

    @property
    def paused_until(self):
        """Until when all jobs are paused, which may be infinite, or None."""
        for rule in self.pauses:
            if _scope(rule) == _ALL:
                return rule.get("until", float("inf"))
        return None

    def pause(self, rule):
        """Pause the jobs that a rule matches, for ever without ``until``.

        :raises SaltInvocationError: if too many rules pause jobs
        """
        others = [one for one in self.pauses if _scope(one) != _scope(rule)]
        # a pause of all jobs is no rule, and always possible
        if len(others) >= MAX_PAUSES and _scope(rule) != _ALL:
            raise SaltInvocationError(
                f"Resume some jobs first: {MAX_PAUSES} rules pause jobs already."
            )
        self._set_pauses([*others, {**rule, "action": "pause"}])

    def resume(self, rule):
        """End the pause with the same rule, or all if it matches all jobs."""
        scope = _scope(rule)
        self._set_pauses(
            [one for one in self.pauses if scope not in (_ALL, _scope(one))]
        )

    def _set_pauses(self, pauses):
        self.keep(pauses)
        self.pauses = pauses
        self.refresh()

    def end_pauses(self, now):
        """Forget the pauses that are over."""
        left = [one for one in self.pauses if one.get("until", now + 1) > now]
        if len(left) < len(self.pauses):
            self.pauses = left
            self.refresh()

    def refresh(self):
        """Make the rules anew, as what administrators say has changed."""
        self.version += 1
        before = {repr(rule.settings): rule.jids for rule in self.rules}
        pauses = [Rule(rule, True) for rule in self.pauses if _scope(rule) != _ALL]
        self.rules = [*pauses, *map(Rule, self._settings)]
        for rule in self.rules:
            rule.jids = before.get(repr(rule.settings), rule.jids)
        self.targets = {rule.target for rule in self.rules} - {None}
        known = self._targets.items()
        self._targets = {name: ids for name, ids in known if name in self.targets}
        self.learn({})

    def resolve(self, opts):
        """Return the ids of the minions in each target. May take seconds."""
        # not where a command only wants to know of a priority
        import salt.utils.minions  # pylint: disable=import-outside-toplevel

        checker = salt.utils.minions.CkMinions(opts)
        return {
            target: frozenset(
                checker.check_minions(target, "compound", greedy=False)["minions"]
            )
            for target in self.targets
        }

    def learn(self, targets):
        """Take over what :meth:`resolve` has returned, maybe before others were added."""
        self._targets = {**self._targets, **targets}
        for rule in self.rules:
            minions = self._targets.get(rule.target, frozenset())
            self.version += minions != rule.minions
            rule.minions = minions

    def find(self, functions, user, minions):
        """Return the first rule that matches a job, or None."""
        if self.targets:
            # the smaller of two sets is walked, but a list always is
            minions = frozenset(minions)
        for rule in self.rules:
            if rule.matches(functions, user, minions):
                return rule
        return None
