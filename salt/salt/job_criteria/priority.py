"""
Lanes of different weight
=========================

:mod:`capacity <salt.job_criteria.capacity>`, with an order of its own: jobs wait in
lanes of different weight, and the users of a lane take turns.

.. code-block:: yaml

    rate_limiting:
      criteria: priority
      max_master_jobs: 2000
      lanes:
        - urgent: {weight: 10, functions: [pkg.*], users: [security]}
        - bulk: {weight: 1, functions: [state.*]}
      default_weight: 3

``lanes``
    Each with its name, a weight, and globs of ``functions`` or ``users`` or both; a
    job is in the first lane that both fit. A compound command has to fit with all of
    its functions. Jobs that fit nowhere are in the lane ``default``.

``default_weight``
    The weight of that one, 1 by default.

Of the jobs that are first of their user and lane, the next one is whose user has had the
least from the master of late, by the weight. Each ``ageing`` seconds that a job waits,
its lane weighs once more what it weighs.

.. versionadded:: 3009.0
"""

import fnmatch

import salt.job_criteria
import salt.job_criteria.capacity


class Priority(salt.job_criteria.capacity.Capacity):
    """
    Capacities, with lanes and fairness.
    """

    options = (
        *salt.job_criteria.capacity.Capacity.options,
        "lanes",
        "default_weight",
    )

    def __init__(self, settings):
        super().__init__(settings)
        self.weights = {"default": settings.get("default_weight", 1)}
        self.lanes = []
        if not self.validate(settings):
            for lane in settings.get("lanes", []):
                ((name, rule),) = lane.items()
                self.weights[name] = rule.get("weight", 1)
                self.lanes.append((name, rule))

    @classmethod
    def validate(cls, settings):
        errors = super().validate(settings)
        weight = settings.get("default_weight", 1)
        if not salt.job_criteria.is_number(weight):
            errors.append(f"default_weight is {weight!r}: {salt.job_criteria.NUMBER}")
        lanes = settings.get("lanes", [])
        if not isinstance(lanes, list) or not all(
            isinstance(lane, dict)
            and len(lane) == 1
            and all(isinstance(rule, dict) for rule in lane.values())
            for lane in lanes
        ):
            return [
                *errors,
                f"lanes is {lanes!r}: write a list of name: {{weight: 1, ...}}.",
            ]
        for lane in lanes:
            ((name, rule),) = lane.items()
            errors += cls._lane_errors(name, rule)
        return errors

    @staticmethod
    def _lane_errors(name, rule):
        errors = []
        if not salt.job_criteria.is_number(rule.get("weight", 1)):
            errors.append(
                f"the weight of lane {name} is {rule['weight']!r}:"
                f" {salt.job_criteria.NUMBER}"
            )
        for key in ("functions", "users"):
            globs = rule.get(key, [])
            if not isinstance(globs, list) or not all(
                isinstance(glob, str) for glob in globs
            ):
                errors.append(f"the {key} of lane {name} are {globs!r}: write a list.")
        for key in sorted(set(rule) - {"weight", "functions", "users"}):
            errors.append(
                f"lane {name} has {key}: there are weight, functions and users."
            )
        return errors

    def flow(self, job):
        for name, rule in self.lanes:
            functions, users = rule.get("functions"), rule.get("users")
            if (
                functions is None or all(_any(functions, f) for f in job.functions)
            ) and (users is None or _any(users, job.user)):
                return name, job.user
        return "default", job.user

    def weight(self, flow):
        return self.weights[flow[0]]


def _any(globs, value):
    return any(fnmatch.fnmatchcase(value, glob) for glob in globs)


def criteria(settings):
    """
    Return the criteria of these settings.
    """
    return Priority(settings)
