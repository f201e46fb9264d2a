"""What all minions of a worker share."""

from __future__ import annotations

import itertools
import sys
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from evil_minions.chance import Dice, lot
from evil_minions.counters import Counters
from evil_minions.errors import EvilMinionsError
from evil_minions.grains import GrainsFactory, load_template
from evil_minions.keys import MasterKey, load_pool
from evil_minions.partition import Partition
from evil_minions.pillar import PillarStore
from evil_minions.publication import Publication, Publications
from evil_minions.samples import JobRow, ReturnRow, SampleWriter, StartRow
from evil_minions.target import Targets
from evil_minions.wire import Endpoint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from evil_minions.settings import FleetSettings
    from evil_minions.stage import Stage

_FIRST_PID: Final = 2000
_PIDS: Final = 30000
_MAX_TRACES: Final = 20


class Context:
    """The surroundings of a worker's minions: clock, chance, keys, stores, samples, endpoints."""

    def __init__(self, settings: FleetSettings, loop: asyncio.AbstractEventLoop) -> None:
        """Read keys and template, and create the sample files.

        Raises:
            UsageError, SampleError: if a file can't be used.

        """
        self.settings = settings
        self.loop = loop
        self.dice = Dice()
        self.lot = lot(settings.seed, "minion")
        self.partition = Partition()
        self.counters = Counters()
        self.keys = load_pool(settings.folder)
        self.master = MasterKey(settings.folder)
        self.ids = settings.ids()
        self.factory = GrainsFactory(load_template(settings.grains), settings.seed, settings.master)
        self.pillars = PillarStore(settings.minions)
        self.targets = Targets(self.ids, settings.first, self.factory, self.pillars)
        self.publications = Publications(self.master, self.targets, self.counters, self._new_job)
        self.jobs = SampleWriter(settings.folder, JobRow, settings.worker)
        self.returns = SampleWriter(settings.folder, ReturnRow, settings.worker)
        self.starts = SampleWriter(settings.folder, StartRow, settings.worker)
        self.requests = Endpoint(loop, (settings.address, settings.request_port), b"REQ", self.counters)
        self.subscribed: Callable[[int], bool] = lambda _index: True
        self.fatal: Callable[[EvilMinionsError], None] = lambda _error: None
        self.restart: Callable[[int, float, Stage], None] = lambda _index, _seconds, _stage: None
        self._publishers: dict[int, Endpoint] = {}
        self._pids = itertools.cycle(range(_FIRST_PID, _PIDS))
        self._tasks: set[asyncio.Task[Any]] = set()
        self._aes = ""
        self._reported: set[type] = set()
        self._funs: Counter[str] = Counter()

    def intern(self, aes: str) -> str:
        """Return the one copy of the key of publications, which all minions of a master share."""
        if aes != self._aes:
            self._aes = aes
        return self._aes

    def publisher(self, port: int) -> Endpoint:
        """Return the endpoint of the publish port that the master told."""
        if port not in self._publishers:
            address = (self.settings.address, port)
            self._publishers[port] = Endpoint(self.loop, address, b"SUB", self.counters)
        return self._publishers[port]

    def side(self, index: int, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as a minion sees it, who may be cut off."""
        return self.partition.side(index, endpoint) if self.partition.cut else endpoint

    def grow(self, count: int) -> None:
        """Make room for more minions, whose numbers follow."""
        number = self.settings.first + len(self.ids)
        new = [self.settings.id_format.format(number + more) for more in range(count)]
        self.ids += new
        self.targets.grow(new)
        self.pillars.grow(count)
        self.publications.grow(count)

    def next_pid(self) -> int:
        """Return a process id for a job."""
        return next(self._pids)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine, keep it alive, and report it if it fails in a way that nobody handles."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        """Forget a task; print what it died of, but not for ever."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self.counters.errors += 1
        if self.counters.errors <= _MAX_TRACES:
            traceback.print_exception(error, file=sys.stderr)

    def report(self, error: EvilMinionsError) -> None:
        """Print a setback of the start once for each kind: the same may happen to thousands."""
        if type(error) not in self._reported:
            self._reported.add(type(error))
            print(f"evil_minions: {error} Trying again.", file=sys.stderr, flush=True)

    def _new_job(self, publication: Publication) -> None:
        """Write the sample of a job seen for the first time, and give it its place in what minions draw.

        The place is that of the n-th job with this function: how many find_jobs a slow master caused changes nothing.
        """
        self._funs[publication.fun] += 1
        publication.lot = lot(self.settings.seed, "job", publication.fun, self._funs[publication.fun])
        targeted = sum(1 for index, chosen in enumerate(publication.chosen) if chosen and self.subscribed(index))
        self.sample(self.jobs, JobRow(time.time(), publication.jid, publication.fun, targeted))

    def sample(self, writer: SampleWriter, row: JobRow | ReturnRow | StartRow) -> None:
        """Write a sample; a disk that takes none ends the fleet, as its figures would be wrong."""
        try:
            writer.add(row)
        except EvilMinionsError as error:
            self.fatal(error)

    def flush(self) -> None:
        """Put all samples on disk."""
        for writer in (self.jobs, self.returns, self.starts):
            try:
                writer.flush()
            except EvilMinionsError as error:
                self.fatal(error)
