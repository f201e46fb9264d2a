"""
Minions of different sizes
==========================

:mod:`capacity <salt.job_criteria.capacity>`, with capacities of their own for minions
that match by grain, by pillar or by id: a build machine with 64 cores takes more jobs
than a router.

.. code-block:: yaml

    rate_limiting:
      criteria: minion_capacity
      max_master_jobs: 2000
      max_minion_jobs: 5
      minion_jobs:
        - G@role:build: 20
        - I@tier:gold: 10
        - router-*: 1

``minion_jobs``
    Capacities by target, of which the first that matches counts. A target is a glob of
    the minion id, or a grain (``G@``) or pillar (``I@``) with a glob as its value.
    ``max_minion_jobs`` holds for all others.

Grains and pillars come from the master's minion data cache, which is read about once a
minute, so a minion that is new or has changed has its capacity a minute later.

.. versionadded:: 3009.0
"""

import fnmatch

import salt.cache
import salt.job_criteria
import salt.job_criteria.capacity
import salt.utils.data

_BANKS = {"G@": "grains", "I@": "pillar"}


class MinionCapacity(salt.job_criteria.capacity.Capacity):
    """
    Capacities that depend on the minion.
    """

    options = (*salt.job_criteria.capacity.Capacity.options, "minion_jobs")

    def __init__(self, settings):
        super().__init__(settings)
        self.limits = {}
        rules = settings.get("minion_jobs")
        self.rules = [] if self.validate(settings) else _rules(rules)
        # what needs nothing but the id
        self.globs = [rule for rule in self.rules if rule[0][:2] not in _BANKS]

    @classmethod
    def validate(cls, settings):
        errors = super().validate(settings)
        rules = settings.get("minion_jobs", [])
        if not isinstance(rules, list) or not all(
            isinstance(rule, dict) and len(rule) == 1 for rule in rules
        ):
            return [*errors, f"minion_jobs is {rules!r}: write a list of target: jobs."]
        for target, limit in _rules(rules):
            if not isinstance(target, str) or (
                target[:2] in _BANKS and ":" not in target
            ):
                errors.append(
                    f"minion_jobs has {target!r}: write G@grain:value, I@key:value or a"
                    " glob."
                )
            if not salt.job_criteria.is_count(limit):
                errors.append(
                    f"minion_jobs of {target} is {limit!r}: {salt.job_criteria.COUNT}"
                )
        return errors

    def minion_limit(self, minion):
        if minion in self.limits:
            return self.limits[minion]
        for glob, limit in self.globs:
            if fnmatch.fnmatchcase(minion, glob):
                return limit
        return self.max_minion_jobs

    def collect(self, opts):
        banks = {rule[0][:2] for rule in self.rules} & set(_BANKS)
        if not banks:
            return None
        cache = salt.cache.factory(opts)
        minions = set()
        for letter in banks:
            minions.update(cache.list(_BANKS[letter]))
        limits = {}
        for minion in minions:
            data = {
                letter: cache.fetch(_BANKS[letter], minion) or {} for letter in banks
            }
            limit = self._limit(minion, data)
            if limit is not None:
                limits[minion] = limit
        return limits

    def _limit(self, minion, data):
        """
        Return the capacity that a rule gives a minion, or None.
        """
        for target, limit in self.rules:
            letter = target[:2]
            if letter in data:
                if salt.utils.data.subdict_match(data[letter], target[2:]):
                    return limit
            elif fnmatch.fnmatchcase(minion, target):
                return limit
        return None

    def learn(self, collected, now):
        self.limits = collected


def _rules(rules):
    return [next(iter(rule.items())) for rule in rules or []]


def criteria(settings):
    """
    Return the criteria of these settings.
    """
    return MinionCapacity(settings)
