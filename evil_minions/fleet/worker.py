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
from evil_minions.fleet import assembly
from evil_minions.fleet.settings import FleetSettings
from evil_minions.inventory.target import Target
from evil_minions.minion.phase import Phase

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
        self.set, self._ramp = assembly.make(settings, loop)
        self._base_rss_kb = rss_kb()
        self.set.populate()
        self._begun = False
        self._runtime = self.set.shared.runtime
        self._journal = self.set.shared.journal
        loop.set_exception_handler(self._runtime.unhandled)

    def status(self) -> dict[str, Any]:
        """Return the state of the worker, as the supervisor reports it."""
        return {
            "pid": os.getpid(),
            **self.set.counts(),
            "rss_kb": rss_kb(),
            "base_rss_kb": self._base_rss_kb,
            "cpu_s": time.process_time(),
            "counters": self._runtime.counters.as_dict(),
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the supervisor asks, and return the answer."""
        match request.get("do"):
            case "status":
                return self.status()
            case "flush" | "stop" as do:
                if do == "stop":
                    self._runtime.stopping.set()
                else:
                    self._journal.flush()
                return {}
            case "match":
                target = Target(request["tgt"], request["tgt_type"], request["delimiter"])
                return {"ids": self.set.ids(target)}
            case "pillar":
                inventory = self.set.shared.inventory
                index = {name: number for number, name in enumerate(inventory.ids)}.get(request["id"])
                return {} if index is None else {"pillar": inventory.pillars.get(index)}
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
        reader, writer = await asyncio.open_connection(sock=link, limit=_LINE_LIMIT)
        while line := await reader.readline():
            reply = json.dumps(self.answer(json.loads(line)), default=str)
            writer.write(reply.encode() + b"\n")
            await writer.drain()
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
                await asyncio.wait_for(self._runtime.stopping.wait(), _FLUSH_SECONDS)
            except TimeoutError:
                continue
        self._journal.flush()
        self._journal.tallies.closed = True
        await self.set.shared.answers.planner.close()
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
