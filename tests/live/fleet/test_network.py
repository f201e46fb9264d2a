"""Simulated minions behind simulated networks, over each transport, and their sockets beside a real one's."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evil_minions import TRANSPORTS, Selection
from evil_minions.samples import ReturnRow, read_samples
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers import real_minion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.bed.fleet import Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MINIONS = 12
READY_S = 90.0
REAL = "real-00000"
# seconds of a round trip, of a third of the fleet each
NEAR_S, FAR_S = 0.2, 0.8
KEEPALIVE = 2
IDLE_S = 300.0
TICKS = 100.0


@pytest.fixture(scope="module", params=TRANSPORTS)
def bed(request: pytest.FixtureRequest, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed whose master speaks one transport."""
    wanted = BedSettings(
        tree=stock,
        folder=tmp_path_factory.mktemp(request.param),
        transport=request.param,
        minions=MINIONS,
        pillar="none",
        postgres="none",
        api=None,
    )
    with Bed(wanted) as found:
        yield found


@pytest.fixture(scope="module")
def fleet(bed: Bed) -> Iterator[Fleet]:
    """Yield minions of whom a third is beside the master, a third not far, and a third far away."""
    extra = [f"--network=rtt_ms={seconds * 1000:g} share=33.34%" for seconds in (NEAR_S, FAR_S)]
    fleet = bed.start_fleet(extra=extra)
    fleet.wait_ready(READY_S)
    yield fleet
    fleet.stop()


def times(bed: Bed, fleet: Fleet) -> dict[str, float]:
    """Return the seconds from a return's first send to its acknowledgement, by minion."""
    before = len(list(read_samples(fleet.folder, ReturnRow)))
    bed.salt(["minion-*", "test.ping", "--out=quiet", "--timeout=20"])

    def pings() -> list[ReturnRow]:
        return [row for row in list(read_samples(fleet.folder, ReturnRow))[before:] if row.fun == "test.ping"]

    def complete() -> bool:
        fleet.control.flush()
        return len(pings()) >= MINIONS

    until(complete, Deadline(READY_S), lambda: "the returns aren't written")
    return {row.minion: row.seconds for row in pings()}


@pytest.fixture(scope="module", autouse=True)
def first_times(bed: Bed, fleet: Fleet) -> list[float]:
    """Return the seconds of the networks that the fleet began with, the shortest first."""
    return sorted(times(bed, fleet).values())


def test_round_trips(bed: Bed, fleet: Fleet, first_times: list[float]) -> None:
    """An acknowledgement takes the network's round trip at least, and those far away wait longest."""
    found = first_times
    beside, near, far = found[:4], found[4:8], found[8:]
    # over ws each request has a connection of its own: one round trip more for it, and one for its handshake
    trips = 3 if bed.settings.transport == "ws" else 1
    assert min(near) >= trips * NEAR_S
    assert min(far) >= trips * FAR_S
    assert statistics.median(far) - statistics.median(near) >= trips * (FAR_S - NEAR_S) / 2
    assert statistics.median(beside) < statistics.median(near)
    assert fleet.status().counters.errors == 0


def test_network_that_gets_worse(bed: Bed, fleet: Fleet) -> None:
    """A running fleet is put behind another network, cut off meanwhile, and comes back; nobody signs in anew."""
    before = fleet.status().counters
    one = Selection(None, "minion-00005")
    assert fleet.control.order("network", one, path={"rtt_ms": 1500.0}) == 1
    assert times(bed, fleet)["minion-00005"] >= 1.5
    assert fleet.control.order("partition", one) == 1
    assert fleet.control.order("network", one, path={"rtt_ms": 0.0}) == 1
    assert fleet.control.order("heal") == 1
    assert times(bed, fleet)["minion-00005"] < 1.5
    after = fleet.status().counters
    assert (after.auth_ok, after.errors) == (before.auth_ok, 0)


def test_losses_lose_nothing(bed: Bed, fleet: Fleet) -> None:
    """Over a network that loses a fifth of all packets everything comes, later."""
    lossy = {"rtt_ms": 40.0, "jitter_ms": 20.0, "loss": 0.2, "bandwidth_mbit": 1.0}
    assert fleet.control.order("network", path=lossy) == MINIONS
    found = times(bed, fleet)
    assert len(found) == MINIONS
    assert fleet.status().counters.errors == 0


def descendants(pid: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from descendants(int(child))


def timers(pid: int) -> dict[int, set[tuple[int, bool]]]:
    """Return by the peer's port which timers the idle connections of a process have: kind, and whether within 300 s."""
    sockets = set()
    for each in descendants(pid):
        for link in Path(f"/proc/{each}/fd").iterdir():
            try:
                sockets.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    found: dict[int, set[tuple[int, bool]]] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, peer, state, _, timer, _, _, _, inode, *_ = line.split()
        if inode in sockets and state == "01":
            kind, when = timer.split(":")
            within = 0.0 < int(when, 16) / TICKS <= IDLE_S
            found.setdefault(int(peer.split(":")[1], 16), set()).add((int(kind, 16), within))
    return found


def test_keepalive_is_a_real_minions(bed: Bed, fleet: Fleet) -> None:
    """Sockets have the keepalive that a real minion's have, or none where it has none."""
    real = real_minion.start(bed, REAL)
    ports = {bed.master.request_port, bed.master.publish_port}

    seen: dict[str, dict[int, set[tuple[int, bool]]]] = {}

    def idle() -> bool:
        # what is compared is what was looked at here: a moment later something may be sent again
        seen.update(real=timers(real.pid), simulated=timers(fleet.process.pid))
        # a timer of another kind: something is being sent
        kinds = {kind for found in seen.values() for each in found.values() for kind, _ in each}
        return kinds <= {0, KEEPALIVE} and bed.master.publish_port in seen["real"]

    until(idle, Deadline(READY_S), lambda: f"the connections aren't idle: {seen}")
    expected = {port: found for port, found in seen["real"].items() if port in ports}
    simulated = {port: found for port, found in seen["simulated"].items() if port in ports}
    assert bed.master.publish_port in expected
    assert {port: simulated[port] for port in expected} == expected
    if bed.settings.transport != "ws":
        assert set(simulated) == ports
        assert all(found == {(KEEPALIVE, True)} for found in simulated.values())
