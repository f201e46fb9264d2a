"""
Package states: say what should be installed, and see what is.

A package state is a named, versioned list of packages, each with what is wanted
of it. States are assigned to organizations, groups, grain matches and minions;
for each minion they are resolved to one verdict for each package, and compiled
to one SLS file. Nothing of this does anything until the runner
:mod:`package_states <salt.runners.package_states>` is used. The parts, each of
which knows only those above it:

- :mod:`salt.package_states.errors` -- what can go wrong
- :mod:`salt.package_states.names` -- which names and versions are accepted
- :mod:`salt.package_states.version` -- how versions compare
- :mod:`salt.package_states.condition` -- what a version must fulfil
- :mod:`salt.package_states.item` -- a package and what is wanted of it
- :mod:`salt.package_states.difference` -- what two lists of items differ in
- :mod:`salt.package_states.transfer` -- a state as a file
- :mod:`salt.package_states.resolver` -- one verdict for each package
- :mod:`salt.package_states.platforms` -- what apt, zypper and dnf can do
- :mod:`salt.package_states.sls` -- the SLS of verdicts
- :mod:`salt.package_states.files` -- the generated files
- :mod:`salt.package_states.decision` -- what is to be done for an item
- :mod:`salt.package_states.status` -- the verdicts beside what is installed
- :mod:`salt.package_states.store` -- the tables in PostgreSQL
- :mod:`salt.package_states.fleet` -- which states apply to which minions
- :mod:`salt.package_states.service` -- save, assign, compile
- :mod:`salt.package_states.refresh` -- the list that a minion sent

On the minions work :mod:`salt.modules.package_state`,
:mod:`salt.states.package_state`, and :mod:`salt.package_states.managers`.
"""
