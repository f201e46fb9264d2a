"""Return events at a steady rate through a real event bus into a real job handler, and how far behind it is.

Three processes, as on a master: the event bus, the job handler, and whoever fires events, which is this one. Events
are due at fixed times whatever has become of earlier ones, and lag counts from when an event was due.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import salt.channel.server
import salt.job_handler.process
import salt.transport.frame
import salt.utils.event

from benchmarks.tasks.handler import RETURN, Bus, ids, options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection
    from multiprocessing.sharedctypes import Synchronized

    from salt.job_handler.process import Handler

    # when the load begins, in seconds since the epoch; 0 until it is known
    Begin = Synchronized[float]

MINIONS = 10_000
BEAT_S = 0.01
PATIENCE_S = 60.0


class Heard:
    """Takes the time of each return that the handler is told of, and passes it on."""

    def __init__(self, handler: Handler, rate: int) -> None:
        """Stand between a handler and its feed."""
        self.rate = rate
        self.start = 0.0
        self.count = 0
        self.lags: list[float] = []
        self._handler = handler
        self._pass_on = handler.maintenance.returned
        handler.maintenance.returned = self.returned
        self._fleet = ids(MINIONS)
        self.take(0)
        self.take(1)

    def take(self, job: int) -> None:
        """Give all minions a lease for a job, as its dispatch would."""
        self._handler.leases.take(str(job), self._fleet, 1, self._handler.clock())
        # so that the end of each lease is written down
        self._handler.dispatcher._open.add(str(job))  # noqa: SLF001 - no other way

    def returned(self, jid: str, minion: str) -> None:
        """Note how long ago the return was due."""
        number = int(jid) * MINIONS + int(minion[7:12])
        if not number % MINIONS:
            # the job after the next one, as a master has a few jobs at a time
            self.take(int(jid) + 2)
        self.lags.append(time.time() - self.start - number / self.rate)
        self._pass_on(jid, minion)


def _bus(opts: dict[str, Any]) -> None:
    channel = salt.channel.server.MasterPubServerChannel.factory(opts)
    channel._publish_daemon()  # noqa: SLF001 - what the master's process manager calls


def _handler(opts: dict[str, Any], rate: int, total: int, begin: Begin, answer: Connection) -> None:
    answer.send(asyncio.run(_listen(opts, rate, total, begin, answer)))


async def _listen(opts: dict[str, Any], rate: int, total: int, begin: Begin, answer: Connection) -> dict[str, Any]:
    handler = salt.job_handler.process.Handler(opts, "benchmark")
    handler.bus.event, handler.bus.channels = Bus(), [Bus()]
    heard = Heard(handler, rate)
    losses: list[float] = []
    handler.maintenance._disconnected = _loses(losses)  # noqa: SLF001 - no other way
    await handler.maintenance.connect()
    await handler.start()
    serving = asyncio.create_task(handler.serve())
    answer.send("ready")
    while not begin.value:  # noqa: ASYNC110 - another process sets it
        await asyncio.sleep(0.01)
    heard.start, before = begin.value, psutil.Process().cpu_times()
    give_up = heard.start + total / rate + PATIENCE_S
    while len(heard.lags) < total and time.time() < give_up and not losses:  # noqa: ASYNC110 - three conditions
        await asyncio.sleep(0.05)
    after = psutil.Process().cpu_times()
    serving.cancel()
    handler.server.close()
    return {
        "heard": len(heard.lags),
        "lost_the_bus": len(losses),
        "seconds": time.time() - heard.start,
        # a thousand of them, and the longest
        "lags": [*sorted(heard.lags)[:: max(1, len(heard.lags) // 1000)], max(heard.lags, default=0.0)],
        "cpu": after.user + after.system - before.user - before.system,
    }


def _loses(losses: list[float]) -> Callable[[], Awaitable[None]]:
    """Return what notes when the event bus has dropped the handler."""

    async def disconnected() -> None:
        losses.append(time.time())

    return disconnected


def _fire(path: str, rate: int, total: int, begin: Begin) -> None:
    """Fire all events at their times, those of a beat together, as workers do that each have a few."""
    fleet = ids(MINIONS)
    frames = [
        [
            salt.transport.frame.frame_msg_ipc(
                salt.utils.event.SaltEvent.pack(f"salt/job/{jid}/ret/{minion}", {**RETURN, "id": minion, "jid": jid}),
                raw_body=True,
            )
            for minion in fleet
        ]
        for jid in range(math.ceil(total / MINIONS))
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)
        begin.value = time.time() + 0.5
        done = 0
        while done < total:
            due = min(total, int((time.time() - begin.value) * rate))
            if due > done:
                sock.sendall(b"".join(frames[number // MINIONS][number % MINIONS] for number in range(done, due)))
                done = due
            time.sleep(BEAT_S)
        # the bus reads the rest
        time.sleep(1)


def feed(rate: int, seconds: int) -> dict[str, Any]:
    """Return how many of so many events a second the handler heard, and the lags, in seconds."""
    total = rate * seconds
    with tempfile.TemporaryDirectory(prefix="saltbed-") as folder:
        opts = options(folder, max_master_jobs=10**9, long_running=10**6)
        opts["pki_dir"] = folder
        begin = multiprocessing.Value("d", 0.0)
        ours, theirs = multiprocessing.Pipe()
        bus = multiprocessing.Process(target=_bus, args=(opts,), daemon=True)
        handler = multiprocessing.Process(target=_handler, args=(opts, rate, total, begin, theirs), daemon=True)
        try:
            bus.start()
            _wait(Path(folder) / "master_event_pull.ipc")
            handler.start()
            if not ours.poll(PATIENCE_S):
                raise RuntimeError("the job handler did not start")
            ours.recv()
            _fire(str(Path(folder) / "master_event_pull.ipc"), rate, total, begin)
            if not ours.poll(PATIENCE_S + 10):
                raise RuntimeError("the job handler did not answer")
            found: dict[str, Any] = ours.recv()
            times = psutil.Process(bus.pid).cpu_times()
            return {**found, "bus_cpu": times.user + times.system}
        finally:
            for process in (handler, bus):
                if process.pid is not None:
                    process.kill()
                    process.join()


def _wait(path: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > until:
            raise RuntimeError("the event bus did not start")
        time.sleep(0.05)
    # the socket's file is there a moment before it accepts connections
    time.sleep(0.5)


def prepare(settings: dict[str, Any]) -> Callable[[int, int], dict[str, Any]]:
    """Return what measures one rate."""
    if settings:
        raise RuntimeError("there are no settings")
    return feed
