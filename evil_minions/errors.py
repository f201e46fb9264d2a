"""Every error of the package.

The tree is drawn once, so that a caller can catch as much or as little as it needs:

    EvilMinionsError            exit code 1
    ├── UsageError              exit code 2: options or files that can't be used
    ├── NotReadyError           exit code 3: the fleet wasn't ready in time
    ├── ControlError            no fleet answers on the control socket
    ├── SampleError             sample files that can't be written or read
    ├── WireError               bytes that break the transport's protocol: the connection is dropped
    ├── CryptoError             a message that fails its HMAC, signature or nonce: signing in anew may help
    │   └── ForgeryError        a publication that no other key would open: it is ignored
    ├── CompilerError           the process that compiles states has ended
    └── ExchangeError           no use in waiting for the answer any longer
        ├── NoAnswerError       every try of a request timed out
        └── SignInError         the master didn't let the minion in
            ├── PendingError    its key waits to be accepted
            └── RejectedError   its key was rejected
"""


class EvilMinionsError(Exception):
    """Base of every error here; `exit_code` is what the command ends with."""

    exit_code = 1


class UsageError(EvilMinionsError):
    """An option or a file of the user can't be used as it is."""

    exit_code = 2


class NotReadyError(EvilMinionsError):
    """The fleet wasn't ready in the time allowed."""

    exit_code = 3


class ControlError(EvilMinionsError):
    """The control socket can't be used: there is no fleet, or its answer makes no sense."""


class SampleError(EvilMinionsError):
    """A sample file can't be written or holds something else."""


class WireError(EvilMinionsError):
    """The peer sent bytes that the transport doesn't allow."""


class CryptoError(EvilMinionsError):
    """A message doesn't authenticate: wrong HMAC, signature, nonce or padding."""


class ForgeryError(CryptoError):
    """A publication that isn't signed by the master, or isn't one at all."""


class CompilerError(EvilMinionsError):
    """The process that compiles states has ended, or was never there."""


class ExchangeError(EvilMinionsError):
    """A request ended without an answer that can be used."""


class NoAnswerError(ExchangeError):
    """Every try of a request timed out."""


class SignInError(ExchangeError):
    """The master didn't let the minion in."""


class PendingError(SignInError):
    """The key of the minion waits to be accepted on the master."""


class RejectedError(SignInError):
    """The key of the minion was rejected on the master."""
