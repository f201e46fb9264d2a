"""The statuses of every simulated minion in queries: stopped ones, ones without cached grains, and the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evil_minions.fleet.orders import Selection
from harness.bed import Bed, BedSettings
from tests.live.helpers.query_rows import grains_are_cached, query

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def check_statuses(bed: Bed, fleet_ids: list[str], stopped: set[str], bare: set[str]) -> None:
    """Check each minion's cells: what it is asked for, and what the cache has of it."""
    rows = {row[0][1]: row[1:] for row in query(bed, "node", "name,key_state,alive,mfree,os,mtotal,nope")}
    assert set(rows) == set(fleet_ids)
    for minion in fleet_ids:
        state, alive, free, system, memory, unknown = rows[minion]
        assert (state, unknown) == ([0, "accepted"], [1, None])
        assert alive == [0, minion not in stopped], minion
        assert free[0] == (4 if minion in stopped else 0), (minion, free)
        assert system[0] == memory[0] == (2 if minion in bare else 0), (minion, system, memory)
        assert all(value is None for status, value in rows[minion] if status)


def take_away(bed: Bed, ids: list[str], stop: int, bare: int) -> tuple[set[str], set[str]]:
    """Stop some of the fleet's minions and take away the grains of others; return both."""
    stopped, without = set(ids[1 : stop + 1]), set(ids[stop - bare // 2 + 1 : stop + bare - bare // 2 + 1])
    for minion in without:
        (bed.master.cache_dir / "grains" / f"{minion}.p").unlink()
    return stopped, without


def statuses(root: Path, folder: Path, count: int) -> None:
    """Check the statuses on a bed of its own with so many minions."""
    settings = BedSettings(tree=root / "salt", folder=folder, minions=count, pillar="none", postgres="none", api=None)
    with Bed(settings) as bed:
        fleet = bed.start_fleet()
        fleet.wait_ready(300)
        ids = settings.minion_ids()
        grains_are_cached(bed, count)
        stopped, bare = take_away(bed, ids, count // 10, count // 20)
        assert fleet.control.order("kill", Selection(tgt=sorted(stopped), tgt_type="list")) == count // 10
        check_statuses(bed, ids, stopped, bare)


def test_statuses(root: Path, tmp_path: Path) -> None:
    """Of 100 minions 10 are stopped and 5 have no cached grains."""
    statuses(root, tmp_path, 100)


@pytest.mark.long
def test_statuses_of_a_thousand(root: Path, tmp_path: Path) -> None:
    """Of 1,000 minions 100 are stopped and 50 have no cached grains."""
    statuses(root, tmp_path, 1000)
