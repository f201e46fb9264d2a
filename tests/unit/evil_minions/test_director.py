"""Behaviours carried out, on a clock that the test moves: what minions send, and that a run repeats itself."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions.behaviour import HEALTHY
from evil_minions.fleet import worker
from evil_minions.inventory.targets import Target
from evil_minions.minion.publication import Publication
from evil_minions.minion.runtime import Phase
from evil_minions.rng import Assignment
from evil_minions.samples import DecisionRow, read_samples, read_tallies
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from evil_minions.minion.minion import Minion

MIXED = """
description = "everything at once"
[[rules]]
name = "slow"
function = "test.*"
weight = 3
delay = { median = 2.0, sigma = 1.0 }
[[rules]]
name = "broken"
function = "test.*"
share = 0.5
delay = { samples = [0.1, 0.5, 4.0] }
returns = { error = "no", retcode = 7 }
[[rules]]
name = "noise"
every = { seconds = 3, jitter = 3 }
sends = { tag = "noise/{id}" }
"""


class Mouth:
    """A request channel that keeps what is sent, with the time, and has it acknowledged at once."""

    linked = True

    def __init__(self, clock: Any, sent: list[tuple[float, str, dict[str, Any]]]) -> None:
        """Begin with nothing said."""
        self.clock = clock
        self.sent = sent

    def submit(self, request: Any) -> None:
        """Keep a request, and acknowledge it."""
        self.sent.append((self.clock.now, request.load["id"], request.load))
        request.attempts = 1
        request.done(request, True)

    def close(self, *, reset: bool = False) -> None:
        """Hang up."""


class Ears:
    """A subscription that is there."""

    linked = True

    def close(self, *, reset: bool = False) -> None:
        """Hang up."""


class SmallFleet:
    """A worker's minions without a network, all ready."""

    def __init__(self, folder: Path, clock: Any, behaviour: str, minions: int, seed: int = 1) -> None:
        """Make them."""
        self.clock = clock
        folder.mkdir(exist_ok=True)
        given = fleets.settings(
            folder, minions, seed=seed, behaviours=(Assignment(behaviour, 1.0),), whole=(0, minions)
        )
        self.set, self.ramp = worker.make(given, clock)
        self.set.populate()
        self.shared = self.set.shared
        self.minions = self.set.minions
        self.restarted: list[tuple[int, Phase]] = []
        self.shared.lifecycle.restart = lambda minion, _seconds, phase: self.restarted.append((minion.index, phase))
        self.sent: list[tuple[float, str, dict[str, Any]]] = []
        self.jobs = 0
        for minion in self.minions:
            self.connect(minion)
            minion.phase = Phase.READY
            self.shared.lifecycle.on_ready(minion)

    def connect(self, minion: Minion) -> None:
        """Have a minion signed in, and connected to the test."""
        minion.aes = "some key"
        minion.channel = Mouth(self.clock, self.sent)  # type: ignore[assignment]
        minion.subscription = Ears()  # type: ignore[assignment]

    def publish(self, fun: str, arg: list[Any] | None = None, order: list[int] | None = None, **more: object) -> str:
        """Publish a job to all, in some order, with more in its load; return its id."""
        self.jobs += 1
        minions = self.minions
        load = {"fun": fun, "arg": arg or [], "jid": str(self.jobs), "tgt": "*", "tgt_type": "glob", "ret": "", **more}
        publication = Publication(load, self.jobs, b"\1" * len(minions))
        publication.tally.number = self.jobs
        self.shared.publications._on_new(publication)
        for index in order or range(len(minions)):
            minions[index]._accept(publication)
        return publication.jid

    def returns(self, jid: str) -> list[tuple[float, str, object]]:
        """Return when which minion sent what for a job."""
        return [
            (at, name, load["return"])
            for at, name, load in self.sent
            if load["cmd"] == "_return" and load["jid"] == jid
        ]


@pytest.fixture
def make(tmp_path: Path, clock: Any, key_folder: Path) -> Callable[..., SmallFleet]:
    """Return what makes minions with a behaviour."""

    def made(behaviour: str, minions: int = 1, seed: int = 1, name: str = "fleet", at: Any = clock) -> SmallFleet:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "keys").symlink_to(key_folder / "keys")
        return SmallFleet(folder, at, behaviour, minions, seed)

    return made


