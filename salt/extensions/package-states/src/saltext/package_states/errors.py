"""What can go wrong with package states: each message is one sentence, or one for each package, and
says what to do next. The runner's clients return it as it is.
"""

from salt.exceptions import CommandExecutionError


class PackageStateError(CommandExecutionError):
    """The base of all errors of package states"""


class InvalidInput(PackageStateError):
    """A name, version or policy is not accepted"""


class Conflict(PackageStateError):
    """Two states of equal rank want different things of one package"""


class Unsupported(PackageStateError):
    """The package manager of a minion can't do what is wanted"""


class Protected(PackageStateError):
    """A package that must not be removed should be"""


class Outdated(PackageStateError):
    """Somebody else saved a revision meanwhile"""


class Unwritten(PackageStateError):
    """Some files can't be written or removed; all others are, and what is stored is stored"""


class NotThere(PackageStateError):
    """There is no such state, revision, minion, group or organization"""
