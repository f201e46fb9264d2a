"""A made-up finished run: samples of any size that agree with each other, as a healthy master leaves them.

Tests change it and benchmarks read it. Its seeded random generator makes the same samples every time.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import random
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from evil_minions import JobRow, ReturnRow, StartRow, TallyRow
from harness import samples as kinds
from harness.results import result, runs
from harness.samples import Timeline
from harness.scenarios.scenario import load, requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

ID = "20261122T120000Z-synthetic"
START = datetime(2026, 11, 22, 12, 0, tzinfo=UTC).timestamp()
FLEET_START, READY, ZERO = START + 10.0, START + 19.5, START + 25.0
SETTLE_S = 4.0
# this share of the returns is acknowledged on the second attempt, so many seconds later
LATE, LATE_S = 0.001, 6.0
WORKERS = 2
FUNCTION = "test.ping"
# process: role, CPU that it uses a second
PROCESSES = {
    101: ("master", 0.01), 102: ("MWorker", 0.4), 103: ("MWorker", 0.4), 104: ("MWorkerQueue", 0.05),
    105: ("EventPublisher", 0.1), 106: ("PubServerChannel", 0.1), 107: ("api", 0.2), 108: ("fleet", 0.001),
    109: ("fleet", 0.2), 110: ("fleet", 0.2), 111: ("locust", 0.1),
}  # fmt: skip
FLEET_CPU = 0.4
HARNESS_CPU = 0.02
SCENARIO = """\
description = "Nobody ran it"
minions = {minions}
pillar = "none"

