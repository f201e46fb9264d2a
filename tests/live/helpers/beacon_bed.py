"""A real master, and a real minion in a Debian root, for the tests of the beacon `pkgset`.

A second beacon fires at each of the minion's ticks, so a test counts ticks where it would otherwise have to wait.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.bed import Bed, BedSettings
from tests.live.helpers.apt_repository import Repository
from tests.live.helpers.apt_root import AptRoot, skip_unless_possible
from tests.live.helpers.fleet_bus import Bus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from tests.live.helpers.apt_root import Minion

NAME = "web"
INTERVAL = 2
CHANGED = f"salt/beacon/{NAME}/pkgset/changed"
TICK = f"salt/beacon/{NAME}/tick/"
# a dictionary, as the specification has it
BEACONS = {
    "pkgset": {"interval": INTERVAL},
    "tick": [{"beacon_module": "load"}, {"averages": {span: [0.0, 0.0] for span in ("1m", "5m", "15m")}}],
}
INSTALL = "import saltext.package_states.modules.pkgset as pkgset; pkgset.install_plugin()"


class PackageBed:
    """A master, a minion in a root, and what the one hears of the other."""

    def __init__(self, bed: Bed, root: AptRoot, bus: Bus) -> None:
        """Take the parts."""
        self.bed = bed
        self.root = root
        self.bus = bus
        self.minion: Minion | None = None

    def install_hooks(self) -> None:
        """Install the hook of dpkg, as `pkgset.install_plugin` does."""
        self.root.run(sys.executable, "-c", INSTALL)

    def start(self, **options: Any) -> None:
        """Start the minion and wait until its beacons have looked once."""
        wanted = {"beacons": BEACONS, **options}
        self.minion = self.root.start_minion(NAME, self.bed.master, **wanted)
        self.minion.wait_ready()
        self.pass_ticks(INTERVAL + 2)

    def stop(self) -> None:
        """End the minion at once."""
        assert self.minion
        self.minion.stop()

    def ticks(self) -> int:
        """Return how many ticks of the minion the master has heard of."""
        return len(self.bus.events(tag=TICK))

    def changes(self) -> int:
        """Return how many changes the master has heard of."""
        return len(self.bus.events(tag=CHANGED))

    def pass_ticks(self, count: int) -> None:
        """Wait until the minion has had so many further ticks."""
        end = self.ticks() + count
        self.bus.wait(lambda: self.ticks() >= end, f"{end - self.ticks()} of {count} ticks didn't come")

    def events_after(self, begin: int) -> list[str]:
        """Return the tags of the minion's beacons since the first `begin` ones, in their order."""
        found = [event["tag"] for event in self.bus.events() if event["tag"] in {CHANGED, TICK}]
        return found[begin:]

    def heard(self) -> int:
        """Return how many events of its beacons there were so far."""
        return len(self.events_after(0))

    def do(self, function: str, *arguments: object) -> Any:
        """Let the minion run a function as a job of the master, and return what it returns."""
        jid = self.bus.publish([NAME], function, *arguments)
        return self.bus.returned(jid, 1)[0][1]


@contextmanager
def package_bed(
    root: Path,
    factory: pytest.TempPathFactory,
    **master: Any,
) -> Iterator[PackageBed]:
    """Yield a bed on the patched tree with hooks installed, without a minion yet."""
    skip_unless_possible()
    folder = factory.mktemp("packages")
    repository = Repository.standard(factory.mktemp("repository"))
    settings = BedSettings(
        tree=root / "salt",
        folder=folder,
        master_options={"loop_interval": 1, **master},
        pillar="none",
        postgres="none",
        api=None,
    )
    with AptRoot(root, factory.mktemp("root"), repository) as apt, Bed(settings) as bed:
        bus = Bus(bed, folder / "events")
        found = PackageBed(bed, apt, bus)
        found.install_hooks()
        try:
            yield found
        finally:
            bus.close()
            if found.minion:
                found.stop()
