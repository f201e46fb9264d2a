"""Parts of the job handler under load, without a master around them: decide, rules, submit, queue, hear.

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
import salt.job_handler.config
import salt.job_handler.handover
import salt.job_handler.leases
import salt.job_handler.maintenance
import salt.job_handler.policy
import salt.job_handler.process
import salt.job_handler.queue
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


class Dispatcher:
    """Stands for what publishes: it has a queue, and does nothing."""

    def __init__(self, rules: list[dict[str, Any]] | None = None, **settings: object) -> None:
        """Make a queue with these rules, whose criteria module has these settings."""
        section = {**salt.job_handler.config.DEFAULTS, "criteria": "capacity", **settings}
        self.opts: dict[str, Any] = {}
        self.leases = salt.job_handler.leases.Leases()
        self.rules = salt.job_handler.policy.Rules(rules or ())
        criteria = salt.job_criteria.capacity.Capacity(section, self.leases)
        self.queue = salt.job_handler.queue.Queue(criteria, self.leases, self.rules, section, None)
        self.maintenance = salt.job_handler.maintenance.Maintenance(self)

    def clock(self) -> float:
        """Say that no time passes."""
        return 0.0

    def wake(self) -> None:
        """Do nothing."""

    def decide(self, number: int, minions: list[str]) -> float:
        """Return the CPU seconds of the decision on a job, with the leases of its minions."""
        job = salt.job_handler.queue.Job(number, str(number), "f", len(minions), minions=list(minions))
        before = time.thread_time()
        # which looks for a rule as well
        self.queue.put(job)
        action = self.queue.advance(0.0)
        self.queue.done(action, 0.0)
        seconds = time.thread_time() - before
        _hold(len(action.minions) == len(minions), "a decision left minions out")
        return seconds

    def release(self, number: int, minions: list[str]) -> float:
        """Return the CPU seconds in which all minions return a job, and their leases end."""
        jid = str(number)
        before = time.thread_time()
        for minion in minions:
            self.maintenance.returned(jid, minion)
        seconds = time.thread_time() - before
        _hold(not self.leases.occupied, "a lease did not end")
        # as what writes them down would
        self.leases.ended.clear()
        return seconds


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
    """Return the CPU seconds of the decision on a job of all minions with its leases, and of their end."""
    dispatcher = Dispatcher(max_master_jobs=10**6, max_minion_jobs=10)
    fleet = ids(minions)
    found: dict[str, list[float]] = {"decide": [], "release": []}
    for number in range(rounds):
        found["decide"].append(dispatcher.decide(number, fleet))
        found["release"].append(dispatcher.release(number, fleet))
    return found


def rules(minions: int, count: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of the decision with so many rules, none of which matches: by function, and by target."""
    numbers = range(count)
    functions: list[dict[str, Any]] = [{"function": f"module-{number}.*", "action": "queue"} for number in numbers]
    targets: list[dict[str, Any]] = [{"target": f"other-{number}-*", "action": "queue"} for number in numbers]
    found: dict[str, list[float]] = {"rules": [], "rules-target": []}
    fleet = ids(minions)
    for name, settings in (("rules", functions), ("rules-target", targets)):
        dispatcher = Dispatcher(settings, max_master_jobs=10**6, max_minion_jobs=10)
        others = {rule["target"]: frozenset({rule["target"][:-1]}) for rule in targets}
        dispatcher.rules.learn(others)
        for number in range(rounds):
            found[name].append(dispatcher.decide(number, fleet))
            dispatcher.release(number, fleet)
    return found


async def _with_handler(opts: dict[str, Any], work: Callable[[Handler], Awaitable[T]]) -> T:
    handler = salt.job_handler.process.Handler(opts, "benchmark")
    handler.bus.event, handler.bus.channels = Bus(), [Bus()]
    await handler.start()
    try:
        return await work(handler)
    finally:
        handler.server.close()
        handler.store.close()


def _serve(opts: dict[str, Any], ready: Event) -> None:
    async def forever(handler: Handler) -> None:
        ready.set()
        while True:
            await asyncio.sleep(0.1)
            # as the process does, or workers would not ask it
            await handler._beat()  # noqa: SLF001 - no other way
            handler.leases.__init__()

    asyncio.run(_with_handler(opts, forever))


