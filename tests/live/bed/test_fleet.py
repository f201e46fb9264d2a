"""Simulated minions in a bed: started, ready, answering, and gone with their samples left behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from evil_minions.samples import ReturnRow, StartRow, read_samples
from harness import samples
from harness.bed import Bed, BedSettings
from harness.errors import SettingsError, StartError
from harness.processes.deadline import Deadline, until
from harness.samples import ProcessSample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live
MINIONS = 20


@pytest.fixture(scope="module")
def bed(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed for simulated minions."""
    settings = BedSettings(tree=stock, folder=tmp_path_factory.mktemp("bed"), minions=MINIONS, api=None)
    with Bed(settings) as found:
        yield found


def test_fleet_from_start_to_stop(bed: Bed) -> None:
    """A fleet becomes ready, answers Salt's own command, and leaves complete samples in the bed's folder."""
    fleet = bed.start_fleet()
    seen: list[int] = []
    status = fleet.wait_ready(60, lambda state: seen.append(state.ready))
    assert (status.ready, seen[-1]) == (MINIONS, MINIONS)
    answers = json.loads(bed.salt(["*", "test.ping", "--out=json", "--static"]).stdout)
    assert answers == dict.fromkeys(bed.settings.minion_ids(), True)
    fleet.stop()
    folder = bed.samples / "fleet"
    assert len(list(read_samples(folder, StartRow))) == MINIONS
    assert {row.minion for row in read_samples(folder, ReturnRow) if row.fun == "test.ping"} == set(answers)


def test_second_fleet(bed: Bed) -> None:
    """Another fleet, of other minions, has a name and a folder of its own, and a role in the samples."""
    fleet = bed.start_fleet(3, ["--first=100"], name="more")
    fleet.wait_ready(60)
    assert fleet.folder.resolve() == bed.samples / "more"
    answers = json.loads(bed.salt(["minion-001*", "test.ping", "--out=json", "--static"]).stdout)
    assert sorted(answers) == ["minion-00100", "minion-00101", "minion-00102"]
    until(
        lambda: "fleet" in {sample.role for sample in samples.read(bed.samples, ProcessSample)},
        Deadline(10),
        lambda: "no samples",
    )
    with pytest.raises(StartError, match=r"^This bed has a fleet 'more' already: give the other one another name\.$"):
        bed.start_fleet(3, name="more")
    fleet.stop()


def test_wrong_option(bed: Bed) -> None:
    """A fleet that ends at once is reported with what it printed."""
    with pytest.raises(StartError, match=r"^wrong ended with exit code 2 at .*; the last lines of .* are:\n"):
        bed.start_fleet(3, ["--no-such-option"], name="wrong")


def test_not_ready_in_time(bed: Bed) -> None:
    """A fleet that is not ready in time is reported with how far it got."""
    fleet = bed.start_fleet(3, ["--first=200"], name="late")
    try:
        with pytest.raises(StartError, match=r"^Of 3 simulated minions \d are ready after 0 s"):
            fleet.wait_ready(0)
    finally:
        fleet.stop()


def test_too_many_minions(bed: Bed) -> None:
    """More minions than descriptors are refused before they start."""
    with pytest.raises(SettingsError, match="open files in one process of the master"):
        bed.start_fleet(10_000_000, name="many")
