"""Ten thousand simulated minions on one machine: whether they get in, stay, rest cheaply, and what their returns cost.

The master is stock Salt without pillars to compile. The returns come in waves of a thousand, because all ten thousand
at once drown it, and what is measured then is the fleet's patience and not its cost. What heartbeats cost meanwhile is
taken off. Every minion hears all ten waves and returns once, so what hearing costs is measured too, by jobs for one.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most, exactly
from benchmarks.fleet import cost_ms, cpu_s
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from benchmarks.options import Options
    from evil_minions import Status
    from harness.bed.fleet import Fleet

READY_LIMIT_S = 1200
HOLD_S = 600
IDLE_S = 30
WAVE_LIMIT_S = 120
WAVE = 1000
HEARD = 20
POLL_S = 2
CONNECTED = Figure("connected", "{minions} minions on stock, all connected", "s")
READY = Figure("ready", "{minions} minions on stock, all ready (no pillars)", "s")
MEMORY = Figure("memory", "memory of a minion, of {minions}", "KB")
IDLE = Figure("idle", "CPU of {minions} idle minions", "cores")
DISCONNECTS = Figure("disconnects", f"disconnects in {HOLD_S // 60} minutes", aim=exactly(0))
LEFT = Figure("left", f"of {{minions}} not connected after {HOLD_S // 60} minutes", aim=exactly(0))
RETURN = Figure("cpu-per-return", f"CPU for each return, in waves of {WAVE:,}", "ms")
HEARD_MS = Figure("cpu-per-heard", "CPU to hear a job for another minion", "ms")
ANSWERED_S = Figure("answered", "until {minions} returns were acknowledged", "s")
UNACKNOWLEDGED = Figure("unacknowledged", "of {minions} returns not acknowledged", aim=exactly(0))
SENDS = Figure("sends-per-return", "sends for each return", "x", aim=at_most(1))


def run(options: Options) -> dict[Figure, Samples]:
    """Start the fleet, hold it for ten minutes from the moment that all are connected, then ask each thousand once."""
    with TemporaryDirectory(prefix="saltbed-") as name:
        folder = Path(name)
        tree = TREES["stock"]
        settings = BedSettings(
            tree=tree, folder=folder, minions=options.minions, pillar="none", postgres="none", api=None
        )
        with Bed(settings) as bed:
            start = time.monotonic()
            fleet = bed.start_fleet()
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
            asked = time.monotonic()
            for wave in range(-(-options.minions // WAVE)):
                _ask(bed, fleet, wave, options)
            after = fleet.status()
            took = time.monotonic() - asked
            heard = _heard_ms(bed, fleet, idle)
    values = {
        CONNECTED: connected[0],
        READY: ready,
        MEMORY: held.kb_per_minion,
        IDLE: idle,
        DISCONNECTS: held.counters.disconnects,
        LEFT: options.minions - held.connected,
        RETURN: cost_ms(held, after, idle * took),
        HEARD_MS: heard,
        ANSWERED_S: took,
        UNACKNOWLEDGED: options.minions - after.counters.returns_acked,
        SENDS: after.counters.return_sends / max(1, after.counters.returns_acked),
    }
    return {figure: Samples([value]) for figure, value in values.items()}


def _heard_ms(bed: Bed, fleet: Fleet, idle: float) -> float:
    """Return the milliseconds of CPU that it costs a minion to hear a publication for another one."""
    before = fleet.status()
    start = time.monotonic()
    for number in range(HEARD):
        bed.salt(["--async", "minion-00000", "test.ping"], timeout=WAVE_LIMIT_S)
        _taken(fleet, before.counters.returns_acked + before.counters.returns_given_up + number + 1)
    after = fleet.status()
    spent = cpu_s(after) - cpu_s(before) - idle * (time.monotonic() - start)
    return spent * 1000 / HEARD / before.connected


def _ask(bed: Bed, fleet: Fleet, wave: int, options: Options) -> None:
    """Have the minions of one wave return, and wait until the master has taken that."""
    wanted = min(options.minions, (wave + 1) * WAVE)
    bed.salt(["--async", f"minion-{wave:02d}*", "test.ping"], timeout=WAVE_LIMIT_S)
    _taken(fleet, wanted)
    options.progress(wanted, options.minions)


def _taken(fleet: Fleet, returns: int) -> None:
    """Wait until the master has taken so many returns of the fleet."""

    def taken() -> bool:
        counters = fleet.status().counters
        return counters.returns_acked + counters.returns_given_up >= returns

    # a status counts all minions, which costs as much as twenty returns
    until(
        taken, Deadline(WAVE_LIMIT_S), lambda: f"{returns} returns weren't taken in time.", lambda _: time.sleep(POLL_S)
    )


FLEET_TEN_THOUSAND = Benchmark(
    name="fleet-ten-thousand",
    about="10,000 minions on stock Salt: getting in, staying for 10 minutes, what it costs",
    run=run,
    figures=(CONNECTED, READY, MEMORY, IDLE, DISCONNECTS, LEFT, RETURN, HEARD_MS, ANSWERED_S, UNACKNOWLEDGED, SENDS),
    minions=10_000,
    rounds=1,
    minutes=25,
)
