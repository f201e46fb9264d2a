"""What a package manager is asked to do for one package, and what it says to all of them."""

from typing import NamedTuple


class Step(NamedTuple):
    """One package of a transaction"""

    key: str  # ``name`` or ``name:architecture``
    action: str  # INSTALL or REMOVE of model.decision
    # the version to install, or the newest one to remove; empty where only the
    # configuration is there
    version: str = ""
    versions: tuple = ()  # the versions to remove; all that are there if it is empty
    purge: bool = False  # whether the configuration goes too


class Solution(NamedTuple):
    """What the solver of a package manager makes of a transaction"""

    removed: tuple = ()  # the keys of all packages that would go, a sorted tuple
    # the keys of all packages that would come or change their version, a sorted tuple
    changed: tuple = ()
    problem: str = ""  # why it can't be done, in its own words, or an empty string
    # the keys of all packages whose version would give way to another one, a sorted
    # tuple. A package that may be there in several versions, such as a kernel, is none
    # of them
    replaced: tuple = ()
