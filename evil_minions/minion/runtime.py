"""What runs the minions of a worker, and the phases of their lives."""

from __future__ import annotations

import asyncio
import enum
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

from evil_minions.samples import Counters

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from evil_minions.errors import EvilMinionsError


class Phase(enum.IntEnum):
    """How far a minion has come; below IDLE it isn't under way.

    GONE is outside a fleet that was scaled down, DEAD was killed, REFUSED was turned away by the master and waits to
    be started again.
    """

    GONE = -3
    DEAD = -2
    REFUSED = -1
    IDLE = 0
    PENDING = 1
    AUTHENTICATED = 2
    TUNED = 3
    READY = 4


_MAX_TRACES: Final = 20


class Runtime:
    """The event loop of a worker and what became of the tasks on it; `stopping` is set when the worker has to end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use a loop."""
        self.loop = loop
        self.counters = Counters()
        self.stopping = asyncio.Event()
        self.error: EvilMinionsError | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reported: set[object] = set()

    def fail(self, error: EvilMinionsError) -> None:
        """End the worker because of an error; the first one is kept."""
        self.error = self.error or error
        self.stopping.set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine, keep it alive, and report it if it fails in a way that nobody handles."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def unhandled(self, _loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        """Count and print what the loop says of an exception in a callback; a handler of the loop's."""
        self._fault(details.get("exception") or RuntimeError(details.get("message")))

    def report(self, error: EvilMinionsError) -> None:
        """Print why a start failed, once for each kind of error: the same may happen to thousands."""
        self._once(type(error), f"{error} Trying again.")

    def warn(self, sentence: str) -> None:
        """Print where minions do not what real ones would do, once."""
        self._once(sentence, sentence)

    def _once(self, kind: object, sentence: str) -> None:
        """Print a sentence, the first of its kind."""
        if kind not in self._reported:
            self._reported.add(kind)
            print(f"evil_minions: {sentence}", file=sys.stderr, flush=True)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        """Forget a task; print the first errors of such that failed."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fault(error)

    def _fault(self, error: BaseException) -> None:
        """Count and print an exception that no real minion would have had."""
        self.counters.errors += 1
        if self.counters.errors <= _MAX_TRACES:
            traceback.print_exception(error, file=sys.stderr)
