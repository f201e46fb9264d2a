"""The timeline of a scenario: how it is read, how it is played, how the report shows it."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from evil_minions import ORDERS, EvilMinionsError
from evil_minions.samples import read_tallies
from harness import report as page
from harness import samples
from harness.errors import SettingsError
from harness.load.timeline import Player
from harness.results import result
from harness.samples import EventSample, KeptReturn
from harness.scenarios import fleet, scenario
from harness.scenarios.timeline import OPTIONS, Event

RUN = Path(__file__).parent / "data" / "run"
SMALL = """
description = "A ping"
minions = 10

[[clients]]
kind = "api"
function = "test.ping"
tgt = "*"
burst = 3
"""
TIMELINE = """
[[timeline]]
at_s = 60
do = "partition"
share = 0.1
for_s = 30

[[timeline]]
at_s = 20
do = "scale"
minions = 4000

[[timeline]]
at_s = 70
do = "kill"
tgt = "G@site:berlin"
tgt_type = "compound"

[[timeline]]
at_s = 80
do = "behaviour"
behaviour = "silent"
name = "nobody speaks"

[[timeline]]
at_s = 85
do = "rotate-keys"
"""


def _load(folder: Path, text: str) -> scenario.Scenario:
    path = folder / "mine.toml"
    path.write_text(SMALL + text)
    return scenario.load(path)


def test_moments_are_read_in_order(tmp_path: Path) -> None:
    """Moments come in order of time, each with a name; a partition for a while brings its heal along."""
    found = _load(tmp_path, TIMELINE)
    assert found.timeline == (
        Event(20.0, "scale", "scale to 4,000", argument=4000),
        Event(60.0, "partition", "partition 10 %", share=0.1),
        Event(70.0, "kill", "kill G@site:berlin", tgt="G@site:berlin", tgt_type="compound"),
        Event(80.0, "behaviour", "nobody speaks", argument="silent"),
        Event(85.0, "rotate-keys", "rotate keys"),
        Event(90.0, "heal", "heal"),
    )
    assert (found.load_s, found.largest) == (90.0, 4000)


def test_requests_to_the_fleet(tmp_path: Path) -> None:
    """Each moment becomes one request to the control socket, with no more in it than the scenario says."""
    requests = [moment.request() for moment in _load(tmp_path, TIMELINE).timeline if not moment.of_master]
    assert requests == [
        {"do": "scale", "minions": 4000},
        {"do": "partition", "share": 0.1},
        {"do": "kill", "tgt": "G@site:berlin", "tgt_type": "compound"},
        {"do": "behaviour", "behaviour": "silent"},
        {"do": "heal"},
    ]


def test_an_order_is_written_down_once() -> None:
    """What an order needs, the timeline asks for; the command line explains it."""
    for order in ORDERS.values():
        argument = (order.argument,) if order.argument else ()
        assert order.name == "network" or OPTIONS[order.name][1] == argument
        assert bool(order.hint) == bool(argument)


def test_an_order_checks_its_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that somebody adds needs no line here: its own check reads what the moment says."""

    def read(value: object) -> object:
        if value == "angry":
            raise EvilMinionsError("No minion is angry.")
        return value

    monkeypatch.setitem(ORDERS, "mood", replace(ORDERS["behaviour"], name="mood", argument="mood", read=read))
    monkeypatch.setitem(OPTIONS, "mood", (("mood", "share"), ("mood",)))
    moment = '[[timeline]]\nat_s = 1\ndo = "mood"\n'
    (calm,) = _load(tmp_path, moment + "share = 0.5\nmood = 3\n").timeline
    assert calm.request() == {"do": "mood", "mood": 3, "share": 0.5}
    with pytest.raises(SettingsError, match=r"`timeline\[1\]\.mood` can't be meant: No minion is angry\.$"):
        _load(tmp_path, moment + 'mood = "angry"\n')
    with pytest.raises(SettingsError, match=r"`timeline\[1\]\.mood` is missing"):
        _load(tmp_path, moment)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('at_s = 1\ndo = "explode"', "`timeline[1].do` is 'explode', but has to be one of scale, kill, "),
        ('do = "kill"', "`timeline[1].at_s` is missing: give it a number."),
        ('at_s = 1\ndo = "scale"', "`timeline[1].minions` is missing: `do = 'scale'` needs it."),
        ('at_s = 1\ndo = "behaviour"', "`timeline[1].behaviour` is missing: `do = 'behaviour'` needs it."),
        ('at_s = 1\ndo = "kill"\nfor_s = 3', "`timeline[1].for_s` is no key here"),
        ('at_s = 1\ndo = "kill"\nshare = 1.5', "`timeline[1].share` is 1.5, but has to be from 0 to 1."),
        ('at_s = 1\ndo = "kill"\nshare = 0.5\ntgt = "*"', "`timeline[1].share` can't stand beside `tgt`"),
        ('at_s = 1\ndo = "kill"\ntgt_type = "pcre"', "`timeline[1].tgt_type` needs a `tgt` beside it."),
    ],
)
def test_wrong_moments(tmp_path: Path, text: str, problem: str) -> None:
    """What is not understood is refused in a sentence that names the key."""
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path, f"[[timeline]]\n{text}\n")
    assert str(caught.value).startswith(f"mine.toml: {problem}")


