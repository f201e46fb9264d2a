"""
Package states: say what should be installed, and see what is.

A package state is a named, versioned list of packages, each with what is wanted
of it. States are assigned to organizations, groups, grain matches and minions;
for each minion they are resolved to one verdict for each package, and compiled
to one SLS file. Nothing of this does anything until the runner
:mod:`package_states <saltext.package_states.runners.package_states>` is used. The parts, each of
which knows only those above it:

- :mod:`saltext.package_states.errors` -- what can go wrong
- :mod:`saltext.package_states.names` -- which names and versions are accepted
- :mod:`saltext.package_states.version` -- how versions compare
- :mod:`saltext.package_states.condition` -- what a version must fulfil
- :mod:`saltext.package_states.item` -- a package and what is wanted of it
- :mod:`saltext.package_states.difference` -- what two lists of items differ in
- :mod:`saltext.package_states.transfer` -- a state as a file
- :mod:`saltext.package_states.resolver` -- one verdict for each package
- :mod:`saltext.package_states.platforms` -- what apt, zypper and dnf can do
- :mod:`saltext.package_states.sls` -- the SLS of verdicts
- :mod:`saltext.package_states.files` -- the generated files
- :mod:`saltext.package_states.decision` -- what is to be done for an item
- :mod:`saltext.package_states.choice` -- which part of a transaction is possible
- :mod:`saltext.package_states.transaction` -- all that is to be done, at once
- :mod:`saltext.package_states.status` -- the verdicts beside what is installed
- :mod:`saltext.package_states.connection` -- connections to PostgreSQL
- :mod:`saltext.package_states.schema` -- the tables: made and upgraded
- :mod:`saltext.package_states.store` -- what is in them
- :mod:`saltext.package_states.stages` -- the stages, and what is in force in each
- :mod:`saltext.package_states.requests` -- what waits for another person
- :mod:`saltext.package_states.generations` -- what each minion should have had
- :mod:`saltext.package_states.yamltext` -- YAML as plain data
- :mod:`saltext.package_states.document` -- the whole set of a site as one text
- :mod:`saltext.package_states.roster` -- who is and was a minion
- :mod:`saltext.package_states.standing` -- which minions are as they should be
- :mod:`saltext.package_states.registry` -- which minions and groups there are
- :mod:`saltext.package_states.fleet` -- which states apply to which minions
- :mod:`saltext.package_states.membership` -- who joined, left, or has another id
- :mod:`saltext.package_states.final` -- who belongs to the last stage
- :mod:`saltext.package_states.compiler` -- what is wanted, compiled to files
- :mod:`saltext.package_states.sweep` -- all files, up to date with who there is
- :mod:`saltext.package_states.service` -- save, assign
- :mod:`saltext.package_states.offer` -- what one repository has, under a digest
- :mod:`saltext.package_states.lacking` -- who is asked for what repositories have
- :mod:`saltext.package_states.offers` -- what repositories have, in the database
- :mod:`saltext.package_states.refresh` -- the list that a minion sent
- :mod:`saltext.package_states.answers` -- what minions answer
- :mod:`saltext.package_states.authors` -- who does something
- :mod:`saltext.package_states.edit` -- changes of entries
- :mod:`saltext.package_states.upgrades` -- the newest versions that policies permit
- :mod:`saltext.package_states.promotions` -- revisions that come into a stage
- :mod:`saltext.package_states.sets` -- the whole set: read, and brought into the database
- :mod:`saltext.package_states.views` -- what is in the tables, as plain data
- :mod:`saltext.package_states.page` -- the status of a fleet, in pages
- :mod:`saltext.package_states.owners` -- who has and wants a package
- :mod:`saltext.package_states.available` -- which packages minions can get
- :mod:`saltext.package_states.pkgset` -- who changed packages

On the minions work :mod:`saltext.package_states.modules.package_state`,
:mod:`saltext.package_states.states.package_state`,
:mod:`saltext.package_states.managers`, and for what others change the beacon
:mod:`saltext.package_states.beacons.pkgset`. On the master, its engine and runner are
:mod:`saltext.package_states.engines.pkgset` and
:mod:`saltext.package_states.runners.pkgset`; the engine
:mod:`saltext.package_states.engines.package_states` keeps the files up to date with who
there is.
"""