def submit(minions: int, rounds: int) -> dict[str, Any]:
    """Time what a worker waits for: a place in the queue and the submission, over the socket of a real handler.

    Also count the jobs for which it did not wait until the handler had published them.
    """
    with tempfile.TemporaryDirectory(prefix="saltbed-") as folder:
        opts = options(folder, max_master_jobs=10**9)
        ready = multiprocessing.Event()
        process = multiprocessing.Process(target=_serve, args=(opts, ready), daemon=True)
        process.start()
        try:
            _hold(ready.wait(30), "the job handler did not start")
            return asyncio.run(_submissions(opts, ids(minions), rounds))
        finally:
            process.kill()
            process.join()


async def _submissions(opts: dict[str, Any], fleet: list[str], rounds: int) -> dict[str, Any]:
    samples, late = [], 0
    for number in range(rounds):
        load = {"jid": str(number), "fun": "f", "tgt": "*", "tgt_type": "glob", "arg": [], "ret": "", "user": "root"}
        before = time.perf_counter()
        handover = await salt.job_handler.handover.enter(
            opts, Bus(), {"fun": "f", "user": "root"}, {"id": str(number), "sync": True, "timeout": 5}, fleet
        )
        answer = await handover.submit(load, fleet, [])
        samples.append(time.perf_counter() - before)
        late += answer is None or "job_handler" in answer["load"]
    return {"seconds": samples, "late": late}


def queue(minions: int, jobs: int) -> dict[str, float]:
    """Return the megabytes by which a handler grows with so many jobs of all minions, and how long the next one starts.

    The jobs wait in its queue.
    """
    with tempfile.TemporaryDirectory(prefix="saltbed-") as folder:
        opts = options(folder, max_queue_size=jobs)
        grown = asyncio.run(_with_handler(opts, partial(_fill, minions, jobs)))
        before = time.perf_counter()
        seconds = asyncio.run(_with_handler(opts, partial(_started, jobs, before)))
        return {"grown": grown, "start": seconds}


async def _fill(minions: int, jobs: int, handler: Handler) -> float:
    await handler.commands.handle({"cmd": "pause", "paused": True})
    fleet = ids(minions)
    info = {"fun": "state.apply", "sync": False, "timeout": None, "caller": None, "forced": False, "fixed": False}
    info |= {"ticket": "0" * 32, "priority": 0}
    before = psutil.Process().memory_info().rss
    for number in range(jobs):
        load = {"jid": str(number), "fun": "state.apply", "tgt": "*", "tgt_type": "glob", "arg": ["x" * 200], "ret": ""}
        seq = handler.store.reserve(f"t{number}", "root", 200, jobs, 10**9)[0]
        handler.store.complete(seq, str(number), load, fleet, info)
        await handler.commands.handle({"cmd": "submitted", "seq": seq})
    _hold(len(handler.queue) == jobs, "jobs are missing in the queue")
    return float((psutil.Process().memory_info().rss - before) / 2**20)


async def _started(jobs: int, before: float, handler: Handler) -> float:
    seconds = time.perf_counter() - before
    _hold(len(handler.queue) == jobs, "jobs were lost at a start")
    return seconds


def hear(minions: int, rounds: int) -> list[float]:
    """Return the CPU seconds in which so many return events, as the bus brings them, are read and leases end."""
    dispatcher = Dispatcher(max_master_jobs=10**6)
    fleet = ids(minions)
    samples = []
    for number in range(rounds):
        events = [
            salt.utils.event.SaltEvent.pack(f"salt/job/{number}/ret/{minion}", {**RETURN, "id": minion, "jid": number})
            for minion in fleet
        ]
        dispatcher.leases.take(str(number), fleet, 1, 0.0)
        before = time.thread_time()
        for event in events:
            dispatcher.maintenance.hear(event)
        samples.append(time.thread_time() - before)
        _hold(not dispatcher.leases.occupied, "returns were not heard")
        dispatcher.leases.ended.clear()
    return samples


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return what runs one of the measurements by name."""
    _hold(not settings, "there are no settings")
    known: dict[str, Callable[..., Any]] = {
        "decide": decide,
        "rules": rules,
        "submit": submit,
        "queue": queue,
        "hear": hear,
    }
    return lambda name, *args: known[name](*args)
