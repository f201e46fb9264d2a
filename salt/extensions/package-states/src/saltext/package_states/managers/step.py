"""
What a package manager is asked to do for one package, and what it says to all of them.
"""

from typing import NamedTuple


class Step(NamedTuple):
    """
    One package of a transaction

    key
        ``name`` or ``name:architecture``.

    action
        :data:`INSTALL <saltext.package_states.model.decision.INSTALL>` or :data:`REMOVE
        <saltext.package_states.model.decision.REMOVE>`.

    version
        The version to install, or the newest one to remove; empty where only the
        configuration is there.

    versions
        The versions to remove; all that are there if it is empty.

    purge
        Whether the configuration goes too.
    """

    key: str
    action: str
    version: str = ""
    versions: tuple = ()
    purge: bool = False


class Solution(NamedTuple):
    """
    What the solver of a package manager makes of a transaction

    removed
        The keys of all packages that would go, a sorted tuple.

    changed
        The keys of all packages that would come or change their version, a sorted
        tuple.

    problem
        Why it can't be done, in its own words, or an empty string.

    replaced
        The keys of all packages whose version would give way to another one, a sorted
        tuple. A package that may be there in several versions, such as a kernel, is none
        of them.
    """

    removed: tuple = ()
    changed: tuple = ()
    problem: str = ""
    replaced: tuple = ()
