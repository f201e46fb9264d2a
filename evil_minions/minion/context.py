"""What all minions of a worker share."""

from __future__ import annotations

import itertools
import sys
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions.errors import EvilMinionsError
from evil_minions.fleet import keystates
from evil_minions.fleet.settings import KEEP
from evil_minions.functions.tree import make_states
from evil_minions.inventory.grains import GrainsFactory, load_template, template_of
from evil_minions.inventory.pillar import PillarStore
from evil_minions.inventory.population import load_population
from evil_minions.inventory.target import Targets
from evil_minions.minion.publication import Publication, Publications
from evil_minions.minion.traffic import Traffic
from evil_minions.network.atlas import Atlas
from evil_minions.network.channel import ChannelOwner
from evil_minions.network.partition import Partition
from evil_minions.network.subscription import Subscriber
from evil_minions.network.transports.transport import TRANSPORTS
from evil_minions.network.wire import Endpoint
from evil_minions.protocol.keys import MasterKey, load_pool
from evil_minions.recording.recording import load
from evil_minions.recording.replay import Pace, Replay
from evil_minions.rng import Chance, Dice, lot
from evil_minions.samples.counters import Counters
from evil_minions.samples.files import AnyRow, JobRow, ReturnRow, SampleWriter, StartRow, TallyRow
from evil_minions.samples.tally import Tallies
from evil_minions.states.compiler import Compiler
from evil_minions.states.holdings import Holdings
from evil_minions.states.planner import Planner

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from evil_minions.fleet.settings import FleetSettings
    from evil_minions.minion.phase import Stage
    from evil_minions.network.channel import RequestChannel
    from evil_minions.network.subscription import Subscription

_FIRST_PID: Final = 2000
_PIDS: Final = 30000
_MAX_TRACES: Final = 20


class Speaker(ChannelOwner, Chance, Protocol):
    """The minion behind a channel, as this module sees it."""

    index: int


class Listener(Subscriber, Chance, Protocol):
    """The minion behind a subscription, as this module sees it."""

    index: int


class Direction(Protocol):
    """What minions and their ramp ask of the director, if there is one."""

    def takes(self, minion: Any, publication: Publication) -> bool:  # noqa: ANN401 - a minion, which knows this module
        """See to a job if the minion has a role; return whether that is so."""

    def on_ready(self, minion: Any) -> None:  # noqa: ANN401 - likewise
        """Hear that a minion is ready."""

    def is_paced(self, minion: Any) -> bool:  # noqa: ANN401 - likewise
        """Return whether a minion starts in its turn."""

    def queued(self, index: int) -> list[dict[str, Any]]:
        """Return the data of the jobs that wait on a minion."""


