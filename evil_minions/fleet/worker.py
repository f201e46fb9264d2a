"""A worker process: a few thousand minions on one event loop, and a line to its supervisor.

It ends when told to, when the line closes, and when its parent dies: no fleet outlives its supervisor.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import pickle
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.behaviour import Director
from evil_minions.errors import EvilMinionsError
from evil_minions.fleet import ramp
from evil_minions.fleet.client import ProcessStatus, Status
from evil_minions.fleet.ramp import MinionSet, Ramp
from evil_minions.inventory import GrainsFactory, load_population, load_template, template_of
from evil_minions.inventory.targets import Inventory, Target
from evil_minions.line import AsyncLine
from evil_minions.minion.lifecycle import Lifecycle, Traffic
from evil_minions.minion.minion import JobLog
from evil_minions.minion.publication import Publications
from evil_minions.minion.runtime import Phase, Runtime
from evil_minions.minion.shared import KeyRing, Shared
from evil_minions.network.ports import FILTERED, TRANSPORTS, Ports
from evil_minions.protocol.keys import MasterKey, load_pool
from evil_minions.recording import load
from evil_minions.recording.replay import Pace, Replay
from evil_minions.rng import Draws
from evil_minions.samples import Journal
from evil_minions.states.planner import Caches, Compiler, Planner

if TYPE_CHECKING:
    from evil_minions.fleet.settings import FleetSettings
    from evil_minions.inventory import Template
    from evil_minions.recording import Recording


def make(settings: FleetSettings, loop: asyncio.AbstractEventLoop) -> tuple[MinionSet, Ramp]:
    """Return a worker's set of minions, which is empty until `populate`, and the ramp that starts them.

    Raises:
        UsageError, SampleError: if a file can't be used.
    """
    runtime = Runtime(loop)
    keys = make_keys(settings)
    recording = load(settings.recording) if settings.recording else None
    replay = Replay(recording, settings.seed, Pace(settings.slowdown, settings.jitter)) if recording else None
    planner = Planner(Compiler(settings.folder), Caches())
    factory = GrainsFactory(_template(settings, recording), settings.seed, settings.master, settings.connects_from)
    inventory = Inventory(settings.ids(), settings.first, factory)
    journal = Journal(settings.folder, settings.worker, runtime.fail)
    director = Director(settings.seed)
    ramp = Ramp(runtime, settings, director, journal)
    log = JobLog(ramp.minions, journal, settings.seed)
    publications = Publications(keys.master, inventory.targets, runtime.counters, log.new)
    ports = Ports(
        loop,
        settings.address,
        settings.request_port,
        FILTERED if settings.zmq_filtering else TRANSPORTS[settings.transport],
        runtime.counters,
    )
    draws = Draws(settings.seed)
    lifecycle = Lifecycle(director, runtime, draws, journal, ports.partition, ramp.restart)
    traffic = Traffic(runtime.spawn, settings.beacon_interval, replay)
    shared = Shared(
        runtime, ports, inventory, keys, journal, publications, replay, planner, director, lifecycle, traffic, draws
    )
    return MinionSet(settings, shared, ramp), ramp


def make_keys(settings: FleetSettings) -> KeyRing:
    """Return the keys of the minions and of their master."""
    states = ramp.states(settings)
    denied = frozenset(number for number, state in states.items() if state == ramp.DENIED)
    grains = ramp.grains(settings.autosign) if settings.autosign else None
    return KeyRing(load_pool(settings.folder), MasterKey(settings.folder), denied, grains, frozenset(states) - denied)


def _template(settings: FleetSettings, recording: Recording | None) -> Template:
    if settings.population:
        return load_population(settings.population)
    if recording and settings.grains is None:
        return template_of(recording.grains)
    return load_template(settings.grains)


_PR_SET_PDEATHSIG: Final = 1
# glibc's options of mallopt(3)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 64 * 1024
_FLUSH_S: Final = 1.0
_PAGE_KB: Final = os.sysconf("SC_PAGE_SIZE") // 1024


def rss_kb() -> int:
    """Return the resident memory of this process in KB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB


class Worker:
    """The minions of one process."""

    def __init__(self, settings: FleetSettings, loop: asyncio.AbstractEventLoop) -> None:
        """Make the minions; none of them does anything yet. What the process takes without them is measured before."""
        self.set, self._ramp = make(settings, loop)
        self._base_rss_kb = rss_kb()
        self.set.populate()
        self._begun = False
        self._runtime = self.set.shared.runtime
        self._journal = self.set.shared.journal
        loop.set_exception_handler(self._runtime.unhandled)

    def status(self) -> Status:
        """Return the state of the worker."""
        minions = len(self.set.here())
        process = ProcessStatus(os.getpid(), minions, rss_kb(), self._base_rss_kb, time.process_time())
        return Status(**self.set.counts(), processes=(process,), counters=self._runtime.counters)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the supervisor asks, and return the answer."""
        match request.get("do"):
            case "status":
                return self.status().to_dict()
            case "flush":
                self._journal.flush()
                return {}
            case "match":
                target = Target(request["tgt"], request["tgt_type"], request["delimiter"])
                return {"ids": self.set.ids(target)}
            case _ if self._begun:
                return self.set.answer(request)
            case _:
                raise EvilMinionsError("An order came before the start.")

    @property
    def error(self) -> EvilMinionsError | None:
        """What ended the worker, if anything did."""
        return self._runtime.error

    async def serve(self, link: socket.socket) -> None:
        """Answer the supervisor line by line until it hangs up."""
        line = await AsyncLine.over(link)
        with suppress(OSError):
            while True:
                await line.send(self.answer(await line.receive()))
        self._runtime.stopping.set()

    async def run(self, link: socket.socket) -> None:
        """Live until told to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._runtime.stopping.set)
        self._begun = True
        self._ramp.run()
        self._runtime.spawn(self.serve(link))
        settled = False
        while not self._runtime.stopping.is_set():
            self._journal.flush()
            if not settled and all(minion.phase == Phase.READY for minion in self.set.minions):
                settled = True
                gc.collect()
                gc.freeze()
            try:
                await asyncio.wait_for(self._runtime.stopping.wait(), _FLUSH_S)
            except TimeoutError:
                continue
        self._journal.flush()
        self._journal.tallies.closed = True
        await self.set.shared.planner.close()
        for minion in self.set.minions:
            minion.close()
        self._journal.flush()


def _prepare() -> None:
    """Tie the process to its parent, and raise its limits."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if hasattr(libc, "mallopt"):
        # large messages go back to the system when they are done with, whatever came before them
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)
    if os.getppid() != parent:
        sys.exit(1)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Salt's matchers log an error for each minion and each odd target
    logging.disable(logging.CRITICAL)
    # collections are for the few cycles of failed requests; the minions themselves have none
    gc.set_threshold(20_000, 50, 100)


def main(arguments: list[str]) -> int:
    """Run a worker: descriptor of the line to the supervisor, pickled settings. Return the exit code."""
    _prepare()
    link = socket.socket(fileno=int(arguments[0]))
    settings: FleetSettings = pickle.loads(bytes.fromhex(arguments[1]))  # noqa: S301 - of our supervisor

    async def live() -> EvilMinionsError | None:
        worker = Worker(settings, asyncio.get_running_loop())
        await worker.run(link)
        return worker.error

    try:
        error = asyncio.run(live())
    except EvilMinionsError as problem:
        error = problem
    if error is not None:
        print(f"evil_minions: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
