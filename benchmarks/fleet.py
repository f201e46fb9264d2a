"""What a simulated minion costs: memory, descriptors, CPU for each return, and how fast a master takes them in.

`fleet` measures the fleet beside a working master, and has no stock Salt to be compared with. The cost of the master's
heartbeats is measured first, and subtracted from the cost of a return.

`density` has two fleets on one master in one run, which are asked in turn: ours with raw sockets, and that of
`benchmarks.pyzmq_fleet` in the place of stock. evil-minions of 2022, which simulates minions with Salt's own objects,
can't be fetched here; its own figures, 2 MB for each minion and about 1,000 minions a core, stand beside these in the
docs.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, interleave
from harness.bed import Bed, BedSettings
from harness.paths import ROOT, TREES
from harness.processes.deadline import Deadline, until
from harness.processes.line import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.benchmark import Options
    from harness.bed.fleet import Fleet
    from harness.bed.master import Master

READY_S = 300
PATIENCE_S = 60
STOP_S = 10.0
# three of the master's heartbeats
IDLE_S = 30
READY = Figure("ready", "{minions} minions with pillars, all ready", "s")
MEMORY = Figure("memory", "memory of a minion", "KB")
IDLE = Figure("idle", "CPU of {minions} idle minions", "cores")
RETURN = Figure("cpu-per-return", "CPU of the fleet for each return", "ms")
GROSS = Figure("cpu-per-return-gross", "the same with the master's heartbeats meanwhile", "ms")
BOTH_MEMORY = Figure("memory", "memory of a minion, raw sockets / pyzmq's", "KB")
BOTH_DESCRIPTORS = Figure("descriptors", "descriptors of a minion, raw sockets / pyzmq's")
BOTH_RETURN = Figure("cpu-per-return", "CPU for each return, raw sockets / pyzmq's", "ms")


@dataclass(frozen=True)
class State:
    """A fleet at one moment: cumulative CPU and returns, memory of a minion, and open descriptors."""

    ready: int
    returns: int
    cpu_s: float
    kb_per_minion: float
    descriptors: int

    def cost_ms(self, before: State, idle_s: float = 0.0) -> float:
        """Return the CPU time in ms of each return since `before`, but for what idle minions use meanwhile.

        Raises:
            BenchmarkError: if nothing was returned.
        """
        if self.returns == before.returns:
            raise BenchmarkError("No return was sent in a round; look into the fleet's log.")
        return (self.cpu_s - before.cpu_s - idle_s) * 1000 / (self.returns - before.returns)


def _raw_state(fleet: Fleet, *, acknowledged: bool = False) -> State:
    """Return the state of the fleet of evil_minions now, with the returns that were sent or acknowledged."""
    status = fleet.status()
    return State(
        status.ready,
        status.counters.returns_acked if acknowledged else status.counters.returns,
        sum(process.cpu_s for process in status.processes),
        status.kb_per_minion,
        sum(len(list(Path(f"/proc/{process.pid}/fd").iterdir())) for process in status.processes),
    )


def run_fleet(options: Options) -> dict[Figure, Samples]:
    """Start the fleet on the patched master, let it rest, then answer `options.rounds` pings of everyone."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["patched"], folder=Path(folder), minions=options.minions, api=None)
        with Bed(settings) as bed:
            start = time.monotonic()
            fleet = bed.start_fleet(minions=options.minions)
            fleet.wait_ready(READY_S)
            ramp_up = time.monotonic() - start
            rested = _raw_state(fleet)
            time.sleep(IDLE_S)
            before = _raw_state(fleet)
            idle = (before.cpu_s - rested.cpu_s) / IDLE_S

            def ping(_turn: int) -> tuple[float, float]:
                earlier, began = _raw_state(fleet), time.monotonic()
                done = bed.salt(["*", "test.ping", "--out=txt"], timeout=300)
                answered = sum(line.endswith(": True") for line in done.stdout.splitlines())
                if answered != options.minions:
                    raise BenchmarkError(
                        f"{answered} of {options.minions} minions answered; the master may be too slow for so many."
                    )
                after, took = _raw_state(fleet), time.monotonic() - began
                return after.cost_ms(earlier, idle * took), after.cost_ms(earlier)

            costs = interleave({"ours": ping}, options)["ours"]
    return {
        READY: Samples([ramp_up]),
        MEMORY: Samples([before.kb_per_minion]),
        IDLE: Samples([idle]),
        RETURN: Samples([net for net, _ in costs]),
        GROSS: Samples([gross for _, gross in costs]),
    }


@contextmanager
def _pyzmq(master: Master, minions: int, folder: Path) -> Iterator[Callable[[], State]]:
    """Start the fleet of `benchmarks.pyzmq_fleet` in a process of its own, and yield what returns its state."""
    arguments = [str(master.request_port), str(minions), str(folder), str(master.word_file)]
    name, module = "The fleet with pyzmq's sockets", "benchmarks.pyzmq_fleet"
    child = Child(name, module, arguments, BenchmarkError, "its last lines may say why", cwd=ROOT)
    try:
        yield lambda: State(**child.ask({"do": "state"}, READY_S))
    finally:
        child.close(STOP_S)


def run_density(options: Options) -> dict[Figure, Samples]:
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
            with _pyzmq(bed.master, options.minions, place) as pyzmq:
                until(
                    lambda: pyzmq().ready == options.minions,
                    Deadline(READY_S),
                    lambda: f"Not all minions with pyzmq's sockets signed in: {pyzmq().ready}; take fewer.",
                )
                fleets: dict[str, tuple[str, Callable[[], State]]] = {
                    "raw": ("minion-*", partial(_raw_state, fleet, acknowledged=True)),
                    "pyzmq": ("zmq-*", pyzmq),
                }
                contenders = {name: partial(_round, bed, *one, options.minions) for name, one in fleets.items()}
                # the first round fills caches
                costs = interleave(contenders, options, warm=1)
                raw, other = (state() for _, state in fleets.values())
    return {
        BOTH_MEMORY: Samples([raw.kb_per_minion], [other.kb_per_minion]),
        BOTH_DESCRIPTORS: Samples([raw.descriptors / options.minions], [other.descriptors / options.minions]),
        BOTH_RETURN: Samples(costs["raw"], costs["pyzmq"]),
    }


def _round(bed: Bed, target: str, state: Callable[[], State], minions: int, _turn: int) -> float:
    """Ask one fleet once; return the CPU time in ms that each of its returns took."""
    before = state()
    bed.salt([target, "test.ping", "--out=txt", f"--timeout={PATIENCE_S}"], timeout=2 * PATIENCE_S)

    def all_returned() -> State | None:
        after = state()
        return after if after.returns - before.returns >= minions else None

    # the command ends with the last answer; its minion hears of the acknowledgement a moment later
    after = until(
        all_returned,
        Deadline(PATIENCE_S),
        lambda: f"Not all {minions} minions {target} have answered; the master is too slow for so many.",
    )
    return after.cost_ms(before)


FLEET = Benchmark(
    name="fleet",
    about="memory and CPU of simulated minions on a real master",
    run=run_fleet,
    figures=(READY, MEMORY, IDLE, RETURN, GROSS),
    minions=1000,
    rounds=5,
    minutes=3,
)
DENSITY = Benchmark(
    name="density",
    about="simulated minions with raw sockets (ours) against pyzmq's (in the place of stock)",
    run=run_density,
    figures=(BOTH_MEMORY, BOTH_DESCRIPTORS, BOTH_RETURN),
    minions=500,
    rounds=5,
    minutes=3,
)
