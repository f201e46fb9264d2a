"""A worker process: a few thousand minions on one event loop, and a line to its supervisor.

It ends when told to, when the line closes, and when its parent dies: no fleet outlives its supervisor.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from evil_minions.errors import EvilMinionsError
from evil_minions.fleet import catalogue
from evil_minions.fleet.minions import Crowd
from evil_minions.fleet.ramp import Ramp
from evil_minions.fleet.settings import FleetSettings
from evil_minions.inventory.target import Target
from evil_minions.minion.context import Context
from evil_minions.minion.phase import Stage

_PR_SET_PDEATHSIG: Final = 1
# glibc's options of mallopt(3)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 64 * 1024
_FLUSH_SECONDS: Final = 1.0
_PAGE_KB: Final = os.sysconf("SC_PAGE_SIZE") // 1024
_LINE_LIMIT: Final = 64 * 1024 * 1024


def rss_kb() -> int:
    """Return the resident memory of this process in KB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB


class Worker:
    """The minions of one process."""

    def __init__(self, settings: FleetSettings, loop: asyncio.AbstractEventLoop) -> None:
        """Make the minions; none of them does anything yet. What the process takes without them is measured before."""
        self.context = Context(settings, loop)
        self._base_rss_kb = rss_kb()
        self.crowd = Crowd(self.context)
        self._ramp: Ramp | None = None
        self.context.subscribed = self._subscribed
        # a master publishes for all whose keys it has accepted, whatever became of them since
        self.context.known = lambda index: self.crowd.minions[index].signed_in_once
        self.stopping = asyncio.Event()
        self.error: EvilMinionsError | None = None
        self.context.fatal = self._fail
        loop.set_exception_handler(self.context.unhandled)

    def _subscribed(self, index: int) -> bool:
        """Return whether a minion hears of publications and will run them."""
        minion = self.crowd.minions[index]
        return minion.stage >= Stage.TUNED and minion.subscribed

    def _fail(self, error: EvilMinionsError) -> None:
        """End the worker because of `error`."""
        self.error = self.error or error
        self.stopping.set()

    def status(self) -> dict[str, Any]:
        """Return the state of the worker, as the supervisor reports it."""
        return {
            "pid": os.getpid(),
            **self.crowd.counts(),
            "rss_kb": rss_kb(),
            "base_rss_kb": self._base_rss_kb,
            "cpu_s": time.process_time(),
            "counters": self.context.counters.as_dict(),
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the supervisor asks, and return the answer."""
        match request.get("do"):
            case "status":
                return self.status()
            case "flush" | "stop" as do:
                if do == "stop":
                    self.stopping.set()
                else:
                    self.context.flush()
                return {}
            case "match":
                target = Target(request["tgt"], request["tgt_type"], request["delimiter"])
                return {"ids": self.crowd.ids(target)}
            case "knows":
                known = catalogue.names(self.context.replay)
                return {"unknown": catalogue.unknown(request["functions"], known)}
            case "pillar":
                index = {name: number for number, name in enumerate(self.context.ids)}.get(request["id"])
                return {} if index is None else {"pillar": self.context.pillars.get(index)}
            case _ if self._ramp is not None:
                return self.crowd.answer(request, self._ramp)
            case _:
                raise EvilMinionsError("An order came before the start.")

    async def serve(self, link: socket.socket) -> None:
        """Answer the supervisor line by line until it hangs up."""
        reader, writer = await asyncio.open_connection(sock=link, limit=_LINE_LIMIT)
        while line := await reader.readline():
            reply = json.dumps(self.answer(json.loads(line)), default=str)
            writer.write(reply.encode() + b"\n")
            await writer.drain()
        self.stopping.set()

    async def run(self, link: socket.socket) -> None:
        """Live until told to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        self._ramp = Ramp(self.context, self.crowd.minions)
        self._ramp.run()
        self.context.spawn(self.serve(link))
        settled = False
        while not self.stopping.is_set():
            self.context.flush()
            if not settled and all(minion.stage == Stage.READY for minion in self.crowd.minions):
                settled = True
                gc.collect()
                gc.freeze()
            try:
                await asyncio.wait_for(self.stopping.wait(), _FLUSH_SECONDS)
            except TimeoutError:
                continue
        self.context.flush()
        self.context.tallies.closed = True
        await self.context.planner.close()
        for minion in self.crowd.minions:
            minion.close()
        self.context.flush()


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
    """Run a worker: descriptor of the line to the supervisor, settings as JSON. Return the exit code."""
    _prepare()
    link = socket.socket(fileno=int(arguments[0]))
    settings = FleetSettings.from_json(arguments[1])

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