@pytest.mark.slow
def test_seeded_run_repeats_itself(make: Callable[..., SmallFleet], tmp_path: Path, clock: Any) -> None:
    """The same seed gives the same decisions and the same order of returns, whatever a slow master adds in between."""
    path = tmp_path / "mixed.toml"
    path.write_text(MIXED)

    def run(name: str, seed: int, polls: int, shuffle: int) -> tuple[list[Any], list[Any]]:
        own = type(clock)()
        fleet = make(str(path), 40, seed, name, own)
        order = list(range(40))
        random.Random(shuffle).shuffle(order)  # noqa: S311 - no secret
        events: list[object] = []
        for fun in ("test.ping", "test.echo", "test.ping"):
            jid = fleet.publish(fun, ["x"] if fun == "test.echo" else [], order)
            for _ in range(polls):
                fleet.publish("saltutil.find_job", [jid])
            began = own.now
            own.advance(60.0)
            events += [(round(at - began, 9), minion, value) for at, minion, value in fleet.returns(jid)]
        fleet.shared.journal.flush()
        decisions = sorted(
            (row.minion, row.what, row.rule, row.seconds, row.returns)
            for row in read_samples(tmp_path / name, DecisionRow)
            if "find_job" not in row.what
        )
        noise = [(at, minion) for at, minion, load in fleet.sent if load.get("tag", "").startswith("noise/")]
        return decisions, [*events, *noise]

    first = run("one", 1, polls=0, shuffle=1)
    assert run("two", 1, polls=3, shuffle=2) == first
    assert run("three", 2, polls=0, shuffle=1) != first
    assert len(first[0]) > 40 * 3
    assert len({event[1] for event in first[1]}) == 40


def test_duplicates(make: Callable[..., SmallFleet], clock: Any) -> None:
    """A return is sent three times, and counted once."""
    fleet = make("duplicate-returns", 3)
    jid = fleet.publish("test.ping")
    clock.advance(10)
    found = fleet.returns(jid)
    assert sorted(name for _, name, _ in found) == sorted(minion.id for minion in fleet.minions for _ in range(3))
    assert {value for _, _, value in found} == {True}
    counters = fleet.shared.runtime.counters
    assert (counters.returns, counters.returns_acked, counters.return_copies) == (3, 3, 6)


def test_silent(make: Callable[..., SmallFleet], clock: Any) -> None:
    """A silent minion answers nothing, polling included, and its jobs don't pile up."""
    fleet = make("silent", 2)
    jids = [fleet.publish("test.ping"), fleet.publish("saltutil.find_job", ["1"])]
    clock.advance(100)
    assert [fleet.returns(jid) for jid in jids] == [[], []]
    assert [minion.busy() for minion in fleet.minions] == [0, 0]


def test_dying(make: Callable[..., SmallFleet], clock: Any) -> None:
    """A minion that dies in mid-job runs it until then, sends nothing, and is dead."""
    fleet = make("dying-in-mid-job", 2)
    jid = fleet.publish("test.ping")
    clock.advance(0.4)
    poll = fleet.publish("saltutil.find_job", [jid])
    assert [minion.phase for minion in fleet.minions] == [Phase.READY] * 2
    clock.advance(10)
    assert [minion.phase for minion in fleet.minions] == [Phase.DEAD] * 2
    assert fleet.returns(jid) == []
    assert all(value for _, _, value in fleet.returns(poll))
    assert fleet.set.counts()["dead"] == 2


def test_big(make: Callable[..., SmallFleet], clock: Any) -> None:
    """A big answer has the size asked for, for each of several functions as well."""
    fleet = make("big-returns")
    jid = fleet.publish("test.ping")
    clock.advance(1)
    assert len(str(fleet.returns(jid)[0][2])) == 1_000_000


def test_job_queue_of_the_minion(make: Callable[..., SmallFleet], clock: Any, tmp_path: Path) -> None:
    """Jobs above the bound wait in their order, are found as waiting, and start when a process is free."""
    path = tmp_path / "queue.toml"
    path.write_text(
        "description = 'x'\n[jobs]\nprocess_count_max = 2\n"
        "[[rules]]\nname = 'slow'\nfunction = 'test.ping'\ndelay = 5\n"
    )
    fleet = make(str(path))
    jids = [fleet.publish("test.ping") for _ in range(5)]
    minion = fleet.minions[0]
    assert (minion.busy(), [data["jid"] for data in minion.queued()]) == (2, jids[2:])
    # what the master marks so does not wait, as on a real minion
    asked = fleet.publish("test.echo", ["now"], __ignore_process_count_max=True)
    assert minion.busy() == 3
    assert minion.queued()[0] | {"pid": 0, "queued": True, "queue_type": "job_queue"} == minion.queued()[0]
    clock.advance(30)
    at = [fleet.returns(jid)[0][0] for jid in jids]
    assert at[:2] == [5.0, 5.0]
    assert fleet.returns(asked)[0][0] < 1
    assert all(10.0 <= second <= 10.3 for second in at[2:4])
    assert 15.0 <= at[4] <= 15.5
    assert minion.queued() == []


