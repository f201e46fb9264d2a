"""What a simulated minion costs with raw sockets and with pyzmq's, side by side on one master in one run.

The two fleets are asked in turn. evil-minions of 2022, which simulates minions with Salt's own objects, can't be
fetched here; its own figures, 2 MB for each minion and about 1,000 minions a core, stand beside these in the docs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, Self

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, interleave
from harness.bed import Bed, BedSettings
from harness.paths import ROOT, TREES

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from harness.bed.fleet import Fleet
    from harness.bed.master import Master

READY_S = 300.0
PATIENCE_S = 60
PAUSE_S = 0.2
STOP_S = 10.0
MEMORY = Figure("memory", "memory of a minion, raw sockets / pyzmq's", "KB")
DESCRIPTORS = Figure("descriptors", "descriptors of a minion, raw sockets / pyzmq's")
RETURN = Figure("cpu-per-return", "CPU for each return, raw sockets / pyzmq's", "ms")


@dataclass(frozen=True)
class State:
    """A fleet at one moment: cumulative CPU and returns, memory of a minion, and open descriptors."""

    ready: int
    returns: int
    cpu_s: float
    kb_per_minion: float
    descriptors: int


class Measured(Protocol):
    """A fleet that can be looked at."""

    def state(self) -> State:
        """Return its state now."""


class Raw:
    """The fleet of evil_minions."""

    def __init__(self, fleet: Fleet) -> None:
        """Take a fleet that runs."""
        self._fleet = fleet

    def state(self) -> State:
        """Return its state now."""
        status = self._fleet.status()
        return State(
            status.ready,
            status.counters.returns_acked,
            sum(process.cpu_s for process in status.processes),
            status.kb_per_minion,
            sum(len(list(Path(f"/proc/{process.pid}/fd").iterdir())) for process in status.processes),
        )


class Pyzmq:
    """The fleet of `benchmarks.pyzmq_fleet`; a context manager that owns its process."""

    def __init__(self, master: Master, minions: int, folder: Path) -> None:
        """Start it."""
        argv = [sys.executable, "-m", "benchmarks.pyzmq_fleet", str(master.request_port), str(minions), str(folder)]
        argv += [str(master.word_file)]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate(timeout=STOP_S)

    def state(self) -> State:
        """Return its state now."""
        line = ""
        if self._process.stdin and self._process.stdout:
            self._process.stdin.write("state\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError("The fleet with pyzmq's sockets has ended; its traceback stands above.")
        return State(**json.loads(line))


def run(options: Options) -> dict[Figure, Samples]:
    """Start both fleets, then ask each of them `options.rounds` times."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(
            tree=TREES["stock"],
            folder=Path(folder),
            minions=options.minions,
            pillar="none",
            postgres="none",
            api=None,
            # room for both fleets
            master_options={"worker_threads": 3},
        )
        with Bed(settings) as bed:
            fleet = bed.start_fleet()
            fleet.wait_ready(READY_S)
            place = bed.temporary / "pyzmq"
            place.mkdir()
            with Pyzmq(bed.master, options.minions, place) as pyzmq:
                contenders: dict[str, tuple[str, Measured]] = {
                    "raw": ("minion-*", Raw(fleet)),
                    "pyzmq": ("zmq-*", pyzmq),
                }
                _wait_ready(pyzmq, options.minions)

                def cost(name: str, _turn: int) -> float:
                    target, contender = contenders[name]
                    return _round(bed, target, contender, options.minions)

                # the first round fills caches
                costs = interleave({name: partial(cost, name) for name in contenders}, options, warm=1)
                states = {name: contender.state() for name, (_, contender) in contenders.items()}
    raw, pyzmq_state = states["raw"], states["pyzmq"]
    return {
        MEMORY: Samples([raw.kb_per_minion], [pyzmq_state.kb_per_minion]),
        DESCRIPTORS: Samples([raw.descriptors / options.minions], [pyzmq_state.descriptors / options.minions]),
        RETURN: Samples(costs["raw"], costs["pyzmq"]),
    }


def _wait_ready(pyzmq: Pyzmq, minions: int) -> None:
    """Wait until all of the other fleet have signed in."""
    deadline = time.monotonic() + READY_S
    while (ready := pyzmq.state().ready) < minions:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"Only {ready} of {minions} minions with pyzmq's sockets signed in; take fewer.")
        time.sleep(PAUSE_S)


def _round(bed: Bed, target: str, contender: Measured, minions: int) -> float:
    """Ask one fleet once; return the CPU time in ms that each of its returns took."""
    before = contender.state()
    bed.salt([target, "test.ping", "--out=txt", f"--timeout={PATIENCE_S}"], timeout=2 * PATIENCE_S)
    after = contender.state()
    returns = after.returns - before.returns
    if returns < minions:
        raise BenchmarkError(f"{returns} of {minions} minions {target} answered; the master is too slow for so many.")
    return (after.cpu_s - before.cpu_s) * 1000 / returns


DENSITY = Benchmark(
    name="density",
    about="simulated minions with raw sockets (ours) against pyzmq's (in the place of stock)",
    run=run,
    figures=(MEMORY, DESCRIPTORS, RETURN),
    minions=500,
    rounds=5,
    minutes=3,
)
