r"""
Regular expressions that can't be made to take long.

They are those of Python, less what needs to go back: references to groups, lookahead and
lookbehind, atomic groups and possessive repeats; and less what other engines read in
another way. :mod:`saltext.query.pattern` says what is left.

Python tries one way after the other, and ``(a+)+$`` has more ways than anybody can wait
for. The library RE2 (``pip install google-re2``) follows all at the same time. It searches
printable ASCII, where both find the same; for the rest, and where it is not installed, it
is Python, with a limit of time for all searches of a query together.
"""

import contextlib
import functools
import re
import signal
import threading
import time
import warnings

import saltext.query.pattern
from saltext.query.errors import QueryError, QueryTooDearError

#: The longest pattern, in characters.
MAX_PATTERN = 500

#: The most memory for one pattern of RE2, in bytes.
MAX_MEMORY = 2 * 1024 * 1024

#: The longest text that RE2 searches, in characters: it can't be stopped.
MAX_LINEAR = 10_000

#: Seconds of this process's time for all searches with the patterns of one filter, and
#: what each of them may take besides: many that are quick are not refused.
MAX_SECONDS = 0.04
EACH_SECONDS = 4e-6

#: How often it is looked whether a search takes too long, in seconds.
_TICK = 0.005


@functools.lru_cache(maxsize=1)
def library():
    """
    Return the module of RE2, or None where it is not installed. It takes 3 MB, so it is
    imported for the first regular expression.
    """
    try:
        import re2
    except ImportError:
        return None
    return re2


class _TimeUp(BaseException):
    """
    Python's search has taken too long. Salt's matchers log any other exception, and go on.
    """


class Budget:
    """
    The time that the searches with several patterns may take together.

    :param callable clock: returns seconds of this thread's time

    :ivar float left: seconds
    """

    __slots__ = ("left", "clock", "_started", "_is_watched", "_before")

    def __init__(self, clock=time.thread_time):
        self.left = MAX_SECONDS
        self.clock = clock
        self._started = None
        self._is_watched = False
        self._before = None

    def spend(self, seconds, pattern):
        """
        :raises QueryTooDearError: if nothing is left
        """
        self.left += EACH_SECONDS - seconds
        if self.left <= 0:
            raise QueryTooDearError(
                f"The regular expression {pattern!r} takes too long over this data. Make"
                " it simpler, or look at fewer items."
            )

    @contextlib.contextmanager
    def watch(self):
        """
        Return a context in which the first search sets up the timer for all: this takes
        longer than most searches.
        """
        self._is_watched = True
        try:
            yield
        finally:
            self._is_watched = False
            self._unwatch()

    def run(self, function, text, pattern):
        """
        Call a function with a text, and stop it when the time is up. Only in the main
        thread.

        :raises QueryTooDearError: if it is
        """
        if self._before is None:
            handler = signal.signal(signal.SIGVTALRM, self._tick)
            timer = signal.setitimer(signal.ITIMER_VIRTUAL, _TICK, _TICK)
            self._before = handler, timer
        try:
            self._started = started = self.clock()
            try:
                ret = function(text)
            finally:
                self._started = None
            took = self.clock() - started
        except _TimeUp:
            took = self.left + 1
            ret = None
        finally:
            if not self._is_watched:
                self._unwatch()
        self.spend(took, pattern)
        return ret

    def _tick(self, _number, _frame):
        started = self._started
        if started is not None and self.clock() - started >= self.left:
            self._started = None
            raise _TimeUp

    def _unwatch(self):
        if self._before is not None:
            handler, timer = self._before
            self._before = None
            signal.setitimer(signal.ITIMER_VIRTUAL, *timer)
            signal.signal(signal.SIGVTALRM, handler)


class Regex:
    """
    :param str pattern: see :mod:`saltext.query.pattern`
    :param Budget budget: what its searches take, by default one of its own
    :raises QueryError: if it can't be read, or is none of these
    :raises QueryTooDearError: if it is too large
    """

    def __init__(self, pattern, budget=None):
        if len(pattern) > MAX_PATTERN:
            raise QueryTooDearError(
                f"Give a regular expression of at most {MAX_PATTERN} characters."
            )
        self.pattern = pattern
        self.budget = Budget() if budget is None else budget
        self._python = self._compiled(pattern)
        saltext.query.pattern.check(pattern)
        self._linear = None
        if library() is not None:
            started = self.budget.clock()
            self._linear = _linear(pattern)
            self.budget.spend(self.budget.clock() - started, pattern)

    def _compiled(self, pattern):
        """
        Return Python's pattern.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._limited(re.compile, pattern)
        except (re.error, OverflowError, RecursionError, ValueError) as exc:
            raise QueryError(
                f"Correct the regular expression {pattern!r}: {exc}."
            ) from None

    def search(self, text):
        """
        Return whether the pattern matches anywhere in ``text``.

        :raises QueryTooDearError: if the patterns of this budget have taken too long, all
            in all
        """
        if self._linear is None or not text or len(text) > MAX_LINEAR:
            return self._limited(self._python.search, text) is not None
        clock = self.budget.clock
        started = clock()
        if not (text.isascii() and text.isprintable()):
            return self._limited(self._python.search, text) is not None
        ret = self._linear.search(text) is not None
        self.budget.spend(clock() - started, self.pattern)
        return ret

    def _limited(self, function, text):
        """
        Call a function, and stop it when the time is up.
        """
        if threading.current_thread() is threading.main_thread():
            return self.budget.run(function, text, self.pattern)
        if function is re.compile:
            # it takes milliseconds at most
            return function(text)
        # no other thread can be stopped
        if library() is None:
            raise QueryTooDearError(
                "Install google-re2 on the master, or leave out the regular"
                " expression: Python's own can't be stopped here."
            )
        raise QueryTooDearError(
            "Leave out the regular expression: a text that is long, or not ASCII, can't"
            " be searched here in limited time."
        )


def _linear(pattern):
    """
    Return RE2's pattern.
    """
    re2 = library()
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(saltext.query.pattern.as_re2(pattern), options)
    except (re2.error, ValueError) as exc:
        told = exc.args[0] if exc.args else exc
        if isinstance(told, bytes):
            told = told.decode("utf-8", "replace")
        raise QueryTooDearError(
            "Give a shorter regular expression, or fewer and smaller repeats in braces:"
            f" {told}."
        ) from None