def _tally(fleet: SmallFleet, folder: Path, jid: str) -> tuple[int, ...]:
    """Return what the samples say of a job: targeted, reached, returns, acknowledged, given up, ended."""
    fleet.shared.journal.flush()
    (row,) = (row for row in read_tallies(folder / "fleet") if row.jid == jid)
    return row.targeted, row.reached, row.returns, row.acknowledged, row.given_up, row.ended


def test_what_became_of_a_job(make: Callable[..., SmallFleet], clock: Any, tmp_path: Path) -> None:
    """While a job runs its minions are at work; it ends with a return each, and the last row says so."""
    path = tmp_path / "slow.toml"
    path.write_text("description = 'x'\n[[rules]]\nname = 'slow'\ndelay = 8\n")
    fleet = make(str(path), 3)
    jid = fleet.publish("test.ping")
    clock.advance(5)
    assert fleet.set.counts()["executing"] == 3
    assert _tally(fleet, tmp_path, jid) == (3, 3, 0, 0, 0, 0)
    fleet.set.kill(fleet.minions[:1])
    clock.advance(5)
    assert fleet.set.counts()["executing"] == 0
    assert _tally(fleet, tmp_path, jid) == (3, 3, 2, 2, 0, 1)


def test_jobs_without_a_return_are_counted(make: Callable[..., SmallFleet], clock: Any, tmp_path: Path) -> None:
    """A silent minion, and one that was told to stop a job, have ended it; nobody waits for them any longer."""
    fleet = make("silent", 2)
    jid = fleet.publish("test.ping")
    clock.advance(100)
    assert _tally(fleet, tmp_path, jid) == (2, 2, 0, 0, 0, 2)
    assert fleet.set.counts()["executing"] == 0


def test_a_queue_of_a_dead_minion_is_not_at_work(make: Callable[..., SmallFleet], tmp_path: Path) -> None:
    """Jobs that wait on a minion are at work until it dies; then nothing comes of them."""
    path = tmp_path / "queue.toml"
    path.write_text("description = 'x'\n[jobs]\nprocess_count_max = 1\n[[rules]]\nname = 'slow'\ndelay = 5\n")
    fleet = make(str(path))
    jids = [fleet.publish("test.ping") for _ in range(3)]
    assert fleet.set.counts()["executing"] == 3
    fleet.set.kill(fleet.minions)
    assert fleet.set.counts()["executing"] == 0
    assert [_tally(fleet, tmp_path, jid) for jid in jids] == [
        (1, 1, 0, 0, 0, 1),
        (1, 1, 0, 0, 0, 0),
        (1, 1, 0, 0, 0, 0),
    ]


def test_minions_that_the_master_does_not_know(make: Callable[..., SmallFleet], tmp_path: Path) -> None:
    """Who never signed in is not among the targeted, unless the job reaches it."""
    fleet = make("plain", 3)
    for minion in fleet.minions[1:]:
        minion.aes = ""
    jid = fleet.publish("test.ping", order=[1])
    assert _tally(fleet, tmp_path, jid)[:2] == (2, 1)


def test_error_and_switch(make: Callable[..., SmallFleet], clock: Any, tmp_path: Path) -> None:
    """An error has its text and exit code; after it the minion behaves as the rule says."""
    path = tmp_path / "once.toml"
    path.write_text(
        """
description = "x"
[[rules]]
name = "once"
function = "test.*"
returns = { error = "disk full", retcode = 7 }
next = { behaviour = "plain" }
"""
    )
    fleet = make(str(path))
    first, second = fleet.publish("test.ping"), None
    clock.advance(1)
    second = fleet.publish("test.ping")
    clock.advance(1)
    loads = {load["jid"]: load for _, _, load in fleet.sent}
    assert (loads[first]["return"], loads[first]["retcode"], loads[first]["success"]) == ("ERROR: disk full", 7, False)
    assert loads[second]["return"] is True


