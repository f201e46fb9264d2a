"""Package states: say what should be installed, and see what is.

A package state is a named, versioned list of packages, each with what is wanted of it. States are
assigned to organizations, groups, grain matches and minions; for each minion they are resolved to
one verdict for each package, and compiled to one SLS file.

``model`` has packages, versions and verdicts, ``store`` the tables in PostgreSQL, ``compile`` who
there is and the files, ``status`` what is there beside what is wanted, ``master`` what the runner
and the engines do, ``managers`` apt, zypper and dnf, ``minion`` transactions and who changed
packages. In the other folders is what Salt's loader calls.
"""