def test_options_of_the_fleet(tmp_path: Path) -> None:
    """The table `[fleet]` becomes options of its command; files are those beside the scenario."""
    (tmp_path / "own.toml").touch()
    text = """
[fleet]
behaviours = ["slow-tail", "own.toml=10%"]
slowdown = 2
"""
    found = _load(tmp_path, text).fleet
    assert fleet.resolve(found, tmp_path) == (
        "--behaviour=slow-tail",
        f"--behaviour={tmp_path}/own.toml=10%",
        "--slowdown=2",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('behaviors = "x"', "`fleet.behaviors` is no key here; the nearest one is `behaviours`."),
        ("recording = 3", "`fleet.recording` is 3, but has to be a text."),
        ("per_process = true", "`fleet.per_process` is True, but has to be a whole number."),
    ],
)
def test_wrong_options_of_the_fleet(tmp_path: Path, text: str, problem: str) -> None:
    """An option that the fleet lacks, or a value that it can't take, is refused."""
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path, f"[fleet]\n{text}\n")
    assert str(caught.value) == f"mine.toml: {problem}"


def test_missing_file_of_the_fleet(tmp_path: Path) -> None:
    """A file that is named and not there is refused before anything starts."""
    found = _load(tmp_path, '[fleet]\nrecording = "gone.json"\n').fleet
    with pytest.raises(SettingsError, match=r"^`fleet.recording` names a file that is not there: .*/gone.json\.$"):
        fleet.resolve(found, tmp_path)


class Master:
    """Notes what is done to it."""

    def __init__(self, problem: str = "") -> None:
        """Refuse with `problem`, if any."""
        self.done: list[str] = []
        self.problem = problem

    def rotate_keys(self) -> None:
        """Note a rotation."""
        if self.problem:
            raise OSError(self.problem)
        self.done.append("rotate")

    def restart_master(self) -> None:
        """Note a restart."""
        self.done.append("restart")


def _played(moments: list[Event], master: Master, folder: Path) -> tuple[Player, list[dict[str, Any]]]:
    """Play moments whose time has come, and return the player and what the fleet was asked."""
    asked: list[dict[str, Any]] = []

    def ask(request: dict[str, object]) -> dict[str, Any]:
        asked.append(request)
        return {"minions": 7}

    with Player(moments, ask, cast("Any", master), folder, clock=lambda: 1000.0) as player:
        player.start(900.0)
        for thread in player._threads:
            thread.join(30)
        assert player.done
    return player, asked


