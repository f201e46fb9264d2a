"""Collecting: what a master's event bus shows of one minion becomes answers with times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from evil_minions import recording
from evil_minions.errors import UsageError
from evil_minions.recording import Answer, Event, Recording, is_live, record
from evil_minions.recording.record import Collector

if TYPE_CHECKING:
    from pathlib import Path

JID, LATER = "20261121100000000000", "20261121100000000001"
START = 1795255200.0


def stamp(seconds: float) -> str:
    """Return a time after the start of the recording as events have it."""
    return f"2026-11-21T10:00:{seconds:09.6f}+00:00"


def published(collector: Collector, jid: str, at: float, fun: Any, arg: list[Any]) -> None:
    """Tell of a publication."""
    collector.feed(f"salt/job/{jid}/new", {"fun": fun, "arg": arg, "minions": ["web1"], "_stamp": stamp(at)})


def returned(
    collector: Collector, jid: str, at: float, load: dict[str, Any] | None = None, minion: str = "web1"
) -> None:
    """Tell of a return."""
    collector.feed(f"salt/job/{jid}/ret/{minion}", {"return": True, "retcode": 0, **(load or {}), "_stamp": stamp(at)})


def fired(collector: Collector, at: float, tag: str, data: object, minion: str = "web1") -> None:
    """Tell of an event of a minion."""
    collector.feed(tag, {"cmd": "_minion_event", "id": minion, "tag": tag, "data": data, "_stamp": stamp(at)})


@pytest.fixture
def collector() -> Collector:
    """Return a collector that began at ten o'clock."""
    return Collector("web1", START)


def test_a_job_becomes_an_answer(collector: Collector) -> None:
    """Function, arguments, value, exit code, outputter and time are those of the bus."""
    published(collector, JID, 1.0, "cmd.run", ["false"])
    returned(collector, JID, 1.25, minion="other")
    returned(collector, JID, 1.5, {"return": "text", "retcode": 1, "out": "nested"})
    assert collector.answers == [Answer("cmd.run", ("false",), "text", 1, 0.5, JID, "nested")]
    assert collector.jobs == 1


def test_a_return_without_publication_is_left_out(collector: Collector) -> None:
    """What was published before the recording began has no time."""
    returned(collector, JID, 1.5)
    assert collector.answers == []
    assert collector.jobs == 0


def test_live_functions_are_not_kept(collector: Collector) -> None:
    """What a simulated minion works out itself isn't recorded, and a find_job doesn't end a recording of N jobs."""
    published(collector, JID, 1.0, "pillar.items", [])
    returned(collector, JID, 1.5)
    assert collector.answers == []
    assert collector.jobs == 0
    assert is_live("saltutil.find_job")
    assert not is_live("state.apply")


def test_several_functions_share_the_time(collector: Collector) -> None:
    """A job of several functions becomes an answer for each that returned."""
    published(collector, JID, 1.0, ["test.ping", "no.such"], [[], [2]])
    returned(collector, JID, 2.0, {"return": {"test.ping": True, "no.such": "trace"}, "retcode": {"test.ping": 0}})
    assert [(each.fun, each.args, each.value, each.retcode, each.seconds) for each in collector.answers] == [
        ("test.ping", (), True, 0, 0.5),
        ("no.such", (2,), "trace", 1, 0.5),
    ]


def test_events_belong_to_their_job(collector: Collector) -> None:
    """An event goes to the job whose id its tag has, else to the one that runs, else to none."""
    fired(collector, 0.5, "before", {"a": 1})
    published(collector, JID, 1.0, "state.apply", [])
    published(collector, LATER, 1.5, "cmd.run", ["x"])
    fired(collector, 2.0, f"salt/job/{JID}/prog/web1/0", {"len": 1})
    fired(collector, 2.5, "custom", {"b": 2})
    fired(collector, 2.6, "custom", {}, minion="web2")
    fired(collector, 2.7, f"salt/job/{JID}/start/web1", {})
    fired(collector, 2.8, "minion_start", "x")
    collector.feed("salt/auth", {"id": "web1", "_stamp": stamp(2.9)})
    returned(collector, LATER, 3.0)
    returned(collector, JID, 4.0)
    collector.feed("salt/beacon/web1/load/", {"id": "web1", "1m": 2, "_stamp": stamp(5.0)})
    by_jid = {answer.jid: answer.events for answer in collector.answers}
    assert by_jid[JID] == (Event(1.0, f"salt/job/{JID}/prog/web1/0", {"len": 1}),)
    assert by_jid[LATER] == (Event(1.0, "custom", {"b": 2}),)
    assert collector.events == [
        Event(0.5, "before", {"a": 1}),
        Event(5.0, "salt/beacon/web1/load/", {"id": "web1", "1m": 2}),
    ]


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Nothing is lost on the way through the file."""
    answer = Answer("a.b", (1, {"x": None}), {"ü": [1.5, True]}, 2, 0.5, JID, "highstate", (Event(0.1, "t", [1]),))
    whole = Recording(
        "web1", "3008.5", "2026-11-21T10:00:00+00:00", {"id": "web1"}, (answer,), (Event(3.0, "u", None),)
    )
    path = tmp_path / "file.json"
    path.write_text(whole.to_json(), encoding="utf-8")
    assert recording.load(path) == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no recording"),
        ("[]", "is no recording"),
        ('{"format": 1}', "is no recording"),
        ('{"format": 9}', "has format 9"),
        (None, "can't be read"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    """What is no recording ends with a sentence that says so."""
    path = tmp_path / "file.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=message):
        recording.load(path)


def test_recording_is_for_its_owner_alone(tmp_path: Path) -> None:
    """What a real minion answered may hold secrets that no rule knows, so the file is closed to others."""
    path = tmp_path / "web1.json"
    record.write(recording.Recording("web1", "3008.5", "2026-01-02T03:04:05+00:00", {}, ()), path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert recording.load(path).minion == "web1"
