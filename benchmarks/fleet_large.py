"""Ten thousand simulated minions on one machine: whether they get in, stay, rest cheaply, and what their returns cost.

The master is stock Salt without pillars to compile. The returns are spread over two minutes, because all at once they
drown it, and what is measured then is the fleet's patience and not its cost.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.contender import TREES
from benchmarks.errors import BenchmarkError
from benchmarks.fleet import cost_ms, cpu_s
from benchmarks.outcome import Outcome
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from benchmarks.options import Options
    from evil_minions.control import Status

READY_LIMIT_S = 1200
HOLD_S = 600
IDLE_S = 30
SPREAD_S = 120
ANSWER_LIMIT_S = 600
BEHAVIOUR = f"""
format = 1
description = "Returns spread evenly over {SPREAD_S} s"
[[stages]]
name = "spread"
function = "test.ping"
delay = {{ seconds = 0, jitter = {SPREAD_S} }}
"""


def run(options: Options) -> Outcome:
    """Start the fleet, hold it for ten minutes from the moment that all are connected, then ask everybody once."""
    with TemporaryDirectory(prefix="saltbed-") as name:
        folder = Path(name)
        behaviour = folder / "spread.toml"
        behaviour.write_text(BEHAVIOUR, encoding="utf-8")
        tree = TREES["stock"]
        settings = BedSettings(
            tree=tree, folder=folder, minions=options.minions, pillar="none", postgres="none", api=False
        )
        with Bed(settings) as bed:
            start = time.monotonic()
            fleet = bed.start_fleet(extra=(f"--behaviour={behaviour}",))
            connected: list[float] = []

            def note(status: Status) -> None:
                if status.connected == status.authenticated == options.minions and not connected:
                    connected.append(time.monotonic() - start)

            fleet.wait_ready(READY_LIMIT_S, note)
            ready = time.monotonic() - start
            if not connected:
                raise BenchmarkError(
                    f"Never were all {options.minions} connected at once; repeat this on a machine with nothing else."
                )
            time.sleep(max(0.0, connected[0] + HOLD_S - ready))
            rested = fleet.status()
            time.sleep(IDLE_S)
            held = fleet.status()
            idle = (cpu_s(held) - cpu_s(rested)) / IDLE_S
            bed.salt(["--async", "*", "test.ping"], timeout=300)

            def answered() -> Status | None:
                status = fleet.status()
                done = status.counters.returns_acked + status.counters.returns_given_up
                options.progress(min(done, options.minions), options.minions)
                return status if done >= options.minions else None

            after = until(answered, Deadline(ANSWER_LIMIT_S), lambda: "Not all returns were taken in time.")
    return Outcome(
        "fleet-ten-thousand",
        f"{options.minions} simulated minions on stock Salt, held for {HOLD_S} s",
        {},
        {
            "connected_s": connected[0],
            "ramp_up_s": ready,
            "kb_per_minion": held.kb_per_minion,
            "idle_cores": idle,
            "disconnects": held.counters.disconnects,
            "connected_after_hold": held.connected,
            "cpu_ms_per_return": cost_ms(held, after),
            "returns_acknowledged": after.counters.returns_acked,
            "sends_of_returns": after.counters.return_sends,
        },
        {},
    )
