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


class Unclear(PackageStateError):
    """It is not known yet which states apply to a minion"""


class Unwritten(PackageStateError):
    """Some files can't be written or removed; all others are, and what is stored is stored"""