def test_exit_code_of_the_normal_answer(make: Callable[..., SmallFleet], clock: Any, tmp_path: Path) -> None:
    """The normal answer may come with another exit code, and the minion may restart after it."""
    path = tmp_path / "code.toml"
    path.write_text(
        "description = 'x'\n[[rules]]\nname = 'a'\nreturns = { retcode = 3 }\nnext = { restart = { seconds = 2 } }\n"
    )
    fleet = make(str(path))
    fleet.publish("test.ping")
    clock.advance(1)
    load = fleet.sent[-1][2]
    assert (load["return"], load["retcode"], load["success"]) == (True, 3, False)
    assert fleet.restarted == [(0, Phase.IDLE)]


def test_timers_stop_with_their_behaviour(make: Callable[..., SmallFleet], clock: Any) -> None:
    """A hyperactive minion sends ten events about every second, until it behaves otherwise or dies."""
    fleet = make("hyperactive", 2)
    clock.advance(7)
    loads = [load for _, name, load in fleet.sent if name == "minion-00000" and "events" in load]
    tags = [event["tag"] for load in loads for event in load["events"]]
    assert 40 <= len(tags) <= 140
    assert set(tags) == {"salt/beacon/minion-00000/hyperactive/"}
    fleet.shared.lifecycle.assign(fleet.minions[:1], "plain")
    fleet.set.kill(fleet.minions[1:])
    before = len(fleet.sent)
    clock.advance(5)
    assert len(fleet.sent) == before


def test_no_behaviour_no_decisions(tmp_path: Path, clock: Any, key_folder: Path) -> None:
    """A fleet without behaviours has no file of decisions, and every job has the plan of a healthy minion."""
    (tmp_path / "keys").symlink_to(key_folder / "keys")
    minion_set, _ = worker.make(fleets.settings(tmp_path, 3), clock)
    minion_set.populate()
    assert len(minion_set.minions) == 3
    job = Publication({"fun": "test.ping", "arg": [], "jid": "1"}, 1, b"\1" * 3)
    assert {minion_set.shared.director.plan(minion, job) for minion in minion_set.minions} == {HEALTHY}
    assert list(tmp_path.glob("decisions.*")) == []


def test_scaled_up_minions_behave_too(
    make: Callable[..., SmallFleet],
    clock: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Minions that are added later get the behaviour that the fleet started with."""
    fleet = make("silent", 2)

    monkeypatch.setattr(fleet.ramp, "bring_up", lambda _minions: None)
    assert fleet.set.scale(5) == 3
    assert sum(fleet.shared.inventory.targets.select(Target("*"))) == 5
    for minion in fleet.minions[2:]:
        fleet.connect(minion)
    jid = fleet.publish("test.ping")
    clock.advance(5)
    assert fleet.returns(jid) == []
    assert fleet.set.scale(1) == 4
    assert len(fleet.set.here()) == 1


@pytest.mark.parametrize("behaviour", ["plain", "slow-tail"])
def test_a_publication_enters_no_room_twice(
    make: Callable[..., SmallFleet],
    clock: Any,
    master: Any,
    root: Path,
    behaviour: str,
) -> None:
    """From a publication to its return a minion asks each other room once; values that they gave are only looked at."""
    fleet = make(behaviour)
    minion = fleet.minions[0]
    assert fleet.shared.keys.master.accepts(master.public)
    minion.aes = master.aes
    load = {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "jid": "1", "ret": ""}
    frame = master.publish(load, 1)
    package = root / "evil_minions"
    values = tuple(f"{name}." for name in ("Plan", "Delay", "Lognormal", "Measured", "Reply", "Sequel", "Rule"))
    entered: list[str] = []

    def note(frame: FrameType, event: str, _arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(package) and not frame.f_code.co_qualname.startswith(values):
            room, *inside = path.relative_to(package).parts
            if inside and room not in {"minion", "samples"} and entered[-1:] != [room]:
                entered.append(room)

    sys.setprofile(note)
    try:
        minion.on_publication(frame)
        clock.advance(200)
    finally:
        sys.setprofile(None)
    assert fleet.returns("1")
    page = (root / "docs" / "architecture.md").read_text()
    assert ["minion", *entered] == re.findall(r"^\| \d \| (\w+) \|", page, re.MULTILINE)
