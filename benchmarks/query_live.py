"""One query that asks a whole fleet, through a job handler, while other jobs go on.

Of every thousand minions ten are stopped and five have as many jobs as they may: these are left out of jobs, but they
live. Others give twenty minions a job each second, of which each minion gets one at a time. What each minion has is
known beforehand, and compared.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most, exactly
from benchmarks.turns import interleave
from evil_minions import Selection, read_returns
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.processes.deadline import Deadline, until
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.options import Options
    from harness.bed.fleet import Fleet

LOG = logging.getLogger(__name__)
READY_S = 1200
SETTLE_S = 120
QUERY_S = 300
# the extension's, beside the Python that it is installed in
COMMAND = Path(sys.executable).with_name("salt-query")
QUESTION = ["node", "-o", "name,alive,mfree", "--format=jsonl"]
PLACES, JOBS_OF_A_MINION = 500, 2
OTHERS_OF_A_JOB = 20
ASKED = ("test.ping", "status.meminfo")
OTHER = "test.echo"
SLEEP_S = 3600
TOOK = Figure("took", "salt-query node -o name,alive,mfree, {minions} minions", "s", "max", at_most(30))
SENT = Figure("executions", "executions of {minions} minions, 1 % stopped", "", "max", at_most(10_100))
WRONG = Figure("wrong", "of {minions} minions with a wrong value or status", "", "max", exactly(0))
OTHERS = Figure("others", "other jobs begun meanwhile", "", "min")
LOST = Figure("others-lost", "other jobs begun meanwhile that were not answered", "", "max", exactly(0))
LONGEST = Figure("others-longest", "other jobs begun meanwhile: the longest", "s", "max")


@dataclass(frozen=True)
class Kinds:
    """Which minions are what, by their ids; all others live and have nothing to do."""

    stopped: Sequence[str]
    full: Sequence[str]
    others: Sequence[str]

    def row(self, minion: str, memory: int) -> dict[str, Any]:
        """Return what is to be told of a minion, whose free memory is this if it is asked for it."""
        if minion in self.stopped:
            return {"name": minion, "alive": False, "mfree": None, "_missing": {"mfree": "offline"}}
        if minion in self.full:
            return {"name": minion, "alive": True, "mfree": None, "_missing": {"mfree": "nodata"}}
        return {"name": minion, "alive": True, "mfree": memory}


def kinds(ids: Sequence[str]) -> Kinds:
    """Choose a hundredth to be stopped, half as many to be full, and two hundredths for others' jobs."""
    hundredth = max(1, len(ids) // 100)
    full = hundredth + max(1, hundredth // 2)
    return Kinds(ids[:hundredth], ids[hundredth:full], ids[full : full + 2 * hundredth])


class Others(Thread):
    """Gives some minions a job each second until it is told to end."""

    def __init__(self, client: SaltProcess, minions: Sequence[str]) -> None:
        """Take a client of its own."""
        super().__init__()
        self.begun: dict[str, float] = {}
        self.width = min(OTHERS_OF_A_JOB, len(minions))
        self._client = client
        self._minions = deque(minions)
        self._end = Event()

    def run(self) -> None:
        """Give jobs, to these minions in turn: who has as many jobs as he may is left out."""
        while not self._end.wait(1):
            begun = time.time()
            chosen = list(self._minions)[: self.width]
            self._minions.rotate(-self.width)
            self.begun[self._client.run(chosen, OTHER, "hello")[1]] = begun

    def end(self) -> None:
        """Give no more."""
        self._end.set()
        self.join()


def run(options: Options) -> dict[Figure, Samples]:
    """Ask the whole fleet `options.rounds` times."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(
            tree=TREES["patched"],
            folder=Path(folder),
            minions=options.minions,
            pillar="none",
            postgres="none",
            api=None,
            master_options={
                "rate_limiting": {
                    "criteria": "capacity",
                    "max_master_jobs": PLACES,
                    "max_minion_jobs": JOBS_OF_A_MINION,
                    "sync_wait": "extend",
                },
                "query": {"live_cache": 0},
                # a wave goes to its own minions, and not to all
                "zmq_filtering": True,
            },
        )
        with Bed(settings) as bed:
            fleet = bed.start_fleet()
            fleet.wait_ready(READY_S)
            config = {"config": str(bed.master.config_dir / "master")}
            chosen = kinds(settings.minion_ids())
            fleet.control.kill(Selection(tgt=list(chosen.stopped), tgt_type="list"))
            with SaltProcess("patched", "benchmarks.tasks.query_live", config) as client:
                for _ in range(JOBS_OF_A_MINION):
                    client.run(list(chosen.full), "test.sleep", str(SLEEP_S))
                _wait_full(bed, len(chosen.full) * JOBS_OF_A_MINION)
                memory = _memory(bed, chosen.others[0])
                ask = partial(_ask, bed, fleet, client, chosen, memory)
                found = interleave({"query": ask}, options)["query"]
    return {figure: Samples([one[figure] for one in found]) for figure in QUERY_LIVE.figures}


def _wait_full(bed: Bed, used: int) -> None:
    """Wait until the handler counts so many jobs that run."""

    def full() -> bool:
        status = json.loads(bed.salt_run(["job_handler.figures", "--out=json"]).stdout)
        return bool(status["capacity"]["used"] >= used and not status["queued"])

    until(full, Deadline(SETTLE_S), lambda: "The jobs that are to fill minions do not run.")


def _ask(bed: Bed, fleet: Fleet, client: SaltProcess, chosen: Kinds, memory: int, _turn: int) -> dict[Figure, float]:
    """Ask once, and compare each minion with what it is."""
    before = _executed(fleet)
    others = Others(client, chosen.others)
    others.start()
    try:
        started = time.monotonic()
        done = subprocess.run(
            [str(COMMAND), f"--config-dir={bed.master.config_dir}", *QUESTION],
            env=bed.environment,
            capture_output=True,
            text=True,
            timeout=QUERY_S,
            check=False,
        )
        took = time.monotonic() - started
    finally:
        others.end()
    if done.returncode:
        raise BenchmarkError(f"The query has failed: {done.stderr.strip()}")
    rows = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
    ids = bed.settings.minion_ids()
    wrong = [one for one in ids if rows.get(one) != chosen.row(one, memory)]
    if wrong:
        LOG.warning("%d are wrong, such as %s: %s", len(wrong), rows.get(wrong[0]), done.stderr.strip())
    ended = _answered(fleet, others.begun, others.width)
    return {
        TOOK: took,
        SENT: _executed(fleet) - before,
        WRONG: len(wrong),
        OTHERS: len(others.begun),
        LOST: len(others.begun) - len(ended),
        LONGEST: max((ended[jid] - others.begun[jid] for jid in ended), default=0.0),
    }


def _memory(bed: Bed, minion: str) -> int:
    """Return the free memory of a minion in MiB, as it says itself."""
    told = json.loads(bed.salt([minion, "status.meminfo", "--out=json"]).stdout)[minion]
    return int(told["MemAvailable"]["value"]) // 1024


def _executed(fleet: Fleet) -> int:
    """Return how often minions have run what the query asks for."""
    fleet.control.flush()
    return sum(row.fun in ASKED for row in read_returns(fleet.folder))


def _answered(fleet: Fleet, jids: dict[str, float], minions: int) -> dict[str, float]:
    """Return when the last minion of each job had answered, of those jobs that all have answered."""
    found: dict[str, list[float]] = {}

    def complete() -> bool:
        fleet.control.flush()
        found.clear()
        for row in read_returns(fleet.folder):
            if row.jid in jids and row.acknowledged:
                found.setdefault(row.jid, []).append(row.time)
        return all(len(found.get(jid, ())) >= minions for jid in jids)

    deadline = Deadline(SETTLE_S)
    while not complete() and not deadline.passed():
        time.sleep(1)
    return {jid: max(times) for jid, times in found.items() if len(times) >= minions}


QUERY_LIVE = Benchmark(
    name="query-live",
    about="a query that asks 10,000 minions through a job handler while other jobs go on",
    run=run,
    figures=(TOOK, SENT, WRONG, OTHERS, LOST, LONGEST),
    minions=10_000,
    rounds=3,
    minutes=9,
)
