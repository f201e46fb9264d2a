"""What an idle master costs that has minions connected: CPU of all its processes while nothing happens.

The minions are those of `benchmarks.idle_pump`: a connection to each port, greeted, that answers heartbeats. A sample
is a window of time; windows of stock and ours are the same ones, as both masters idle beside each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from benchmarks import profile
from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.bed import Bed, BedSettings
from harness.paths import ROOT, TREES

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

# longer than the rarest thing that an idle master does by itself, heartbeats every two minutes
WINDOW_S = 125.0
SETTLE_S = 15.0
STOP_S = 30.0
PROFILE_S = 60.0
ROLES = {"publisher": "PubServerChannel", "queue": "MWorkerQueue"}
TOTAL = Figure("total", "idle master, {minions} minions connected", "cores", aim=at_most(0.05))
PARTS = {
    "publisher": Figure("publisher", "of it its publisher", "cores"),
    "queue": Figure("queue", "of it its queue of requests", "cores"),
}
CLOSED = Figure("closed", "connections that it closed although they answered heartbeats", "", aim=at_most(0))


def run(options: Options) -> dict[Figure, Samples]:
    """Connect `options.minions` to each master and watch both for `options.rounds` windows."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        beds = {
            side: stack.enter_context(
                Bed(BedSettings(TREES[tree], Path(folder) / side, pillar="none", postgres="none", api=None))
            )
            for side, tree in (("stock", "stock"), ("ours", "patched"))
        }
        pumps = {
            side: [
                stack.enter_context(_Connections(port, kind, options.minions))
                for port, kind in ((bed.master.publish_port, "publish"), (bed.master.request_port, "request"))
            ]
            for side, bed in beds.items()
        }
        time.sleep(SETTLE_S)
        # both masters are watched at once, so this is one contender
        windows = interleave({"both": lambda _: _window(beds)}, options)["both"]
        for side, bed in beds.items() if options.profile else ():
            with profile.profiled(bed.master_pid, options.output / "profiles" / f"idle-{side}"):
                time.sleep(PROFILE_S)
        closed = {side: float(sum(pump.closed() for pump in found)) for side, found in pumps.items()}
    return {
        TOTAL: Samples(*([sum(one[side].values()) for one in windows] for side in ("ours", "stock"))),
        **{
            figure: Samples(*([one[side].get(ROLES[name], 0.0) for one in windows] for side in ("ours", "stock")))
            for name, figure in PARTS.items()
        },
        CLOSED: Samples([closed["ours"]], [closed["stock"]]),
    }


def _window(beds: dict[str, Bed]) -> dict[str, dict[str, float]]:
    """Return the share of a core that each role of each master used in one window."""
    before = {side: profile.cpu_s(bed.master_pid) for side, bed in beds.items()}
    start = time.monotonic()
    time.sleep(WINDOW_S)
    seconds = time.monotonic() - start
    after = {side: profile.cpu_s(bed.master_pid) for side, bed in beds.items()}
    return {
        side: {role: (used - before[side].get(role, 0.0)) / seconds for role, used in after[side].items()}
        for side in beds
    }


class _Connections:
    """The process that holds connections to one port of a master; a context manager."""

    def __init__(self, port: int, kind: str, count: int) -> None:
        """Start it and wait until all are established."""
        argv = [sys.executable, "-m", "benchmarks.idle_pump", str(port), kind, str(count)]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line or json.loads(line)["connections"] != count:
            self._process.kill()
            self._process.communicate()
            raise BenchmarkError(f"{count} connections to a master's {kind} port failed; the reason stands above.")

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate(timeout=STOP_S)

    def closed(self) -> int:
        """Close the connections; return how many the master had closed before."""
        said, _ = self._process.communicate(timeout=STOP_S)
        if self._process.returncode:
            raise BenchmarkError("What held idle connections failed; the traceback stands above.")
        return int(json.loads(said)["closed"])


IDLE = Benchmark(
    name="idle",
    about="an idle master with minions connected: heartbeats above all",
    run=run,
    figures=(TOTAL, *PARTS.values(), CLOSED),
    minions=10_000,
    rounds=3,
    minutes=9,
)
