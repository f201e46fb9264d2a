"""What simulated minions cost: memory each, CPU for each return, and how fast a master takes them in.

There is nothing of stock to divide by here: the figures are the fleet's own, measured beside a master that works. What
the master's heartbeats cost anyway is measured first, and is no part of what a return costs.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.contender import TREES
from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from benchmarks.options import Options
    from evil_minions.control import Status

RAMP_UP_LIMIT_S = 300
# three of the master's heartbeats
IDLE_S = 30


def run(options: Options) -> Outcome:
    """Start the fleet on the patched master, let it rest, then answer `options.rounds` pings of everyone."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["patched"], folder=Path(folder), minions=options.minions, api=False)
        with Bed(settings) as bed:
            start = time.monotonic()
            fleet = bed.start_fleet(minions=options.minions)
            fleet.wait_ready(RAMP_UP_LIMIT_S)
            ramp_up = time.monotonic() - start
            rested = fleet.control.status()
            time.sleep(IDLE_S)
            before = fleet.control.status()
            idle = (cpu_s(before) - cpu_s(rested)) / IDLE_S
            costs, gross = [], []
            for turn in range(options.rounds):
                earlier, began = fleet.control.status(), time.monotonic()
                ping = bed.salt(["*", "test.ping", "--out=txt"], timeout=300)
                answered = sum(line.endswith(": True") for line in ping.stdout.splitlines())
                if answered != options.minions:
                    raise BenchmarkError(
                        f"{answered} of {options.minions} minions answered; the master may be too slow for so many."
                    )
                after, took = fleet.control.status(), time.monotonic() - began
                gross.append(cost_ms(earlier, after))
                costs.append(cost_ms(earlier, after, idle * took))
                options.progress(turn + 1, options.rounds)
            return Outcome(
                "fleet",
                f"{options.minions} simulated minions on a real master",
                {},
                {
                    "ramp_up_s": ramp_up,
                    "kb_per_minion": before.kb_per_minion,
                    "idle_cores": idle,
                    "cpu_ms_per_return": median(costs),
                    "cpu_ms_per_return_with_heartbeats": median(gross),
                },
                {"cpu_ms_per_return": costs},
            )


def cpu_s(status: Status) -> float:
    """Return the CPU seconds that the fleet's workers have used so far."""
    return sum(process.cpu_s for process in status.processes)


def cost_ms(before: Status, after: Status, idle_s: float = 0.0) -> float:
    """Return the CPU time in ms that each return took, `idle_s` left out: what would have been used without them."""
    returns = after.counters.returns - before.counters.returns
    if not returns:
        raise BenchmarkError("No return was sent in a round; look into the fleet's log.")
    return (cpu_s(after) - cpu_s(before) - idle_s) * 1000 / returns
