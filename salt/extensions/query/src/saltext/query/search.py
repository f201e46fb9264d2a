"""Regular expressions of filters: those of Python, with a limit of time.

``(a+)+$`` has more ways to try than anybody can wait for. One timer of processor time runs
around a query that has a regular expression. Its limit is far from what queries take, so
that the load of the machine decides nothing. A thread can't be stopped: there only texts up to
:data:`MAX_THREAD_TEXT` characters are searched, and a longer one counts as not known.
"""

import contextlib
import re
import signal
import threading
import warnings

from saltext.query.errors import QueryError

TOO_LONG = (
    "The query takes too much time: make its regular expressions or its target simpler, or"
    " look at fewer items."
)

#: The longest pattern, in characters.
MAX_PATTERN = 500

#: The longest text that is searched in a thread, in characters.
MAX_THREAD_TEXT = 10_000

#: Seconds of processor time of a query that searches, and of one that a minion asks, which
#: keeps a process of the master busy.
MAX_SECONDS = 60
MAX_MINION_SECONDS = 5


def _is_thread():
    return threading.current_thread() is not threading.main_thread()


class _TimeUp(BaseException):
    """The time is up. Salt's matchers log any other exception, and go on."""


@contextlib.contextmanager
def limited(seconds):
    """Return a context that ends when its processor time is up. In a thread, and with
    None, it has no limit.

    :raises QueryError: if the time is up
    """
    if seconds is None or _is_thread():
        yield
        return

    def stop(_number, _frame):
        raise _TimeUp

    handler = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1)
        yield
    except _TimeUp:
        raise QueryError(TOO_LONG) from None
    finally:
        # the handler goes last: without it, the signal ends the process
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def compiled(pattern):
    """Return a function that takes a text and returns whether the pattern is found in
    it, or None if that can't be known here.

    :raises QueryError: if the pattern can't be read
    """
    if len(pattern) > MAX_PATTERN:
        raise QueryError(
            f"Give a regular expression of at most {MAX_PATTERN} characters."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = re.compile(pattern).search
    except (re.error, OverflowError, RecursionError, ValueError) as exc:
        raise QueryError(
            f"Correct the regular expression {pattern!r}: {exc}."
        ) from None

    def found(text):
        if len(text) > MAX_THREAD_TEXT and _is_thread():
            return None
        return search(text) is not None

    return found
