"""A fleet over one of Salt's other transports, on stock Salt: how fast it connects, what it costs, who answers.

Everybody signs in as fast as the master lets them and is asked once a round; those who answer are counted, since stock
Salt may lose some of so many. There are no pillars, which would take longer than all the rest.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.contender import TREES
from benchmarks.fleet import cost_ms
from benchmarks.outcome import Outcome
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from benchmarks.options import Options
    from evil_minions.control import Status
    from harness.bed.settings import Transport

RAMP_UP_LIMIT_S = 300
PATIENCE_S = 30


def measure(transport: Transport, options: Options) -> Outcome:
    """Start the fleet, then ask everybody `options.rounds` times."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(
            tree=TREES["stock"],
            folder=Path(folder),
            minions=options.minions,
            transport=transport,
            pillar="none",
            postgres="none",
            api=False,
        )
        with Bed(settings) as bed:
            start = time.monotonic()
            fleet = bed.start_fleet(extra=("--auth-rate=10000",))
            connected: list[float] = []

            def note(status: Status) -> None:
                if status.connected == options.minions and not connected:
                    connected.append(time.monotonic() - start)

            fleet.wait_ready(RAMP_UP_LIMIT_S, note)
            ramp_up = time.monotonic() - start
            rested = fleet.status()
            answers, costs, seconds = [], [], []
            for turn in range(options.rounds):
                earlier, asked = fleet.status(), time.monotonic()
                argv = ["*", "test.ping", "--out=txt", f"--timeout={PATIENCE_S}"]
                ping = bed.salt(argv, timeout=20 * PATIENCE_S)
                seconds.append(time.monotonic() - asked)
                answers.append(float(sum(line.endswith(": True") for line in ping.stdout.splitlines())))
                costs.append(cost_ms(earlier, fleet.status()))
                options.progress(turn + 1, options.rounds)
            counters = fleet.status().counters
    return Outcome(
        f"fleet-{transport}",
        f"{options.minions} simulated minions over {transport} on stock Salt",
        {},
        {
            "connected_s": connected[0] if connected else ramp_up,
            "ramp_up_s": ramp_up,
            "kb_per_minion": rested.kb_per_minion,
            "cpu_ms_per_return": median(costs),
            "answered": min(answers),
            "seconds_to_answer": median(seconds),
            "requests_retried": counters.requests_retried,
            "disconnects": counters.disconnects,
        },
        {"cpu_ms_per_return": costs, "answered": answers, "seconds_to_answer": seconds},
    )
