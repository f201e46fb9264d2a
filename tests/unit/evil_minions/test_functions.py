"""Functions that talk to the master or end jobs, and what minions send unasked."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions.functions import modules
from evil_minions.functions.modules import FUNCTIONS, mine
from evil_minions.minion.lifecycle import Traffic
from evil_minions.protocol import envelope
from evil_minions.recording import Event, Recording
from evil_minions.recording.replay import Pace, Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Call = Callable[..., Any]
    Host = Any


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mine settle at once."""
    monkeypatch.setattr(mine, "_SETTLE_S", 0.0)


def keyword(**values: object) -> dict[str, object]:
    """Return keywords as a publication holds them."""
    return {**values, "__kwarg__": True}


def test_mine_update_runs_what_the_pillar_names(host: Host, call: Call) -> None:
    """Aliases, arguments and access rules come from the pillar; a function that fails is left out."""
    host.kept = {
        "mine_functions": {
            "test.ping": [],
            "os": {"mine_function": "grains.get", "key": "os"},
            "mine": [{"mine_function": "test.echo"}, "x", {"allow_tgt": "web*"}],
            "test.echo": [],
            "no.such": [],
        }
    }
    assert call(host, "mine.update").value is True
    (load,) = host.loads
    assert load["cmd"] == "_mine"
    assert load["id"] == host.id
    assert load["clear"] is False
    assert load["data"] == {
        "test.ping": True,
        "os": host.grains()["os"],
        "mine": {"__data__": "x", "__saltmine_acl__": 1, "allow_tgt": "web*"},
    }


def test_mine_update_without_functions_sends_nothing(host: Host, call: Call) -> None:
    """A minion whose pillar names none has nothing to give."""
    assert call(host, "mine.update").value is None
    assert host.loads == []


def test_mine_get_leaves_itself_out(host: Host, call: Call) -> None:
    """With exclude_minion the minion's own data are not among the answer."""
    host.answers = [{host.id: 1, "other": 2}]
    assert call(host, "mine.get", "*", "test.ping", keyword(exclude_minion=True)).value == {"other": 2}
    assert host.loads[0]["tgt_type"] == "glob"


def test_files_are_fetched_part_by_part(host: Host, call: Call) -> None:
    """A file's hash is asked for, then parts up to an empty one."""
    host.answers = [{"hsum": "x"}, {"data": "ab", "dest": "f"}, {"data": b"c", "dest": "f"}, {"data": "", "dest": "f"}]
    assert call(host, "cp.get_file_str", "salt://f").value == "abc"
    assert host.asked == ["_file_hash", "_serve_file", "_serve_file", "_serve_file"]


def test_a_file_of_another_environment(host: Host, call: Call) -> None:
    """The environment in a path counts, and is where the file is kept."""
    host.answers = [{"hsum": "x"}, {"data": "", "dest": "a/f"}]
    assert call(host, "cp.cache_file", "salt://a/f?saltenv=dev").value == "/var/cache/salt/minion/files/dev/a/f"


def test_signals_end_jobs_but_not_their_own(host: Host, call: Call) -> None:
    """All other jobs end, each with Salt's sentence."""
    host.jobs.append({**host.jobs[0], "jid": "20261121100000000000", "pid": 7})
    assert call(host, "saltutil.term_all_jobs").value == ["Signal 15 sent to job 20261121100000000000 at pid 7"]
    assert len(host.jobs) == 1
    assert call(host, "saltutil.kill_job", "20261121100000000000").value == ""


def test_events_hold_what_was_asked_for(host: Host, call: Call) -> None:
    """Data win over keywords, and parts of grains and pillar are those named."""
    host.kept = {"a": 1, "b": 2}
    call(host, "event.send", "tag", {"x": 1}, keyword(x=2, with_pillar=["b"], with_grains=["id"]))
    ((tag, data),) = host.fired
    assert tag == "tag"
    assert isinstance(data, dict)
    assert {name: value for name, value in data.items() if not name.startswith("__pub_")} == {
        "x": 1,
        "pillar": {"b": 2},
        "grains": {"id": host.id},
    }


def test_a_beacons_event_comes_in_a_list() -> None:
    """The bus shows a beacon's event bare, because a minion sends those in lists."""
    load = envelope.event("web1", b"t", "salt/beacon/web1/load/", {"1m": 1})
    assert load["events"] == [{"tag": "salt/beacon/web1/load/", "data": {"1m": 1}, "beacon_name": "load"}]
    assert "data" not in load


def sent(host: Host, beacon_seconds: float, replay: Replay | None = None) -> list[tuple[str, object]]:
    """Return what a minion sends in its first moments."""

    async def run() -> None:
        tasks: list[asyncio.Task[Any]] = []

        def spawn(coroutine: Coroutine[Any, Any, Any]) -> None:
            tasks.append(asyncio.ensure_future(coroutine))

        traffic = Traffic(spawn, beacon_seconds, replay)
        traffic.begin(host)
        traffic.begin(host)
        _, waiting = await asyncio.wait(tasks, timeout=0.2) if tasks else (set(), set[asyncio.Task[Any]]())
        for task in waiting:
            task.cancel()

    asyncio.run(run())
    return list(host.fired)


def test_a_minion_without_anything_sends_nothing(host: Host) -> None:
    """No mine, no beacons, no recording: no task."""
    assert sent(host, 0.0) == []
    assert host.loads == []


def test_the_mine_is_filled_at_the_start(host: Host) -> None:
    """A pillar with mine_functions leads to one update."""
    host.kept = {"mine_functions": {"test.ping": []}}
    sent(host, 0.0)
    assert [load["data"] for load in host.loads] == [{"test.ping": True}]


def test_beacons_come_at_their_interval(host: Host) -> None:
    """Events of the beacon `load` come again and again, with the minion's id."""
    found = sent(host, 0.02)
    assert len(found) > 2
    assert {tag for tag, _ in found} == {f"salt/beacon/{host.id}/load/"}


def test_recorded_events_come_once(host: Host) -> None:
    """Events that belong to no job come after the start, once."""
    grains = {"id": "web1", "host": "web1", "ipv4": [], "ipv6": [], "hwaddr_interfaces": {}}
    recording = Recording("web1", "3008.5", "", grains, (), (Event(0.0, "hello/web1", 1),))
    assert sent(host, 0.0, Replay(recording, 1, Pace())) == [(f"hello/{host.id}", 1)]


def test_every_module_of_functions_is_found() -> None:
    """A module in the folder is all that a function needs: the table has it under the name of a module of Salt's."""
    files = {path.stem for path in Path(modules.__path__[0]).glob("[a-z]*.py")}
    assert "test" in files
    for name in files:
        found = importlib.import_module(f"{modules.__name__}.{name}").FUNCTIONS
        assert found
        assert found.items() <= FUNCTIONS.items()


def test_a_function_that_two_modules_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is defined twice is told with both of its modules: one of them is the newcomer's."""
    (tmp_path / "aaa.py").write_text('FUNCTIONS = {"test.ping": None}\n')
    monkeypatch.setattr(modules, "__path__", [*modules.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match=r"take one away of test\.ping \(also in .*\)") as told:
        modules._table()
    assert all(f"{modules.__name__}.{name}" in str(told.value) for name in ("aaa", "test"))
