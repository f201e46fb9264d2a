"""Parts of the job handler under load, without a master around them: decide, rules, submit, queue, hear, feed.

Each measurement is a function that returns raw samples; the caller makes figures of them.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import socket
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
import salt.channel.server
import salt.config
import salt.job_criteria.capacity
import salt.job_handler.config
import salt.job_handler.handover
import salt.job_handler.leases
import salt.job_handler.maintenance
import salt.job_handler.policy
import salt.job_handler.process
import salt.job_handler.queue
import salt.job_handler.report
import salt.job_handler.store
import salt.transport.frame
import salt.utils.event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event

    from salt.job_handler.process import Handler

    # when the load begins, in seconds since the epoch; 0 until it is known
    Begin = Synchronized[float]

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
        self.report = salt.job_handler.report.Report(section, self.queue, None, self.clock)
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
        # as the process does, or workers would not ask it
        handler.beat()
        ready.set()
        while True:
            handler.beat()
            handler.leases.__init__()
            await asyncio.sleep(0.1)

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
        _hold(not handover.direct, "the job handler was not reached")
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
        seq = handler.store.reserve(f"t{number}", "root", True, 200, jobs, 10**9)[0]
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


# --- a feed of events ---------------------------------------------------------------------------------------------
#
# Return events at a steady rate through a real event bus into a real job handler, and how far behind it is. Three
# processes, as on a master: the event bus, the job handler, and what fires events, which is this one. Events are due
# at fixed times whatever has become of earlier ones, and lag counts from when an event was due.

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
        row = "INSERT INTO waves (seq, jid, cost, at, sent, whole, ids) VALUES (0, ?, 1, 0, TRUE, FALSE, ?)"
        self._handler.store.db.execute(row, (str(job), salt.job_handler.store.pack([])))

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

    async def disconnected() -> None:
        losses.append(time.time())

    handler.maintenance._disconnected = disconnected  # noqa: SLF001 - no other way
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


def prepare(settings: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the measurements by name."""
    _hold(not settings, "there are no settings")
    return {one.__name__: one for one in (decide, rules, submit, queue, hear, feed)}
