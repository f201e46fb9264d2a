"""How well a fleet keeps the time of a recording: a real minion's highstates, replayed at slowdown 1.

There is no comparison with stock Salt: the ratios are replayed times divided by recorded ones, 1 is perfect. The fleet
runs without jitter, so that its times come from the recorded runs alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, exactly
from benchmarks.turns import interleave
from evil_minions import read_jobs, read_returns
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.options import Options
    from harness.bed.fleet import Fleet

REAL = "real-00000"
STATES = 24
WAVE = 25
START_LIMIT_S = 300.0
CUTS = ("p10", "p50", "p90")
ANSWERS = Figure("missing", "of {minions} replayed highstates missing", aim=exactly(0))
RECORDED = Figure("recorded", "time of a recorded highstate", "s")
RETURN = {cut: Figure(f"return-{cut}", f"publication to return, replayed / recorded, {cut}", "x") for cut in CUTS}
STATES_SUM = {cut: Figure(f"states-{cut}", f"sum of its states, replayed / recorded, {cut}", "x") for cut in CUTS}
LOW = Figure("state-low", "a state's median, replayed / recorded, lowest", "x", "min")
HIGH = Figure("state-high", "a state's median, replayed / recorded, highest", "x", "max")
WAVES = Path(__file__).parent / "tasks" / "waves.py"


def run(options: Options) -> dict[Figure, Samples]:
    """Record `options.rounds` highstates of a real minion, and replay them on `options.minions` simulated ones."""
    with TemporaryDirectory(prefix="saltbed-") as name:
        folder = Path(name)
        _tree(folder / "states")
        settings = BedSettings(
            tree=TREES["stock"],
            folder=folder,
            master_options={"file_roots": {"base": [str(folder / "states")]}},
            pillar="none",
            postgres="none",
            api=None,
            minions=options.minions,
        )
        with Bed(settings) as bed:
            bed.start_minion(REAL)
            recorded = _record(bed, folder / "real.json", options)
            fleet = bed.start_fleet(extra=["--recording", str(folder / "real.json"), "--jitter", "0"])
            fleet.wait_ready(START_LIMIT_S)
            argv = [sys.executable, str(WAVES), str(bed.master.config_dir / "master"), str(options.minions), str(WAVE)]
            done = subprocess.run(argv, env=bed.environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BenchmarkError(f"The waves ended too soon; what they said last: {done.stderr[-2000:].strip()}")
            replayed: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
            return _replayed(options, recorded, replayed, _wire(fleet))


def _tree(folder: Path) -> None:
    """Write a tree of states that take from nothing to a second."""
    folder.mkdir()
    states: dict[str, Any] = {
        f"step-{number:02d}": {"cmd.run": [{"name": f"sleep {number * 0.2:.1f}"}]}
        if number < STATES // 4
        else {"test.succeed_with_changes": []}
        for number in range(STATES)
    }
    (folder / "site.sls").write_text(yaml.safe_dump(states, sort_keys=False))
    (folder / "top.sls").write_text("base: {'*': [site]}\n")


def _record(bed: Bed, path: Path, options: Options) -> list[dict[str, Any]]:
    """Record the real minion; return the answers of the file."""
    argv = ["--minion", REAL, "--output", str(path), "--jobs", str(options.rounds)]
    argv += ["--config", str(bed.master.config_dir / "master")]
    bed.spawn("recorder", [sys.executable, "-m", "evil_minions", "record", *argv])
    log = bed.logs / "recorder.out"
    limit = Deadline(START_LIMIT_S)
    until(lambda: log.exists() and "Recording" in log.read_text(), limit, lambda: "The recorder doesn't listen.")
    interleave({"real": lambda _: bed.salt([REAL, "state.highstate", "--out=quiet"], timeout=120)}, options)
    until(path.exists, Deadline(START_LIMIT_S), lambda: f"There is no recording: {log.read_text()}")
    answers: list[dict[str, Any]] = json.loads(path.read_text())["answers"]
    if len(answers) != options.rounds:
        raise BenchmarkError(f"{len(answers)} of {options.rounds} highstates were recorded; see the master's log.")
    return answers


def _wire(fleet: Fleet) -> list[float]:
    """Return for each highstate the seconds from its publication to the first send of its return."""
    fleet.control.flush()
    seen = {row.jid: row.time for row in read_jobs(fleet.folder)}
    rows = [row for row in read_returns(fleet.folder) if row.fun == "state.highstate"]
    return [row.time - row.seconds - seen[row.jid] for row in rows]


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Return the 10th, 50th and 90th percentile."""
    cuts = quantiles(values, n=10)
    return {"p10": cuts[0], "p50": cuts[4], "p90": cuts[8]}


def _replayed(
    options: Options, recorded: list[dict[str, Any]], replayed: dict[str, list[float]], wire: list[float]
) -> dict[Figure, Samples]:
    """Return the samples: percentiles of the replayed against those of the recorded."""
    before = [sorted(answer["value"].values(), key=lambda state: state["__run_num__"]) for answer in recorded]
    durations = [[float(state["duration"]) for state in states] for states in before]
    samples = {ANSWERS: Samples([options.minions - len(replayed)])}
    seconds = [float(answer["seconds"]) for answer in recorded]
    samples[RECORDED] = Samples(seconds)
    pairs = (
        (STATES_SUM, [sum(each) / 1000 for each in durations], [sum(each) / 1000 for each in replayed.values()]),
        (RETURN, seconds, wire),
    )
    for figures, old, new in pairs:
        was, is_ = _spread(old), _spread(new)
        samples |= {figures[cut]: Samples([is_[cut] / was[cut]]) for cut in CUTS}
    each = [
        median(columns_new) / median(columns_old)
        for columns_old, columns_new in zip(
            zip(*durations, strict=True), zip(*replayed.values(), strict=True), strict=True
        )
    ]
    return {**samples, LOW: Samples(each), HIGH: Samples(each)}


REPLAY = Benchmark(
    name="replay",
    about="times of replayed highstates against the recorded ones",
    run=run,
    figures=(ANSWERS, RECORDED, *RETURN.values(), *STATES_SUM.values(), LOW, HIGH),
    minions=1000,
    rounds=20,
    minutes=6,
)
