"""Simulated minions over each of Salt's transports that isn't the default, or filters, against a real master."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from evil_minions import TRANSPORTS, Selection
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.halts import halted, pending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.bed.fleet import Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MINIONS = 30
READY_S = 90.0
SETTLE_S = 60.0
STOP_S = 200.0


# zeromq, of a master and minions with the option `zmq_filtering`
FILTERED = "zeromq-filtering"


@pytest.fixture(scope="module", params=[*TRANSPORTS[1:], FILTERED])
def bed(request: pytest.FixtureRequest, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed whose master speaks one transport."""
    wanted = BedSettings(
        tree=stock,
        folder=tmp_path_factory.mktemp(request.param),
        transport=TRANSPORTS[0] if request.param == FILTERED else request.param,
        minions=MINIONS,
        pillar="none",
        postgres="none",
        api=None,
        # seconds until the master notices that it has to change the key of publications
        master_options={"loop_interval": 1, "zmq_filtering": request.param == FILTERED},
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


def answered(bed: Bed, *target: str) -> set[str]:
    """Return the minions that answer a ping."""
    ping = bed.salt([*target, "test.ping", "--out=txt", "--timeout=15"])
    return {line.removesuffix(": True") for line in ping.stdout.splitlines() if line.endswith(": True")}


def test_keys_are_accepted(bed: Bed, fleet: Fleet) -> None:
    """Every minion has signed in, and holds its two connections."""
    accepted = {path.name for path in (bed.master.pki_dir / "minions").iterdir()}
    assert accepted == set(bed.settings.minion_ids())
    assert fleet.status().connected == MINIONS


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("target", "hit"), [(("*",), 30), (("-L", "minion-00003,minion-00007"), 2), (("-G", "os:*"), 30)]
)
def test_targets(bed: Bed, target: tuple[str, ...], hit: int) -> None:
    """A job reaches whom it is for, whether the master or the minion picks them."""
    assert len(answered(bed, *target)) == hit


def test_others_hear_nothing(bed: Bed, fleet: Fleet) -> None:
    """What the master sends to a list reaches nobody else; over ws, which does not filter, it reaches all."""
    before = fleet.status().counters
    assert answered(bed, "-L", "minion-00003,minion-00007") == {"minion-00003", "minion-00007"}
    after = fleet.status().counters
    heard, published = after.heard - before.heard, after.publications - before.publications
    assert heard == (MINIONS if bed.settings.transport == "ws" else 2) * published


def test_nothing_unforeseen(fleet: Fleet) -> None:
    """No minion has met what a real one would not have met; requests may be repeated, on a busy machine."""
    assert fleet.status().counters.errors == 0


def test_key_rotation(bed: Bed, fleet: Fleet) -> None:
    """When a key is deleted the master changes the key of publications; everybody who hears of it signs in anew."""
    before = fleet.status().counters.auth_ok
    bed.run("salt-key", ["--delete=minion-00003", "--yes"])
    # over tcp the master publishes a glob only to those whose keys it has
    others = set(bed.settings.minion_ids()) - {"minion-00003"}

    def all_signed_in() -> bool:
        return answered(bed, "*") >= others and fleet.status().counters.auth_ok >= before + len(others)

    until(all_signed_in, Deadline(SETTLE_S), lambda: f"Not every minion signed in anew: {fleet.status()}")
    assert fleet.status().counters.errors == 0
    # the one whose key is gone hands it in again when it starts
    one = Selection(None, "minion-00003")
    assert (fleet.control.order("kill", one), fleet.control.order("revive", one)) == (1, 1)
    until(lambda: len(answered(bed, "*")) == MINIONS, Deadline(SETTLE_S), lambda: f"It stays away: {fleet.status()}")


def test_master_restart(bed: Bed, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minions come back to a master that was restarted, and answer it; the bed looks after the others meanwhile."""
    old = bed.master_pid
    # longer than any machine stands still: a master that is killed is one that kept `check` from its work
    monkeypatch.setattr("harness.bed.master.STOP_S", STOP_S)
    with ThreadPoolExecutor(1) as pool:
        with halted(old):
            restart = pool.submit(bed.restart_master)
            until(lambda: pending(old, signal.SIGTERM), Deadline(SETTLE_S), lambda: "Nobody asked the master to stop.")
            # whoever waits for the master's end must not keep those from their work who take samples
            bed.check()
        restart.result()

    def all_back() -> bool:
        return fleet.status().connected == MINIONS and len(answered(bed, "*")) == MINIONS

    until(all_back, Deadline(SETTLE_S), lambda: f"Not every minion came back: {fleet.status()}")
    assert fleet.status().counters.errors == 0
