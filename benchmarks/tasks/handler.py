"""Parts of the job handler under load, without a master around them: decide, release, submit, queue, hear.

Each measurement is a function that returns raw samples; the caller makes figures of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
import salt.config
import salt.job_criteria.capacity
import salt.job_handler.feed
import salt.job_handler.gate
import salt.job_handler.job
import salt.job_handler.manager
import salt.job_handler.process
import salt.payload
import salt.utils.event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.synchronize import Event

    from salt.job_handler.process import Handler

T = TypeVar("T")

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
    """What a feed tells: passes returns on to a queue manager, as the handler does."""

    def __init__(self, manager: salt.job_handler.manager.QueueManager) -> None:
        """Take the manager."""
        self.manager = manager

    def is_question(self, _jid: str) -> bool:
        """Say no."""
        return False

    def returned(self, jid: str, minion: str) -> None:
        """Pass a return on."""
        self.manager.returned(jid, minion, 0.0)


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


async def _with_handler(opts: dict[str, Any], work: Callable[[Handler], Awaitable[T]]) -> T:
    handler = salt.job_handler.process.Handler(opts, "benchmark")
    handler.bus.event, handler.bus.channels = Bus(), [Bus()]
    await handler.start()
    try:
        return await work(handler)
    finally:
        handler.server.close()
        handler.journal.close()


def _serve(opts: dict[str, Any], ready: Event) -> None:
    async def forever(handler: Handler) -> None:
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


async def _fill(minions: int, jobs: int, handler: Handler) -> float:
    handler.manager.orders.paused = True
    packed = salt.payload.dumps(ids(minions), use_bin_type=True)
    before = psutil.Process().memory_info().rss
    for number in range(jobs):
        load = {"jid": str(number), "fun": "state.apply", "tgt": "*", "tgt_type": "glob", "arg": ["x" * 200], "ret": ""}
        request = {"load": load, "submission": f"t{number}", "count": minions, "ids": packed, "sync": False}
        await handler.commands.handle({"cmd": "submit", **request, "timeout": None, "forced": False, "fixed": False})
    _hold(len(handler.manager.queue) == jobs, "jobs are missing in the queue")
    return float((psutil.Process().memory_info().rss - before) / 2**20)


def hear(minions: int, rounds: int) -> list[float]:
    """Return the CPU seconds in which so many return events, as the bus brings them, are read and release charges."""
    criteria = salt.job_criteria.capacity.Capacity({"max_master_jobs": 10**6})
    listener = Listener(salt.job_handler.manager.QueueManager(criteria, 10, "open", time.monotonic))
    feed = salt.job_handler.feed.Feed({}, listener)
    samples = []
    for number in range(rounds):
        events = [
            salt.utils.event.SaltEvent.pack(f"salt/job/{number}/ret/{minion}", {**RETURN, "id": minion, "jid": number})
            for minion in ids(minions)
        ]
        criteria.ledger.charge(str(number), ids(minions), 1, 0.0)
        before = time.thread_time()
        for event in events:
            feed.hear(event)
        samples.append(time.thread_time() - before)
        _hold(criteria.ledger.used == 0, "returns were not heard")
    return samples


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
