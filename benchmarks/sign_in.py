"""What it costs a master to accept new minions: from their first request until each of them has its pillar.

Every round has a master of its own, whose keys directory is empty. The minions of `evil_minions` come all at once, as
on the day when a fleet is switched on. Either the master accepts every key by itself, or they wait until somebody
types `salt-key -A`, and only what follows counts: minions ask again every ten seconds. Pillars come from PostgreSQL.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import profile
from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.processes.deadline import Patience, until

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from harness.bed.fleet import Fleet

READY_S: Final = 600
ACCEPT_S: Final = 300
WORKERS: Final = "MWorker"
AUTO_CPU = Figure("auto-cpu", "CPU of the master for each new minion, auto_accept", "ms")
AUTO_WORKERS = Figure("auto-workers", "of it its workers", "ms")
AUTO_WALL = Figure("auto-wall", "{minions} new minions with pillars, auto_accept", "s", aim=at_most(0.45, "ratio"))
KEY_CPU = Figure("key-cpu", "CPU of the master for each minion after salt-key -A", "ms")
KEY_WALL = Figure("key-wall", "{minions} minions with pillars after salt-key -A", "s")
KEY_COMMAND = Figure("key-command", "of it salt-key -A itself", "s")


class Taken(NamedTuple):
    """What it took until every minion had its pillar; `command_s` is what `salt-key` took of it."""

    cpu_ms: float
    workers_ms: float
    wall_s: float
    command_s: float = 0.0


class Admission:
    """The way in to the master of one tree."""

    def __init__(self, tree: str, options: Options, *, auto: bool) -> None:
        """Take what is to be measured; nothing is started before a round."""
        self.tree = tree
        self.options = options
        self.auto = auto

    def round(self, turn: int) -> Taken:
        """Start a master and the fleet; return what it cost until every minion had its pillar."""
        with TemporaryDirectory(prefix="saltbed-") as folder:
            settings = BedSettings(
                tree=TREES[self.tree],
                folder=Path(folder),
                minions=self.options.minions,
                master_options={"auto_accept": self.auto},
                api=None,
            )
            with Bed(settings) as bed:
                if not self.options.profile or turn:
                    return self._take_in(bed)
                way = "auto" if self.auto else "key"
                with profile.profiled(bed.master_pid, self.options.output / "profiles" / f"sign-in-{way}-{self.tree}"):
                    return self._take_in(bed)

    def _take_in(self, bed: Bed) -> Taken:
        took = 0.0
        before, start = profile.cpu_s(bed.master_pid), time.monotonic()
        fleet = bed.start_fleet(minions=self.options.minions)
        if not self.auto:
            self._wait_for_keys(bed, fleet)
            before, start = profile.cpu_s(bed.master_pid), time.monotonic()
            done = bed.salt_key(["--accept-all", "--yes"], timeout=ACCEPT_S)
            if done.returncode:
                raise BenchmarkError(f"salt-key --accept-all failed: {done.stderr.strip()}")
            took = time.monotonic() - start
        fleet.wait_ready(READY_S)
        wall, after = time.monotonic() - start, profile.cpu_s(bed.master_pid)
        used = {role: seconds - before.get(role, 0.0) for role, seconds in after.items()}
        each = 1000 / self.options.minions
        return Taken(sum(used.values()) * each, used.get(WORKERS, 0.0) * each, wall, took)

    def _wait_for_keys(self, bed: Bed, fleet: Fleet) -> None:
        """Wait until every minion has handed in its key."""
        folder = bed.master.pki_dir / "minions_pre"

        def pending() -> int:
            return sum(1 for _ in folder.iterdir()) if folder.exists() else 0

        def all_pending() -> bool:
            fleet.status()
            return pending() >= self.options.minions

        until(
            all_pending,
            Patience(READY_S, pending, least=1),
            lambda: f"{pending():,} of {self.options.minions:,} keys were handed in; see the log of the fleet.",
        )


def run(options: Options) -> dict[Figure, Samples]:
    """Take in `options.minions` both ways on both trees, `options.rounds` times."""
    contenders = {
        f"{tree}-{way}": Admission(tree, options, auto=way == "auto").round
        for way in ("auto", "key")
        for tree in ("stock", "patched")
    }
    found = interleave(contenders, options)

    def samples(way: str, name: str) -> Samples:
        ours, stock = ([getattr(one, name) for one in found[f"{tree}-{way}"]] for tree in ("patched", "stock"))
        return Samples(ours, stock)

    return {
        AUTO_CPU: samples("auto", "cpu_ms"),
        AUTO_WORKERS: samples("auto", "workers_ms"),
        AUTO_WALL: samples("auto", "wall_s"),
        KEY_CPU: samples("key", "cpu_ms"),
        KEY_WALL: samples("key", "wall_s"),
        KEY_COMMAND: samples("key", "command_s"),
    }


SIGN_IN = Benchmark(
    name="sign-in",
    about="new minions whose keys are accepted at once, until each has its pillar",
    run=run,
    figures=(AUTO_CPU, AUTO_WORKERS, AUTO_WALL, KEY_CPU, KEY_WALL, KEY_COMMAND),
    minions=1000,
    rounds=2,
    minutes=9,
)