def test_every_moment_is_played_and_written(tmp_path: Path) -> None:
    """Fleet and master get what the timeline says, in order, and each moment is a sample with its real time."""
    moments = [Event(1, "kill", "a", share=0.5), Event(2, "heal", "b"), Event(3, "rotate-keys", "c")]
    master = Master()
    player, asked = _played([*moments, Event(4, "restart-master", "d")], master, tmp_path)
    assert asked == [{"do": "kill", "share": 0.5}, {"do": "heal"}]
    assert master.done == ["rotate", "restart"]
    rows = {row.name: row for row in samples.read(tmp_path, EventSample)}
    assert {name: (row.do, row.minions, row.at_s, row.time) for name, row in rows.items()} == {
        "a": ("kill", 7, 1.0, 1000.0),
        "b": ("heal", 7, 2.0, 1000.0),
        "c": ("rotate-keys", 0, 3.0, 1000.0),
        "d": ("restart-master", 0, 4.0, 1000.0),
    }
    assert player.problem == ""


def test_a_moment_that_is_refused_is_a_problem(tmp_path: Path) -> None:
    """What can't be done is written down and ends the rest of its way."""
    moments = [Event(1, "rotate-keys", "new keys"), Event(2, "restart-master", "b")]
    master = Master("no such file")
    player, _ = _played(moments, master, tmp_path)
    assert player.problem == "The moment `new keys` of the timeline could not be played: no such file"
    assert [(row.name, row.error) for row in samples.read(tmp_path, EventSample)] == [("new keys", "no such file")]
    assert master.done == []


def test_what_is_not_due_yet_is_skipped_at_the_end(tmp_path: Path) -> None:
    """A run that ends early does not wait for its timeline."""
    with Player([Event(1e6, "heal", "a")], lambda _: {}, cast("Any", Master()), tmp_path) as player:
        player.start(1e10)
        assert not player.done
    assert samples.read(tmp_path, EventSample) == []
    assert threading.active_count() < 10


def test_the_report_shows_every_moment(tmp_path: Path) -> None:
    """Each moment is a marked line with its name on every plot over time, and stands in a list."""
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    for tree in ("stock", "patched"):
        text = (
            "time,at_s,seconds,do,name,minions,error\n1012,2,0.5,kill,kill a few,3,\n1015,5,4,rotate-keys,new keys,0,\n"
        )
        (folder / tree / "samples" / "timeline.csv").write_text(text)
    result.write(result.compute(folder), folder)
    source = page.write(folder).read_text()
    plots = [plot for plot in source.split('<svg class="plot"')[1:] if "> kill a few <" in plot]
    # CPU, memory, returns and minions, of each tree, and the requests of both
    assert len(plots) == 9
    assert source.count("kill a few at 12 s, new keys at 15 s.") == 6
    assert source.count("kill a few at 2 s, new keys at 5 s.") == 4
    row = '<td>2.0 s</td><td class="text">kill a few</td><td class="text">kill</td><td>3</td><td>0.5 s</td>'
    assert source.count(row) == 2
    assert source.count('<td class="text">rotate-keys</td><td>master</td><td>4.0 s</td>') == 2


def test_a_growing_fleet_loses_nothing(tmp_path: Path) -> None:
    """A return of a minion that came after its job was first seen is expected as well."""
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    path = folder / "patched" / "samples"
    jid = next(iter({row.jid for row in samples.read(path, KeptReturn)}))
    before = result.compute(folder).trees["patched"]
    with (path / "fleet" / "returns.0.csv").open("a") as file:
        file.write(f"1013,{jid},test.ping,minion-late,1,1,0.5\n")
    with (path / "fleet" / "tallies.0.csv").open("a") as file:
        number = next(row.number for row in read_tallies(path / "fleet") if row.jid == jid)
        file.write(f"1013,{number},{jid},test.ping,3,3,3,3,0,0\n")
    with (path / "kept.csv").open("a") as file:
        file.write(f"{jid},minion-late\n")
    after = result.compute(folder).trees["patched"]
    assert after["returns_expected"] == before["returns_expected"] + 1
    assert after["returns_lost"] == before["returns_lost"] == 0
