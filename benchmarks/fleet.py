"""What simulated minions cost: memory each, CPU for each return, and how fast a master takes them in.

There is no comparison with stock Salt: the figures are the fleet's own, measured beside a working master. The cost of
the master's heartbeats is measured first, and subtracted from the cost of a return.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, interleave
from harness.bed import Bed, BedSettings
from harness.paths import TREES

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from evil_minions import Status

RAMP_UP_LIMIT_S = 300
# three of the master's heartbeats
IDLE_S = 30
READY = Figure("ready", "{minions} minions with pillars, all ready", "s")
MEMORY = Figure("memory", "memory of a minion", "KB")
IDLE = Figure("idle", "CPU of {minions} idle minions", "cores")
RETURN = Figure("cpu-per-return", "CPU of the fleet for each return", "ms")
GROSS = Figure("cpu-per-return-gross", "the same with the master's heartbeats meanwhile", "ms")


def run(options: Options) -> dict[Figure, Samples]:
    """Start the fleet on the patched master, let it rest, then answer `options.rounds` pings of everyone."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["patched"], folder=Path(folder), minions=options.minions, api=None)
        with Bed(settings) as bed:
            start = time.monotonic()
            fleet = bed.start_fleet(minions=options.minions)
            fleet.wait_ready(RAMP_UP_LIMIT_S)
            ramp_up = time.monotonic() - start
            rested = fleet.control.status()
            time.sleep(IDLE_S)
            before = fleet.control.status()
            idle = (cpu_s(before) - cpu_s(rested)) / IDLE_S

            def ping(_turn: int) -> tuple[float, float]:
                earlier, began = fleet.control.status(), time.monotonic()
                done = bed.salt(["*", "test.ping", "--out=txt"], timeout=300)
                answered = sum(line.endswith(": True") for line in done.stdout.splitlines())
                if answered != options.minions:
                    raise BenchmarkError(
                        f"{answered} of {options.minions} minions answered; the master may be too slow for so many."
                    )
                after, took = fleet.control.status(), time.monotonic() - began
                return cost_ms(earlier, after, idle * took), cost_ms(earlier, after)

            costs = interleave({"ours": ping}, options)["ours"]
    return {
        READY: Samples([ramp_up]),
        MEMORY: Samples([before.kb_per_minion]),
        IDLE: Samples([idle]),
        RETURN: Samples([net for net, _ in costs]),
        GROSS: Samples([gross for _, gross in costs]),
    }


def cpu_s(status: Status) -> float:
    """Return the CPU seconds that the fleet's workers have used so far."""
    return sum(process.cpu_s for process in status.processes)


def cost_ms(before: Status, after: Status, idle_s: float = 0.0) -> float:
    """Return the CPU time in ms that each return took, `idle_s` left out: what would have been used without them."""
    returns = after.counters.returns - before.counters.returns
    if not returns:
        raise BenchmarkError("No return was sent in a round; look into the fleet's log.")
    return (cpu_s(after) - cpu_s(before) - idle_s) * 1000 / returns


FLEET = Benchmark(
    name="fleet",
    about="memory and CPU of simulated minions on a real master",
    run=run,
    figures=(READY, MEMORY, IDLE, RETURN, GROSS),
    minions=1000,
    rounds=5,
    minutes=3,
)