[[clients]]
name = "ping all"
kind = "api"
function = "test.ping"
tgt = "*"
rate = {rate}
duration_s = {seconds}
arrival = "constant"
"""


@dataclass(frozen=True)
class Shape:
    """How large a run is: `minions` answer `jobs` jobs, of which `rate` are asked for every second."""

    minions: int = 20
    jobs: int = 10
    rate: int = 2
    seed: int = 1


@dataclass(frozen=True)
class _Return:
    jid: str
    minion: int
    sent: float
    over: float
    attempts: int


def write(parent: Path, shape: Shape) -> Path:
    """Write the run with its result into a new folder in `parent`, and return that folder."""
    folder = parent / ID
    (folder / "stock" / "logs").mkdir(parents=True)
    samples = folder / "stock" / "samples"
    (samples / "fleet").mkdir(parents=True)
    text = SCENARIO.format(minions=shape.minions, rate=shape.rate, seconds=shape.jobs / shape.rate)
    (folder / "scenario.toml").write_text(text, encoding="utf-8")
    machine = {"machine": {"cores": 2, "load_average_at_start": 0.1}}
    (folder / "environment.json").write_text(json.dumps(machine), encoding="utf-8")
    (folder / "stock" / "logs" / "master.log").write_text(
        "2026-11-22 12:05:00,000 [salt.utils.parsers:1080][WARNING ][1] Master received a SIGTERM. Exiting.\n"
    )
    started = datetime.fromtimestamp(START, UTC).isoformat(timespec="seconds")
    runs.write(folder, runs.Run(ID, started, ("stock",), shape.minions, 1, "none", status="finished"))
    _samples(samples, folder / "scenario.toml", shape)
    kinds.write(samples)
    result.write(result.compute(folder), folder)
    return folder


def _samples(folder: Path, scenario: Path, shape: Shape) -> None:
    rng = random.Random(shape.seed)  # noqa: S311 - a repeatable run is no secret
    jids, returns, finished = [], list[_Return](), list[float]()
    due = [request.due_s for request in requests(load(scenario))]
    for due_s in due:
        seen = ZERO + due_s + 0.01
        jids.append(f"{datetime.fromtimestamp(seen - 0.005, UTC):%Y%m%d%H%M%S%f}")
        over = seen
        for minion in range(shape.minions):
            sent = seen + rng.uniform(0.005, 0.5)
            late = LATE_S if rng.random() < LATE else 0.0
            row = _Return(jids[-1], minion, sent, sent + rng.uniform(0.001, 0.2) + late, 2 if late else 1)
            over = max(over, row.over)
            returns.append(row)
        finished.append(over + 0.02)
    done = max(finished)
    settled = float(int(done + SETTLE_S)) + 0.5
    kinds.write_timeline(folder, Timeline(FLEET_START, READY + 0.1, ZERO, round(done, 6), settled, True))
    (folder / "zero").write_text(f"{ZERO:.6f}\n", encoding="utf-8")
    _requests(folder, jids, due, finished, shape)
    _fleet(folder, jids, due, returns, shape)
    _watched(folder, due, returns, settled, shape)
    _csv(folder / "kept.csv", kinds.KeptReturn, ({"jid": row.jid, "minion": _name(row.minion)} for row in returns))
    accepted = ({"jid": jid, "fun": FUNCTION, "targeted": shape.minions} for jid in jids)
    _csv(folder / "accepted.csv", kinds.AcceptedJob, accepted)


def _requests(folder: Path, jids: list[str], due: list[float], finished: list[float], shape: Shape) -> None:
    rows = [
        {
            "clients": "ping all", "kind": "api", "function": FUNCTION, "mode": "sync", "number": number,
            "scheduled": ZERO + due_s, "started": ZERO + due_s + 0.001, "finished": end, "jids": jid,
            "expected": shape.minions, "answered": shape.minions, "error": "",
        }
        for number, (jid, due_s, end) in enumerate(zip(jids, due, finished, strict=True))
    ]  # fmt: skip
    _csv(folder / "requests.csv", kinds.ClientSample, rows)
    mean = sum(end - ZERO - due_s for due_s, end in zip(due, finished, strict=True)) / len(due) * 1000
    lines = ["Type,Name,Request Count,Failure Count,Average Response Time", f"api,ping all,{len(due)},0,{mean}"]
    (folder / "locust_stats.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _fleet(folder: Path, jids: list[str], due: list[float], returns: list[_Return], shape: Shape) -> None:
    """Write the rows of the two workers; each has every second minion."""
    shares = [len(range(worker, shape.minions, WORKERS)) for worker in range(WORKERS)]
    for worker, share in enumerate(shares):
        fleet = folder / "fleet"
        job: dict[str, Any] = {"fun": FUNCTION, "targeted": share}
        seen = [{**job, "jid": jid, "time": ZERO + due_s + 0.01} for jid, due_s in zip(jids, due, strict=True)]
        _csv(fleet / f"jobs.{worker}.csv", JobRow, seen)
        counts = dict.fromkeys(("reached", "returns", "acknowledged"), share)
        tallies = [{**row, **counts, "number": number, "time": row["time"] + 9} for number, row in enumerate(seen)]
        _csv(fleet / f"tallies.{worker}.csv", TallyRow, tallies)
        mine = sorted((row for row in returns if row.minion % WORKERS == worker), key=lambda row: row.over)
        _csv(fleet / f"returns.{worker}.csv", ReturnRow, map(_row, mine))
        starts = [
            {"minion": _name(minion), "auth_s": 1.0, "pillar_s": 2.0, "ready_s": 3.0}
            for minion in range(worker, shape.minions, WORKERS)
        ]
        _csv(fleet / f"starts.{worker}.csv", StartRow, starts)


def _row(row: _Return) -> dict[str, Any]:
    return {
        "time": row.over, "jid": row.jid, "fun": FUNCTION, "minion": _name(row.minion), "attempts": row.attempts,
        "acknowledged": True, "seconds": row.over - row.sent,
    }  # fmt: skip


def _watched(folder: Path, due: list[float], returns: list[_Return], settled: float, shape: Shape) -> None:
    """Write what is sampled every second: fleet, machine, processes."""
    times = [FLEET_START + 0.5 + second for second in range(int(settled - FLEET_START - 0.5) + 1)]
    sent, over, sends = Counter[int](), Counter[int](), Counter[int]()
    for row in returns:
        sent[bisect_left(times, row.sent)] += 1
        over[bisect_left(times, row.over)] += 1
        sends[bisect_left(times, row.sent)] += 1
        sends[bisect_left(times, row.over - 0.001)] += row.attempts - 1
    published = Counter(bisect_left(times, ZERO + due_s + 0.01) for due_s in due)
    counts = [list(accumulate(found[place] for place in range(len(times)))) for found in (sent, over, sends, published)]
    fleet, machine = [], []
    for place, (time, handed, acked, tried, jobs) in enumerate(zip(times, *counts, strict=True)):
        ready = shape.minions if time >= READY else 0
        fleet.append(
            {
                "time": time, "minions": shape.minions, "connected": shape.minions, "authenticated": ready,
                "ready": ready, "rss_kb": 60_000 + 7 * shape.minions, "base_rss_kb": 60_000,
                "cpu_s": FLEET_CPU * (time - FLEET_START), "publications": jobs,
                "heard": jobs * shape.minions, "heard_bytes": 500 * jobs * shape.minions,
                "executions": jobs * shape.minions,
                "find_jobs": 0, "returns": handed, "return_sends": tried, "returns_acked": acked,
                "returns_given_up": 0, "executing": jobs * shape.minions - handed,
            }
        )  # fmt: skip
        busy = sum(share for _, share in PROCESSES.values()) + HARNESS_CPU + 0.05
        machine.append(
            {
                "time": time, "monotonic": 1000.0 + place, "busy_s": 5000.0 + busy * place, "stolen_s": 0.0,
                "harness_s": HARNESS_CPU * place, "available_mb": 9000, "swapped_mb": 0, "load_average": 1.0,
            }
        )  # fmt: skip
    _csv(folder / "fleet.csv", kinds.FleetSample, fleet)
    _csv(folder / "machine.csv", kinds.MachineSample, machine)
    _csv(folder / "processes.csv", kinds.ProcessSample, _processes(settled))


def _processes(settled: float) -> Iterator[dict[str, Any]]:
    """Yield the samples of the bed's processes; those of fleet and clients start later than the master."""
    for second in range(int(settled - START) + 3):
        time = START + second + 0.25
        for pid, (role, share) in PROCESSES.items():
            since = {"fleet": FLEET_START, "locust": READY}.get(role, START)
            if time > since:
                cpu_s = round(share * (time - since), 2)
                yield {"time": time, "role": role, "pid": pid, "cpu_s": cpu_s, "rss_kb": 50_000 + second}


def _csv(path: Path, kind: type, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as the bed does; what a row lacks is zero."""
    columns = [column.name for column in dataclasses.fields(kind)]
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n" if path.parent.name == "fleet" else "\r\n")
        lines.writerow(columns)
        lines.writerows([_cell(row.get(column, 0)) for column in columns] for row in rows)


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return f"{value:.6f}" if isinstance(value, float) else value


def _name(minion: int) -> str:
    return f"minion-{minion:05d}"
