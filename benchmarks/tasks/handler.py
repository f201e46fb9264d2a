"""Parts of the job handler under load, without a master around them: decide, release, submit, queue, hear.

Each measurement is a function that returns raw samples; the caller makes figures of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import salt.config
import salt.job_criteria.capacity
import salt.job_handler.feed
import salt.job_handler.gate
import salt.job_handler.job
import salt.job_handler.manager
import salt.job_handler.process
import salt.payload
import salt.transport
import salt.utils.event
import tornado.ioloop

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT_S = 0.01
RETURN = {"fun": "test.ping", "fun_args": [], "return": True, "retcode": 0, "success": True, "cmd": "_return"}


class Bus:
    """Stands for publisher and event bus, and does nothing."""

    async def publish(self, load: dict[str, Any]) -> None:
        """Publish to nobody."""

    async def fire_event_async(self, data: dict[str, Any], tag: str) -> None:
        """Tell nobody."""

    def fire_event(self, data: dict[str, Any], tag: str) -> None:
        """Tell nobody."""


class Listener:
    """What a feed tells; notes how late each return came."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.rounds = self
        self.late: list[float] = []

    def is_question(self, _jid: str) -> bool:
        """Say no."""
        return False

    def returned(self, jid: str, _minion: str) -> None:
        """Note the lag; the job id is the time of the event."""
        self.late.append((time.monotonic_ns() - int(jid)) / 1e9)

    def missed(self) -> None:
        """Fail: the bus has dropped the listener."""
        raise RuntimeError("the event bus dropped the job handler")


def options(folder: str, **rate_limiting: object) -> dict[str, Any]:
    """Return a master's options with everything in one folder."""
    opts: dict[str, Any] = salt.config.master_config(None)
    opts.update({"cachedir": folder, "sock_dir": folder, "rate_limiting": {"criteria": "capacity", **rate_limiting}})
    return opts


def _hold(condition: bool, message: str) -> None:  # noqa: FBT001 - like an assertion
    """Raise RuntimeError with the message unless the condition holds."""
    if not condition:
        raise RuntimeError(message)


def ids(count: int) -> list[str]:
    """Return minion ids."""
    return [f"minion-{number:05d}.example.com" for number in range(count)]