class Context:
    """The surroundings of a worker's minions: clock, chance, keys, stores, samples, endpoints."""

    def __init__(self, settings: FleetSettings, loop: asyncio.AbstractEventLoop) -> None:
        """Read keys and template, and create the sample files.

        Raises:
            UsageError, SampleError: if a file can't be used.

        """
        self.settings = settings
        self._tasks: set[asyncio.Task[Any]] = set()
        self.loop = loop
        self.dice = Dice()
        self.lot = lot(settings.seed, "minion")
        self.partition = Partition()
        self.atlas = Atlas()
        self.counters = Counters()
        self.keys = load_pool(settings.folder)
        self.master = MasterKey(settings.folder)
        self.ids = settings.ids()
        recording = load(settings.recording) if settings.recording else None
        self.states = None if settings.states is None else make_states(settings.states, settings.seed)
        self.holdings = Holdings(keep=settings.file_cache == KEEP)
        self.planner = Planner(Compiler(settings.folder), self.holdings)
        self.replay = Replay(recording, settings.seed, Pace(settings.slowdown, settings.jitter)) if recording else None
        if settings.population:
            template = load_population(settings.population)
        elif recording and settings.grains is None:
            template = template_of(recording.grains)
        else:
            template = load_template(settings.grains)
        self.factory = GrainsFactory(template, settings.seed, settings.master, settings.connects_from)
        self.traffic = Traffic(self.spawn, settings.beacon_interval, self.replay)
        self.key_states = keystates.states(settings)
        self.pillars = PillarStore(settings.minions)
        self.targets = Targets(self.ids, settings.first, self.factory, self.pillars)
        self.publications = Publications(self.master, self.targets, self.counters, self._new_job)
        self.jobs = SampleWriter(settings.folder, JobRow, settings.worker)
        self.tallies = Tallies()
        self.counts = SampleWriter(settings.folder, TallyRow, settings.worker)
        self.returns = SampleWriter(settings.folder, ReturnRow, settings.worker)
        self.starts = SampleWriter(settings.folder, StartRow, settings.worker)
        self.transport = TRANSPORTS[settings.transport]
        address = (settings.address, settings.request_port)
        self.requests = Endpoint(loop, address, self.transport.request_wire, self.counters)
        self.subscribed: Callable[[int], bool] = lambda _index: True
        self.known: Callable[[int], bool] = lambda _index: True
        self.fatal: Callable[[EvilMinionsError], None] = lambda _error: None
        self.restart: Callable[[int, float, Stage], None] = lambda _index, _seconds, _stage: None
        self.director: Direction | None = None
        self.decisions: SampleWriter | None = None
        self._publishers: dict[int, Endpoint] = {}
        self._pids = itertools.cycle(range(_FIRST_PID, _PIDS))
        self._aes = ""
        self._reported: set[type] = set()
        self._funs: Counter[str] = Counter()

    def intern(self, aes: str) -> str:
        """Return the one copy of the key of publications, which all minions of a master share."""
        if aes != self._aes:
            self._aes = aes
        return self._aes

    def channel(self, minion: Speaker) -> RequestChannel:
        """Return a new connection to the request port, not yet open."""
        return self.transport.channel(self.side(minion.index, self.requests), minion, minion)

    def subscription(self, port: int, minion: Listener) -> Subscription:
        """Return a new connection to the publish port that the master told, not yet open."""
        return self.transport.subscription(self.side(minion.index, self.publisher(port)), minion, minion)

    def publisher(self, port: int) -> Endpoint:
        """Return the endpoint of the publish port that the master told."""
        if port not in self._publishers:
            address = (self.settings.address, port)
            self._publishers[port] = Endpoint(self.loop, address, self.transport.publish_wire, self.counters)
        return self._publishers[port]

    def side(self, index: int, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as a minion sees it, who may be far away or cut off."""
        endpoint = self.atlas.side(index, endpoint)
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

    def unhandled(self, _loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        """Count and print what the loop says of an exception in a callback; a handler of the loop's."""
        self._fault(details.get("exception") or RuntimeError(details.get("message")))

    def _finished(self, task: asyncio.Task[Any]) -> None:
        """Forget a task; print what it died of, but not for ever."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self._fault(error)

    def _fault(self, error: BaseException) -> None:
        """Count and print an exception that no real minion would have had."""
        self.counters.errors += 1
        if self.counters.errors <= _MAX_TRACES:
            traceback.print_exception(error, file=sys.stderr)

    def report(self, error: EvilMinionsError) -> None:
        """Print a setback of the start once for each kind: the same may happen to thousands."""
        if type(error) not in self._reported:
            self._reported.add(type(error))
            print(f"evil_minions: {error} Trying again.", file=sys.stderr, flush=True)

    def _new_job(self, publication: Publication) -> None:
        """Write the sample of a publication, and give its job its place in what minions draw if that is new.

        The place is that of the n-th job with this function: how many find_jobs a slow master caused changes nothing.
        What reaches a minion late, as when its network heals, was counted when the others got it.
        """
        tally = publication.tally
        new = not tally.nth
        if new:
            self._funs[publication.fun] += 1
            tally.nth = self._funs[publication.fun]
            tally.lot = lot(self.settings.seed, "job", publication.fun, tally.nth)
        publication.lot, publication.nth = tally.lot, tally.nth
        meant = [index for index, chosen in enumerate(publication.chosen) if chosen and not tally.asked >> index & 1]
        if not new and not meant:
            return
        targeted = sum(1 for index in meant if self.subscribed(index))
        self.sample(self.jobs, JobRow(time.time(), publication.jid, publication.fun, targeted))
        for index in meant:
            if self.known(index):
                tally.asks(index)
        self.tallies.changed(tally)

    def sample(self, writer: SampleWriter, row: AnyRow) -> None:
        """Write a sample; a disk that takes none ends the fleet, as its figures would be wrong."""
        try:
            writer.add(row)
        except EvilMinionsError as error:
            self.fatal(error)

    def flush(self) -> None:
        """Put all samples on disk."""
        for row in self.tallies.take():
            self.sample(self.counts, row)
        for writer in filter(None, (self.jobs, self.counts, self.returns, self.starts, self.decisions)):
            try:
                writer.flush()
            except EvilMinionsError as error:
                self.fatal(error)
