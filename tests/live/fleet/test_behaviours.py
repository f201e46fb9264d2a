"""Every preset as the master sees it: one bed, one fleet, and the master's own events."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import psutil
import pytest

from evil_minions import Control, Selection
from evil_minions.samples import DecisionRow, read_samples
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers.fleet_bus import Bus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evil_minions import Status
    from harness.bed.fleet import Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MINIONS = 40
WAITING = 12
READY = MINIONS - WAITING
SECONDS = 120.0
KEYS = {"pending": 4, "denied": 4, "rejected": 4}


@pytest.fixture(scope="module")
def bed(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed whose master accepts some of the fleet's keys."""
    settings = BedSettings(
        tree=stock,
        folder=tmp_path_factory.mktemp("behaviours"),
        minions=MINIONS,
        keys="pending=10%,denied=10%,rejected=10%",
        master_options={"loop_interval": 1},
        pillar="none",
        postgres="none",
        api=None,
    )
    with Bed(settings) as found:
        yield found


@pytest.fixture(scope="module")
def bus(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """Yield the master's events, from before the fleet's start."""
    found = Bus(bed, tmp_path_factory.mktemp("bus") / "events")
    yield found
    found.close()


@pytest.fixture(scope="module")
def fleet(bed: Bed, bus: Bus) -> Iterator[Fleet]:
    """Start a fleet of three workers, whose sign-ins have a slow pace."""
    assert bus.process.poll() is None
    fleet = bed.start_fleet(extra=["--per-process", "10", "--auth-rate", "30", "--behaviour", "plain"])
    fleet.wait_ready(SECONDS)
    yield fleet
    fleet.stop()


@pytest.fixture(scope="module")
def ready(bed: Bed, bus: Bus, fleet: Fleet) -> Iterator[str]:
    """Return the ids of minions that are ready, each only once."""
    assert bus.process.poll() is None
    waiting = {name for names in keys(bed).values() for name in names}
    assert fleet.minions == MINIONS
    return iter([name for name in bed.settings.minion_ids() if name not in waiting])


def keys(bed: Bed) -> dict[str, list[str]]:
    """Return the keys that the master doesn't accept, as salt-key lists them."""
    listed = json.loads(bed.run("salt-key", ["--list-all", "--out=json"]).stdout)
    names = {"pending": "minions_pre", "denied": "minions_denied", "rejected": "minions_rejected"}
    return {state: listed[name] for state, name in names.items()}


def take(ready: Iterator[str], control: Control, behaviour: str, count: int = 2) -> list[str]:
    """Return some fresh minions that behave so."""
    chosen = list(itertools.islice(ready, count))
    assert control.order("behaviour", Selection(tgt=chosen, tgt_type="list"), behaviour=behaviour) == count
    return chosen


@pytest.fixture(scope="module", autouse=True)
def first(bed: Bed, fleet: Fleet) -> tuple[Status, dict[str, list[str]]]:
    """Return what the fleet and the master said before anything was changed."""

    def settled() -> bool:
        status = fleet.status()
        return {name: getattr(status, name) for name in KEYS} == KEYS

    until(settled, Deadline(SECONDS), lambda: f"the fleet has {fleet.status()}")
    return fleet.status(), keys(bed)


def all_ready(fleet: Fleet) -> bool:
    """Say whether everybody whose key is accepted is ready."""
    status = fleet.status()
    return status.ready == status.expected


def test_key_states(first: tuple[Status, dict[str, list[str]]]) -> None:
    """The master has as many keys in each state as was asked for, and the fleet reports the same."""
    status, listed = first
    assert {state: len(names) for state, names in listed.items()} == KEYS
    assert (status.ready, status.expected, status.minions) == (READY, READY, MINIONS)


def test_answers_of_presets(bus: Bus, fleet: Fleet, ready: Iterator[str]) -> None:
    """One job: duplicates come three times, big returns whole, silent and dying minions don't come, nor find_job."""
    control = fleet.control
    twice, big = take(ready, control, "duplicate-returns"), take(ready, control, "big-returns")
    silent, dying = take(ready, control, "silent"), take(ready, control, "dying-in-mid-job")
    everybody = [*twice, *big, *silent, *dying]
    jid = bus.publish(everybody, "test.ping")
    found = bus.returned(jid, 8)
    assert sorted(found) == sorted([*((name, True) for name in twice * 3), *((name, 1_000_000) for name in big)])
    bus.wait(lambda: control.status().dead == 2, "nobody died")
    poll = bus.publish(everybody, "saltutil.find_job", jid)
    assert sorted(bus.returned(poll, 4)) == sorted((name, {}) for name in (*twice, *big))
    assert bus.returns(jid) == found
    # revived, and healthy again: what was missing was their doing
    assert control.order("behaviour", Selection(tgt=everybody, tgt_type="list"), behaviour="plain") == 8
    assert control.order("revive") == 2
    bus.wait(lambda: all_ready(fleet), "the dead don't come back")
    again = bus.publish(everybody, "test.ping")
    assert sorted(bus.returned(again, 8)) == sorted((name, True) for name in everybody)


def test_delays_of_presets(bed: Bed, bus: Bus, fleet: Fleet, ready: Iterator[str]) -> None:
    """Returns reach the master in the order of the delays that were drawn, where these are well apart."""
    names = {kind: take(ready, fleet.control, kind, 3) for kind in ("fast", "realistic", "slow-tail")}
    everybody = [name for group in names.values() for name in group]
    compared = 0
    # who is late by how much depends on which minions and which jobs these are: not every six jobs have somebody late
    for _ in range(10):
        jids = [bus.publish(everybody, "test.ping") for _ in range(6)]
        for jid in jids:
            bus.returned(jid, 8)
        fleet.control.flush()
        jobs = _planned(bed, everybody)[-6:]
        assert {seconds for draws in jobs for seconds, name in draws if name in names["fast"]} == {0.0}
        for jid, draws in zip(jids, jobs, strict=True):
            late = [name for seconds, name in draws if 1.5 < seconds < 15]
            bus.returned(jid, sum(seconds < 15 for seconds, _ in draws))
            arrived = [name for name, _ in bus.returns(jid)]
            for name in late:
                compared += 1
                assert max(arrived.index(fast) for fast in names["fast"]) < arrived.index(name)
        if compared:
            break
    assert compared > 0


def _planned(bed: Bed, minions: list[str]) -> list[list[tuple[float, str]]]:
    """Return the delays that minions have drawn for each ping, in the order of the jobs."""
    planned: dict[int, list[tuple[float, str]]] = {}
    for row in read_samples(bed.samples / "fleet", DecisionRow):
        if row.minion in minions and row.what.startswith("test.ping#"):
            planned.setdefault(int(row.what.partition("#")[2]), []).append((row.seconds, row.minion))
    return [draws for _, draws in sorted(planned.items())]


def test_hyperactive(bus: Bus, fleet: Fleet, ready: Iterator[str]) -> None:
    """The master's bus is full of the events of hyperactive minions, and of no others."""
    chosen = take(ready, fleet.control, "hyperactive")
    bus.wait(lambda: len(tags(bus)) > 60, "no events")
    assert {tag.split("/")[2] for tag in tags(bus)} == set(chosen)
    fleet.control.order("behaviour", Selection(tgt=chosen, tgt_type="list"), behaviour="plain")


def tags(bus: Bus) -> list[str]:
    """Return the tags of all beacon events."""
    return [event["tag"] for event in bus.events() if event["tag"].startswith("salt/beacon/")]


def test_minion_queue(bus: Bus, fleet: Fleet, ready: Iterator[str]) -> None:
    """With two jobs running, the third one and polling wait in the minion's queue; elsewhere they don't."""
    chosen = [*take(ready, fleet.control, "minion-queue", 1), *take(ready, fleet.control, "plain", 1)]
    sleeps = [bus.publish(chosen, "test.sleep", 4) for _ in range(2)]
    ping = bus.publish(chosen, "test.ping")
    bus.returned(ping, 2)
    answered = [(event["id"], event["jid"]) for event in bus.events() if event["tag"].startswith("salt/job/")]
    slow, quick = ([jid for who, jid in answered if who == name] for name in chosen)
    assert set(sleeps) & set(slow[: slow.index(ping)])
    assert not set(sleeps) & set(quick[: quick.index(ping)])


def test_flapping(bed: Bed, bus: Bus, fleet: Fleet, ready: Iterator[str]) -> None:
    """The master loses the connections of flapping minions, and has them back later."""
    until(lambda: fleet.status().connected >= READY, Deadline(SECONDS), lambda: "not all are connected")
    chosen = take(ready, fleet.control, "flapping", 2)
    seen: set[int] = set()

    def lost_and_found() -> bool:
        seen.add(subscribers(bed))
        return max(seen) - min(seen) >= 1 and subscribers(bed) == max(seen)

    bus.wait(lost_and_found, f"the master always had the same connections: {seen}")
    assert fleet.status().counters.disconnects >= 1
    fleet.control.order("behaviour", Selection(tgt=chosen, tgt_type="list"), behaviour="plain")
    until(lambda: fleet.status().partitioned == 0, Deadline(SECONDS), lambda: "the minions don't come back")


def subscribers(bed: Bed) -> int:
    """Return how many connections to its publish port the master has."""
    found = psutil.net_connections("tcp4")
    return sum(
        1 for one in found if one.status == "ESTABLISHED" and one.laddr and one.laddr.port == bed.master.publish_port
    )


def test_start_storm(bus: Bus, fleet: Fleet, bed: Bed) -> None:
    """Minions of a storm sign in before those that keep to the fleet's pace, though they were asked last."""
    until(lambda: all_ready(fleet), Deadline(SECONDS), lambda: "not all are ready")
    accepted = sorted(set(bed.settings.minion_ids()) - {name for names in keys(bed).values() for name in names})
    storm, calm = accepted[-8:], accepted[:8]
    fleet.control.order("kill", Selection(tgt=[*storm, *calm], tgt_type="list"))
    fleet.control.order("behaviour", Selection(tgt=storm, tgt_type="list"), behaviour="start-storm")
    before = len(bus.events(act="accept"))
    assert fleet.control.order("revive", Selection(tgt=calm, tgt_type="list")) == 8
    assert fleet.control.order("revive", Selection(tgt=storm, tgt_type="list")) == 8
    bus.wait(lambda: len(bus.events(act="accept")) >= before + 16, "not all sign in")
    order = [event["id"] for event in bus.events(act="accept")[before:]]
    last = order.index(calm[-1])
    assert sum(order.index(name) < last for name in storm) >= 6, order


def test_partition_and_heal(bus: Bus, fleet: Fleet, bed: Bed) -> None:
    """Nothing of minions that are cut off reaches the master; once healed they answer, old jobs included."""
    until(lambda: all_ready(fleet), Deadline(SECONDS), lambda: "not all are ready")
    accepted = sorted(set(bed.settings.minion_ids()) - {name for names in keys(bed).values() for name in names})
    cut, others = accepted[:5], accepted[5:10]
    both = Selection(tgt=[*cut, *others], tgt_type="list")
    assert fleet.control.order("behaviour", both, behaviour="plain") == 10
    assert fleet.control.order("partition", Selection(tgt=cut, tgt_type="list")) == 5
    assert fleet.status().partitioned == 5
    jid = bus.publish([*cut, *others], "test.ping")
    assert {name for name, _ in bus.returned(jid, 5)} == set(others)
    poll = bus.publish([*cut, *others], "saltutil.find_job", jid)
    assert {name for name, _ in bus.returned(poll, 5)} == set(others)
    assert fleet.control.order("heal") == 5
    assert {name for name, _ in bus.returned(jid, 10)} == {*cut, *others}


def test_accepted_keys(bed: Bed, fleet: Fleet) -> None:
    """Minions whose pending keys a person accepts get ready, as real ones do."""
    before = fleet.status().expected
    bed.run("salt-key", ["--accept-all", "--yes"])
    until(lambda: fleet.status().pending == 0, Deadline(SECONDS), lambda: "some still wait")
    until(lambda: fleet.status().ready == before + 4, Deadline(SECONDS), lambda: f"{fleet.status().ready} are ready")
    assert fleet.status().counters.errors == 0


def test_new_key_of_the_master(bed: Bed, bus: Bus, fleet: Fleet) -> None:
    """When the master changes its key, a killed one and a pending one are no matter, and all others sign in anew."""
    before = fleet.status().counters.auth_ok
    accepted = set(bed.settings.minion_ids()) - {name for names in keys(bed).values() for name in names}
    gone = min(accepted)
    bed.run("salt-key", [f"--delete={gone}", "--yes"])
    rest = sorted(accepted - {gone})

    def renewed() -> bool:
        jid = bus.publish(rest, "test.ping")
        bus.returned(jid, len(rest))
        return fleet.status().counters.auth_ok - before >= len(rest)

    bus.wait(renewed, "the minions haven't signed in anew")


def test_seeded_run_repeats_itself(bed: Bed, bus: Bus) -> None:
    """Two runs of a fleet with the same seed decide the same for the same jobs; one with another seed doesn't."""

    def run(name: str, seed: int) -> list[tuple[str, float, str, str]]:
        extra = ["--behaviour", "realistic=50%", "--behaviour", "slow-tail=25%", f"--seed={seed}", "--first=500"]
        # the keys that the master knows for these ids
        (bed.samples / name).mkdir()
        (bed.samples / name / "keys").symlink_to(bed.samples / "fleet" / "keys")
        fleet = bed.start_fleet(8, extra, name=name)
        fleet.wait_ready(SECONDS)
        names = [f"minion-{number:05d}" for number in range(500, 508)]
        for fun in ("test.ping", "grains.items", "test.ping"):
            bus.publish(names, fun)

        def decided() -> list[tuple[str, float, str, str]]:
            fleet.control.flush()
            rows = (row for row in read_samples(bed.samples / name, DecisionRow) if "find_job" not in row.what)
            return sorted((row.what, row.seconds, row.minion, row.rule) for row in rows)

        bus.wait(lambda: len(decided()) == 6 * 3, "the jobs don't run")
        found = decided()
        fleet.stop()
        return found

    first = run("first", 7)
    assert run("again", 7) == first
    assert run("other", 8) != first
