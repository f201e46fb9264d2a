"""The job handler with everything at once: callers of all kinds, kills, stops, dead minions and partitions.

What is tried is drawn from a seed (`SALTBED_CHAOS_SEED`), for as long as `SALTBED_CHAOS_S` says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Self

import pytest

from evil_minions import Selection
from harness.errors import StartError
from harness.processes.deadline import Deadline, until
from tests.halts import halted
from tests.live.handler.test_failures import kill_master
from tests.live.helpers.handler_bed import Client, HandlerBed, RaisedError, answers, handler_bed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from evil_minions.samples import ReturnRow

SECONDS = float(os.environ.get("SALTBED_CHAOS_S", "1800"))
SEED = int(os.environ.get("SALTBED_CHAOS_SEED", "17"))
MINIONS, LIMIT, EACH = 90, 45, 3
IDS = [f"minion-{number:05d}" for number in range(MINIONS)]
# these are killed, and these are cut off; the others are never touched
DOOMED, CUT, CALM = IDS[:20], IDS[20:50], IDS[50:]
# how many jobs wait at most: who asks for more than the fleet can do waits without end, which proves nothing
BACKLOG = 10
PARTITION_S = min(90.0, SECONDS / 4)

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(SECONDS + 1500)]


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master with tight limits, which refuses when its job handler is away."""
    limits = {"criteria": "capacity", "max_master_jobs": LIMIT, "max_minion_jobs": EACH, "fail_mode": "closed"}
    limits |= {"long_running": 8, "reconcile_interval": 5, "sync_wait": "extend"}
    with handler_bed(root, tmp_path_factory.mktemp("chaos"), MINIONS, limits) as found:
        yield found


class Callers:
    """Threads that ask for jobs until they are told to stop, and note what they were told."""

    def __init__(self, setup: HandlerBed) -> None:
        """Take the bed."""
        self.setup = setup
        self.accepted: dict[str, list[str]] = {}
        self.seconds: dict[str, int] = {}
        self.refused = 0
        self.wrong: list[str] = []
        self._queued = 0
        self._end = threading.Event()
        kinds: list[Callable[[random.Random], None]] = [self._asynchronous, self._synchronous, self._batch, self._watch]
        self._threads = [
            threading.Thread(target=kind, args=(random.Random(SEED + place),))  # noqa: S311 - nothing secret
            for place, kind in enumerate(kinds)
        ]

    def __enter__(self) -> Self:
        """Start."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _asynchronous(self, rng: random.Random) -> None:
        with Client(self.setup.bed) as client:
            while not self._end.is_set():
                if self._queued > BACKLOG:
                    self._end.wait(0.2)
                    continue
                targets = sorted(rng.sample(IDS, rng.choice((1, 3, 30, MINIONS))))
                try:
                    seconds = rng.choice((0, 1, 4))
                    request = {"tgt": targets, "fun": "test.sleep", "arg": [str(seconds)], "tgt_type": "list"}
                    (jid,) = client.do("async", **request, count=1)
                    if jid != "0":
                        self.accepted[jid], self.seconds[jid] = targets, seconds
                except RaisedError:
                    self.refused += 1
                self._end.wait(rng.random())

    def _synchronous(self, rng: random.Random) -> None:
        while not self._end.is_set():
            targets = sorted(rng.sample(CALM, 10))
            done = self.setup.bed.salt(
                ["-L", ",".join(targets), "test.echo", "x", "--out=json", "--timeout=30"], timeout=600
            )
            with suppress(json.JSONDecodeError):
                found = answers(done.stdout)
                if found and done.returncode == 0 and found != dict.fromkeys(targets, "x"):
                    self.wrong.append(f"exit code 0 and {found}")
            self._end.wait(rng.random())

    def _batch(self, rng: random.Random) -> None:
        while not self._end.is_set():
            done = self.setup.bed.salt(
                ["-L", "-b", "5", ",".join(CALM[:15]), "test.echo", "x", "--timeout=30"], timeout=600
            )
            if done.returncode == 0 and any(minion not in done.stdout for minion in CALM[:15]):
                self.wrong.append("a batch with exit code 0 left minions out")
            self._end.wait(5 * rng.random())

    def _watch(self, _: random.Random) -> None:
        with Client(self.setup.bed) as client:
            while not self._end.wait(0.2):
                with suppress(RaisedError):
                    self._queued = client.do("ask", cmd="status")["queued"]


def harm(setup: HandlerBed, rng: random.Random) -> None:
    """Kill and stop what there is, until the time is up."""
    control, begin = setup.fleet.control, time.monotonic()
    once: list[tuple[float, Callable[[], object]]] = [
        (0.1, lambda: control.order("kill", Selection(tgt=DOOMED, tgt_type="list"))),
        (0.2, lambda: control.order("partition", Selection(tgt=CUT, tgt_type="list"))),
        (0.2 + PARTITION_S / SECONDS, lambda: control.order("heal")),
        (0.5, lambda: kill_master(setup)),
        (0.6, lambda: control.order("partition", Selection(tgt=CUT, tgt_type="list"))),
        (0.6 + PARTITION_S / SECONDS, lambda: control.order("heal")),
        (0.9, lambda: kill_master(setup)),
    ]
    while (gone := (time.monotonic() - begin) / SECONDS) < 1:
        if once and gone >= once[0][0]:
            once.pop(0)[1]()
        pid = setup.pid()
        # the moment is what is tried here, it is no wait for anything
        time.sleep(8 * rng.random())
        if rng.random() < 0.5:
            os.kill(pid, signal.SIGKILL)
        else:
            with halted(pid):
                time.sleep(3 * rng.random())
    for _, order in once:
        order()


def at_once(returns: Sequence[ReturnRow], seconds: Mapping[str, int]) -> int:
    """Return how many executions the fleet had at once at most, of jobs that sleep for so many seconds each.

    What the handler counts says less: after it was killed, what came back in its last half second is in doubt.
    """
    steps = []
    for row in returns:
        if row.jid in seconds:
            end = row.time - row.seconds
            steps += [(end - seconds[row.jid], 1), (end, -1)]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


def test_chaos(setup: HandlerBed) -> None:
    """Nothing is lost unsaid, nothing runs twice, no untouched minion is left out for silence, the limit holds."""
    with Callers(setup) as callers:
        harm(setup, random.Random(SEED))  # noqa: S311 - nothing secret
    setup.pid()
    until(
        lambda: not setup.ask("status")["queued"],
        Deadline(300),
        lambda: f"jobs wait still: {setup.ask('status')}",
    )
    with suppress(StartError):
        setup.idle()
    status = setup.ask("status")
    returns = setup.returns()
    found = Counter((row.jid, row.minion) for row in returns)
    most = at_once(returns, callers.seconds)
    lost, silent = [], []
    for jid, targets in callers.accepted.items():
        left_out = setup.ask("show", jid=jid)["left_out"]
        for minion in targets:
            if minion in CALM and not found[jid, minion] and minion not in left_out:
                lost.append((jid, minion))
            if minion in CALM and "not answered" in left_out.get(minion, ""):
                silent.append((jid, minion, left_out[minion]))
    twice = [pair for pair, count in found.items() if count > 1]
    print(f"{len(callers.accepted)} jobs, {callers.refused} refused, {most} at once")
    assert (lost, twice, callers.wrong) == ([], [], [])
    assert silent == []
    assert status["capacity"]["used"] == 0, status
    # what those that are cut off hold above half of the limit is lent to the others
    assert most <= LIMIT * 3 // 2
    assert len(callers.accepted) > SECONDS / 10
