"""Commands that wait while others ask: on stock and patched each has all answers, whatever of the bus it is sent."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers import event_bus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.bed.fleet import Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MINIONS = 20
READY_S = 90.0
# a job that lasts longer than its command waits before it asks after it
SLOW = ["*", "test.sleep", "12", "--timeout=4"]
# one that asks nothing while there is no bus, when a publication would be refused
LASTING = ["*", "test.sleep", "15", "--timeout=60"]
QUICK = ["*", "test.ping", "--timeout=40"]


@pytest.fixture(scope="module", params=["stock", "patched"])
def bed(
    request: pytest.FixtureRequest, root: Path, stock: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    """Yield a master of a tree, with minions."""
    tree = stock if request.param == "stock" else root / "salt"
    folder = tmp_path_factory.mktemp(request.param)
    wanted = BedSettings(
        tree,
        folder,
        minions=MINIONS,
        pillar="none",
        postgres="none",
        api=None,
        # on a busy machine the answers to that may be late
        master_options={"gather_job_timeout": 40},
    )
    with Bed(wanted) as found:
        yield found


@pytest.fixture(scope="module")
def fleet(bed: Bed) -> Iterator[Fleet]:
    """Yield the minions, ready."""
    fleet = bed.start_fleet()
    fleet.wait_ready(READY_S)
    yield fleet
    fleet.stop()


def answers(bed: Bed, words: list[str]) -> list[str]:
    """Return what `salt` says of each minion, sorted."""
    said = bed.salt([*words, "--out=txt"])
    assert said.returncode == 0, said.stdout + said.stderr
    return sorted(said.stdout.splitlines())


def everybody(bed: Bed) -> list[str]:
    """Return what `salt` says of a job that all minions have done."""
    return [f"{minion}: True" for minion in bed.settings.minion_ids()]


def test_slow_jobs_while_others_ask(bed: Bed, fleet: Fleet) -> None:
    """Commands that ask after their jobs hear the answers to that, and to their jobs, and nobody else's."""
    before = fleet.status().counters.find_jobs
    with ThreadPoolExecutor(5) as pool:
        slow = [pool.submit(answers, bed, SLOW) for _ in range(2)]
        quick = [pool.submit(answers, bed, QUICK) for _ in range(6)]
        assert [one.result() for one in [*slow, *quick]] == [everybody(bed)] * 8
    # each of the two asked at least once, and all minions
    assert fleet.status().counters.find_jobs >= before + 2 * MINIONS


# on stock no other bus ever starts, and the master is deaf from then on
@pytest.mark.parametrize("bed", ["patched"], indirect=True)
def test_the_bus_is_restarted_while_a_command_waits(bed: Bed, fleet: Fleet) -> None:
    """The command is connected again, tells the new bus what it wants, and hears the answers of after that."""
    published = fleet.status().counters.publications
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(answers, bed, LASTING)
        until(lambda: fleet.status().counters.publications > published, Deadline(60), lambda: "nothing was published")
        (pid,) = event_bus.buses(bed)
        os.kill(pid, signal.SIGKILL)
        until(lambda: event_bus.buses(bed) not in ([], [pid]), Deadline(60), lambda: "the bus was not started again")
        assert slow.result() == everybody(bed)
