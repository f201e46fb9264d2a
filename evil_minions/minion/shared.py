"""What all minions of a worker share: a value for each part of the package that they use.

A minion holds one reference to all of them rather than one to each, as there are thousands of minions.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from evil_minions.samples.tally import Counters

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from evil_minions.behaviour.director import Director
    from evil_minions.errors import EvilMinionsError
    from evil_minions.functions.tree import State
    from evil_minions.inventory.inventory import Inventory
    from evil_minions.minion.lifecycle import Lifecycle, Traffic
    from evil_minions.minion.publication import Publications
    from evil_minions.network.ports import Ports
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import Draws
    from evil_minions.samples.files import Journal
    from evil_minions.states.planner import Planner

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


_FIRST_PID: Final = 2000
_PIDS: Final = 30000


class KeyRing:
    """The keys of a worker's minions and of their master; minions with the numbers `denied` get a second key.

    `grains` are those by which the master accepts a key; minions with the numbers `unknown` do not have them.
    """

    def __init__(
        self,
        pool: Sequence[MinionKey],
        master: MasterKey,
        denied: frozenset[int] = frozenset(),
        grains: Mapping[str, str] | None = None,
        unknown: frozenset[int] = frozenset(),
    ) -> None:
        """Take the keys that minions share, and the master's."""
        self.master = master
        self.denied = denied
        self._grains = grains
        self._unknown = unknown
        self._pool = pool
        self._aes = ""

    def of(self, number: int) -> MinionKey:
        """Return the key of the minion with this number."""
        return self._pool[number % len(self._pool)]

    def grains_of(self, number: int) -> Mapping[str, str] | None:
        """Return the grains by which the master accepts the key of the minion with this number."""
        return None if number in self._unknown else self._grains

    def intern(self, aes: str) -> str:
        """Return the one copy of the key of publications, which all minions of a master share."""
        if aes != self._aes:
            self._aes = aes
        return self._aes


@dataclass(frozen=True, slots=True)
class Answers:
    """Where the answers to jobs come from, beside the simulated functions.

    `replay` is a recording, None without one. `states` are made-up states; where they are None `planner` runs the
    master's own.
    """

    replay: Replay | None
    states: Sequence[State] | None
    planner: Planner


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared values; the docstring of each class says what it is for."""

    runtime: Runtime
    ports: Ports
    inventory: Inventory
    keys: KeyRing
    journal: Journal
    publications: Publications
    answers: Answers
    director: Director
    # Lifecycle[Minion], but Minion imports this module
    lifecycle: Lifecycle[Any]
    traffic: Traffic
    draws: Draws
    pids: Iterator[int] = field(default_factory=lambda: cycle(range(_FIRST_PID, _PIDS)))