def decide(minions: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of the decision on a job of all minions with its charge, and of their releases."""
    criteria = salt.job_criteria.capacity.Capacity({"max_master_jobs": 10**6, "max_minion_jobs": 10})
    manager = salt.job_handler.manager.QueueManager(criteria, 10, "open", time.monotonic, work=time.thread_time)
    fleet = ids(minions)
    found: dict[str, list[float]] = {"decide": [], "release": []}
    for number in range(rounds):
        jid = str(number)
        manager.submit(salt.job_handler.job.Job(number, jid, "f", minions, minions=list(fleet)))
        before = time.thread_time()
        (action,) = manager.advance(0.0)
        found["decide"].append(time.thread_time() - before)
        _hold(len(action.minions) == minions, "a decision left minions out")
        before = time.thread_time()
        for minion in fleet:
            manager.returned(jid, minion, 0.0)
        found["release"].append(time.thread_time() - before)
    _hold(criteria.ledger.used == 0, "a release gave too little back")
    return found


async def _with_handler(opts: dict[str, Any], work: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    handler = salt.job_handler.process.Handler(opts, "benchmark")
    handler.event, handler.channels = Bus(), [Bus()]
    await handler.start()
    try:
        return await work(handler)
    finally:
        handler.server.close()
        handler.store.close()


def _serve(opts: dict[str, Any], ready: Any) -> None:  # noqa: ANN401
    async def forever(handler: Any) -> None:  # noqa: ANN401
        ready.set()
        while True:
            await asyncio.sleep(0.1)
            handler.criteria.ledger.__init__()

    asyncio.run(_with_handler(opts, forever))


def submit(minions: int, rounds: int) -> list[float]:
    """Time what a worker waits for: a place in the queue and the submission, over the socket of a real handler."""
    with tempfile.TemporaryDirectory(prefix="saltbed-") as folder:
        opts = options(folder, max_master_jobs=10**6)
        ready = multiprocessing.Event()
        process = multiprocessing.Process(target=_serve, args=(opts, ready), daemon=True)
        process.start()
        try:
            ready.wait(30)
            return asyncio.run(_submissions(opts, ids(minions), rounds))
        finally:
            process.kill()
            process.join()


async def _submissions(opts: dict[str, Any], fleet: list[str], rounds: int) -> list[float]:
    samples = []
    for number in range(rounds):
        load = {"jid": str(number), "fun": "f", "tgt": "*", "tgt_type": "glob", "arg": [], "ret": "", "user": "root"}
        before = time.perf_counter()
        gate = await salt.job_handler.gate.enter(
            opts, Bus(), {"fun": "f", "user": "root"}, {"id": str(number), "sync": True, "timeout": 5}
        )
        answer = await gate.submit(load, fleet, [])
        samples.append(time.perf_counter() - before)
        _hold("job_handler" not in answer["load"], "a job had to wait")
    return samples


def queue(minions: int, jobs: int) -> float:
    """Return the megabytes by which a handler grows with so many jobs of all minions in its queue."""
    with tempfile.TemporaryDirectory(prefix="saltbed-") as folder:
        return float(asyncio.run(_with_handler(options(folder, max_queue_size=jobs), partial(_fill, minions, jobs))))


async def _fill(minions: int, jobs: int, handler: Any) -> float:  # noqa: ANN401
    handler.manager.paused = True
    packed = salt.payload.dumps(ids(minions), use_bin_type=True)
    before = psutil.Process().memory_info().rss
    for number in range(jobs):
        load = {"jid": str(number), "fun": "state.apply", "tgt": "*", "tgt_type": "glob", "arg": ["x" * 200], "ret": ""}
        request = {"load": load, "token": f"t{number}", "count": minions, "ids": packed, "sync": False}
        await handler.handle({"cmd": "submit", **request, "timeout": None, "forced": False, "fixed": False})
    _hold(len(handler.manager.queue) == jobs, "jobs are missing in the queue")
    return float((psutil.Process().memory_info().rss - before) / 2**20)


def _fire(opts: dict[str, Any], rate: int, seconds: int) -> None:
    """Fire return events at a steady rate, as the master's event publisher does."""

    async def fire() -> None:
        server = salt.transport.ipc_publish_server("master", opts)
        await server.publisher(None, io_loop=tornado.ioloop.IOLoop.current())
        while not server.pub_server.clients:  # noqa: ASYNC110 - Salt's server tells nobody
            await asyncio.sleep(0.01)
        beats, per_beat = int(seconds / BEAT_S), int(rate * BEAT_S)
        start = time.monotonic()
        for beat in range(beats):
            for number in range(per_beat):
                tag = f"salt/job/{time.monotonic_ns()}/ret/minion-{number:05d}"
                await server.publish_payload(salt.utils.event.SaltEvent.pack(tag, {**RETURN, "id": tag}))
                # each event of a real bus comes by itself, and what has been written gets its turn
                await asyncio.sleep(0)
            await asyncio.sleep(max(0.0, start + (beat + 1) * BEAT_S - time.monotonic()))
        await asyncio.sleep(5)

    asyncio.run(fire())


def hear(rate: int, seconds: int) -> list[float]:
    """Return how late each of `rate` return events a second came, in seconds."""
    with tempfile.TemporaryDirectory(prefix="saltbed-") as folder:
        opts = options(folder)
        process = multiprocessing.Process(target=_fire, args=(opts, rate, seconds), daemon=True)
        process.start()
        try:
            return asyncio.run(_listen(opts, rate * seconds, seconds + 60))
        finally:
            process.kill()
            process.join()


async def _listen(opts: dict[str, Any], events: int, limit: float) -> list[float]:
    listener = Listener()
    feed = salt.job_handler.feed.Feed(opts, listener)
    await feed.connect()
    task = asyncio.ensure_future(feed.run())
    end = time.monotonic() + limit
    while len(listener.late) < events and time.monotonic() < end:  # noqa: ASYNC110 - an event a return would cost
        await asyncio.sleep(0.1)
    task.cancel()
    return listener.late


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return what runs one of the measurements by name."""
    _hold(not settings, "there are no settings")
    known: dict[str, Callable[..., Any]] = {
        "decide": decide,
        "submit": submit,
        "queue": queue,
        "hear": hear,
    }
    return lambda name, *args: known[name](*args)
