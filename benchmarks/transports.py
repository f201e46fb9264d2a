"""A fleet over one of Salt's other transports, on stock Salt: how fast it connects, what it costs, who answers.

Everybody signs in as fast as the master lets them and is asked once a round; those who answer are counted, since stock
Salt may lose some of so many. There are no pillars, which would take longer than all the rest.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark
from benchmarks.figure import Figure, Samples, exactly
from benchmarks.fleet import cost_ms
from benchmarks.turns import interleave
from harness.bed import Bed, BedSettings
from harness.paths import TREES

if TYPE_CHECKING:
    from benchmarks.options import Options
    from evil_minions import Status, Transport

RAMP_UP_LIMIT_S = 300
PATIENCE_S = 30
CONNECTED = Figure("connected", "{minions} minions, all connected", "s")
READY = Figure("ready", "{minions} minions, all ready (no pillars)", "s")
MEMORY = Figure("memory", "memory of a minion", "KB")
RETURN = Figure("cpu-per-return", "CPU for each return, heartbeats in it", "ms")
MISSING = Figure("missing", "of {minions} answers to salt '*' test.ping missing", "", "max", exactly(0))
SECONDS = Figure("seconds", "salt '*' test.ping", "s")
RETRIED = Figure("retried", "requests that minions repeated")
DISCONNECTS = Figure("disconnects", "connections that broke")


def measure(transport: Transport, options: Options) -> dict[Figure, Samples]:
    """Start the fleet, then ask everybody `options.rounds` times."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(
            tree=TREES["stock"],
            folder=Path(folder),
            minions=options.minions,
            transport=transport,
            pillar="none",
            postgres="none",
            api=None,
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

            def ping(_turn: int) -> tuple[float, float, float]:
                earlier, asked = fleet.status(), time.monotonic()
                argv = ["*", "test.ping", "--out=txt", f"--timeout={PATIENCE_S}"]
                done = bed.salt(argv, timeout=20 * PATIENCE_S)
                seconds = time.monotonic() - asked
                answers = sum(line.endswith(": True") for line in done.stdout.splitlines())
                return answers, seconds, cost_ms(earlier, fleet.status())

            answers, seconds, costs = zip(*interleave({"ours": ping}, options)["ours"], strict=True)
            counters = fleet.status().counters
    return {
        CONNECTED: Samples([connected[0] if connected else ramp_up]),
        READY: Samples([ramp_up]),
        MEMORY: Samples([rested.kb_per_minion]),
        RETURN: Samples(costs),
        MISSING: Samples([options.minions - count for count in answers]),
        SECONDS: Samples(seconds),
        RETRIED: Samples([counters.requests_retried]),
        DISCONNECTS: Samples([counters.disconnects]),
    }


def _benchmark(transport: Transport) -> Benchmark:
    return Benchmark(
        name=f"fleet-{transport}",
        about=f"a fleet over {transport} on stock Salt: ramp-up, memory, CPU, answers",
        run=partial(measure, transport),
        figures=(CONNECTED, READY, MEMORY, RETURN, MISSING, SECONDS, RETRIED, DISCONNECTS),
        minions=3000,
        rounds=1,
        minutes=7,
    )


FLEET_TCP, FLEET_WS = _benchmark("tcp"), _benchmark("ws")
