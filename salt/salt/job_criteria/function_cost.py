"""
Jobs that cost more than others
===============================

:mod:`capacity <salt.job_criteria.capacity>`, with a price for each function: a
highstate that compiles for a minute and returns a megabyte is not a ``test.version``.

.. code-block:: yaml

    rate_limiting:
      criteria: function_cost
      max_master_jobs: 2000
      max_minion_jobs: 10
      costs:
        state.highstate: 10
        state.*: 5
        pkg.*: 2
      default_cost: 1

``costs``
    Points by function, where a glob stands for several. The first one that matches
    counts. A compound command costs what its functions cost together. A minion
    always gets one job, even if that alone costs more than it has.

``default_cost``
    What other functions cost, 1 by default.

All of it is a method ``cost`` on top of :mod:`capacity <salt.job_criteria.capacity>`, so it
goes together with another module that does something else. This combines two:

.. code-block:: python

    from salt.job_criteria.function_cost import FunctionCost
    from salt.job_criteria.priority import Priority


    class Ours(FunctionCost, Priority):
        options = (*FunctionCost.options, *Priority.options)


    def criteria(settings):
        return Ours(settings)

.. versionadded:: 3009.0
"""

import fnmatch

import salt.job_criteria
import salt.job_criteria.capacity


class FunctionCost(salt.job_criteria.capacity.Capacity):
    """
    Capacities with a price for each function.
    """

    options = (*salt.job_criteria.capacity.Capacity.options, "costs", "default_cost")

    @classmethod
    def validate(cls, settings):
        errors = super().validate(settings)
        costs = settings.get("costs", {})
        if not isinstance(costs, dict):
            return [*errors, f"costs is {costs!r}: write points by function."]
        costs = {**costs, "default_cost": settings.get("default_cost", 1)}
        return errors + [
            f"the cost of {name} is {cost!r}: {salt.job_criteria.NUMBER}"
            for name, cost in costs.items()
            if not salt.job_criteria.is_number(cost)
        ]

    def cost(self, job):
        return sum(self._cost(fun) for fun in job.functions)

    def _cost(self, fun):
        for pattern, cost in self.settings.get("costs", {}).items():
            if fnmatch.fnmatchcase(fun, pattern):
                return cost
        return self.settings.get("default_cost", 1)


def criteria(settings):
    """
    Return the criteria of these settings.
    """
    return FunctionCost(settings)
