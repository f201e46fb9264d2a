"""Package states: say what should be installed, and see what is.

A package state is a named, versioned list of packages, each with what is wanted
of it. States are assigned to organizations, groups, grain matches and minions;
for each minion they are resolved to one verdict for each package, and compiled
to one SLS file. Nothing of this does anything until the runner
:mod:`package_states <saltext.package_states.runners.package_states>` is used. The parts:

- :mod:`saltext.package_states.errors` -- what can go wrong
- :mod:`saltext.package_states.model` -- packages, what is wanted of them, versions, verdicts
- :mod:`saltext.package_states.store` -- the tables in PostgreSQL
- :mod:`saltext.package_states.compile` -- who there is, which states apply, the files
- :mod:`saltext.package_states.status` -- what is there beside what is wanted
- :mod:`saltext.package_states.master` -- what the runner and the engines do
- :mod:`saltext.package_states.managers` -- apt, zypper and dnf
- :mod:`saltext.package_states.minion` -- transactions, and who changed packages

Where Salt's loader looks, in ``runners``, ``engines``, ``states``, ``modules``, ``beacons``
and ``query_locks``, is what Salt calls.
"""
