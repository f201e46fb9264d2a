"""Replay: recorded answers at recorded times, with chance that can be repeated."""

from __future__ import annotations

import asyncio
import random
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions import recording
from evil_minions.errors import UsageError
from evil_minions.fleet import supervisor
from evil_minions.functions import MODULE_KINDS, job
from evil_minions.recording import Answer, Event, Recording, adapt, replay
from evil_minions.recording.replay import Pace, Replay, Step, steps, timing
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[..., job.Result]
    Host = Any

GRAINS = {"id": "web1", "host": "web1", "ipv4": [], "ipv6": [], "hwaddr_interfaces": {}}
LOAD: dict[str, Any] = {
    "jid": "20990101000000000000",
    "arg": [],
    "fun": "a.b",
    "tgt": "*",
    "tgt_type": "glob",
    "ret": "",
}


def entry(number: int, start: str, duration: float) -> dict[str, Any]:
    """Return what one state returned."""
    return {"__run_num__": number, "start_time": start, "duration": duration, "result": True, "__sls__": "site"}


RUN = {
    "test_|-b_|-b_|-nop": entry(1, "00:00:00.250000", 500.0),
    "test_|-a_|-a_|-nop": entry(0, "23:59:59.900000", 100.0),
}
STATES = Answer(
    "state.apply", (), RUN, 0, 2.0, "20261121100000000000", "highstate", (Event(1.0, "said/web1", {"n": 1}),)
)


def answers(*found: Answer, seed: int = 1, pace: Pace | None = None, events: tuple[Event, ...] = ()) -> Replay:
    """Return the replay of some answers, at once if no pace is given."""
    whole = Recording("web1", "3008.5", "2026-11-21T10:00:00+00:00", GRAINS, found, events)
    return Replay(whole, seed, pace or Pace(0.0, 0.0))


def answer(fun: str, *args: object, value: object = True, seconds: float = 1.0, retcode: int = 0) -> Answer:
    """Return an answer."""
    return Answer(fun, args, value, retcode, seconds, "20261121100000000000", "nested" if retcode else None)


def test_recorded_functions_are_known(tmp_path: Path) -> None:
    """A fleet knows the functions of its recording beside its own; whatever else is asked for is told with a guess."""
    path = tmp_path / "web1.json"
    found = (answer("web.restart"), STATES)
    path.write_text(Recording("web1", "3008.5", "2026-11-21T10:00:00+00:00", GRAINS, found, ()).to_json())
    settings = fleets.settings(tmp_path, 1, recording=path)
    with pytest.raises(UsageError) as told:
        supervisor.check_fleet(settings, ["web.restart", "state.apply", "test.ping", "test.pnig", "zzz"])
    start = "The simulated minions do not know the function"
    near, none = str(told.value).splitlines()
    assert near == f"{start} test.pnig: did you mean test.ping?"
    assert none.startswith(f"{start} zzz: record it on a real minion")


def test_steps_are_in_order_and_pass_midnight() -> None:
    """States are told in the order in which they ran, with the pauses between them."""
    found = steps(RUN)
    assert [step.seconds for step in found] == [0.1, 0.5]
    assert [step.pause for step in found] == pytest.approx([0.0, 0.25])


@pytest.mark.parametrize(
    "value", [True, {}, {"a": 1}, {"a": {"start_time": "x", "duration": 1}}, {"a": {"start_time": "10:00:00.0"}}]
)
def test_other_returns_have_no_steps(value: object) -> None:
    """What isn't the return of states is one piece."""
    assert steps(value) == ()


def test_times_without_chance_are_the_recorded_ones() -> None:
    """At slowdown 1 and without jitter everything takes what it took; twice as slow, twice as long."""
    rng = random.Random(1)  # noqa: S311 - no secret
    exact = timing(STATES, steps(RUN), Pace(1.0, 0.0), rng)
    assert exact.seconds == pytest.approx(2.0)
    assert exact.events == pytest.approx((1.0,))
    assert [time for state in exact.states for time in state] == pytest.approx([0.0, 0.1, 0.35, 0.5])
    slow = timing(STATES, steps(RUN), Pace(2.0, 0.0), rng)
    assert slow.seconds == pytest.approx(4.0)
    assert slow.events == pytest.approx((2.0,))
    assert [time for state in slow.states for time in state] == pytest.approx([0.0, 0.2, 0.7, 1.0])


def test_times_by_chance_are_spread_around_the_recorded_ones() -> None:
    """The medians of a thousand minions are the recorded times, and the spread is the one asked for."""
    rng = random.Random(1)  # noqa: S311 - no secret
    plans = [timing(STATES, steps(RUN), Pace(1.0, 0.1), rng) for _ in range(1000)]
    assert statistics.median(each.seconds for each in plans) == pytest.approx(2.0, rel=0.02)
    assert statistics.median(each.states[1][1] for each in plans) == pytest.approx(0.5, rel=0.02)
    spread = statistics.stdev(each.states[1][1] for each in plans) / 0.5
    assert spread == pytest.approx(0.1, rel=0.1)


def test_chance_repeats_for_a_seed_and_minion() -> None:
    """The same seed gives each minion the same sequence; another seed or minion another one."""

    def drawn(seed: int, minion: str) -> list[float]:
        whole = answers(answer("a.b"), seed=seed)
        return [whole._rng(minion).random() for _ in range(3)]

    assert drawn(1, "a") == drawn(1, "a")
    assert len({tuple(drawn(1, "a")), tuple(drawn(2, "a")), tuple(drawn(1, "b"))}) == 3
    assert len(set(drawn(1, "a"))) == 3


def test_value_exit_code_and_outputter_are_the_recorded_ones(host: Host, call: Call) -> None:
    """An answer comes as it was, for this minion."""
    host.replay = answers(answer("a.b", 1, value={"on": "web1"}, retcode=3))
    assert call(host, "a.b", 1) == job.Result({"on": "minion-00001"}, 3, "nested")


def test_other_arguments_fall_back(host: Host, call: Call) -> None:
    """What wasn't recorded is answered by the simulated function, or isn't available."""
    host.replay = answers(answer("test.echo", "x", value="recorded"), answer("a.b"))
    assert call(host, "test.echo", "x").value == "recorded"
    assert call(host, "test.echo", "y").value == "y"
    assert call(host, "a.b", 2).value == "'a.b' is not available."
    assert call(host, "test.ping").value is True


def test_masked_arguments_match_whatever_was_masked(host: Host, call: Call) -> None:
    """A secret in an argument was masked, so any text in its place is recognised."""
    host.replay = answers(answer("test.echo", "a <secret-1> b", {"k": "<PEM>"}, value="recorded"))
    assert call(host, "test.echo", "a hunter2 b", {"k": "x"}).value == "recorded"
    assert call(host, "test.echo", "a hunter2 c", {"k": "x"}).value != "recorded"


def test_live_functions_are_never_replayed(host: Host, call: Call) -> None:
    """Grains, pillars and running jobs are answered from what is, even if a file says something else."""
    host.replay = answers(answer("grains.get", "id", value="recorded"))
    assert call(host, "grains.get", "id").value == "minion-00001"


def test_one_of_several_samples_is_chosen(host: Host, call: Call) -> None:
    """What was recorded several times comes back in all its variety."""
    host.replay = answers(*(answer("a.b", value=number) for number in range(3)))
    assert {call(host, "a.b").value for _ in range(50)} == {0, 1, 2}


def test_states_ask_the_master_and_fire_events(host: Host, call: Call) -> None:
    """A replayed state run costs the master what a run costs, and fires its events with this minion's name."""
    host.replay = answers(STATES)
    outcome = call(host, "state.apply")
    assert set(outcome.value) == set(RUN)
    assert [value["duration"] for value in outcome.value.values()] == [0.0, 0.0]
    assert host.fired == [("said/minion-00001", {"n": 1})]
    assert host.asked[:2] == ["_master_opts", "_pillar"]
    assert host.asked.count("_file_list") == len(MODULE_KINDS) + 1
    assert "_file_hash" in host.asked
    assert "_master_tops" in host.asked


def test_states_do_not_run_twice_at_once(host: Host, call: Call) -> None:
    """A second state run is refused in the words of a minion, as without a recording."""
    host.replay = answers(STATES)
    host.jobs = [{"fun": "state.apply", "pid": 7, "jid": "20261121100000000000"}]
    outcome = call(host, "state.apply")
    assert outcome.retcode == 1
    assert "is running as PID 7" in outcome.value[0]


def test_the_recorded_time_includes_the_start(host: Host) -> None:
    """A replayed job has no other delay than the recorded one."""
    assert job.start_delay(LOAD, host.rng, answers(answer("a.b"))) == 0.0


def test_events_without_a_job_come_after_the_start(host: Host) -> None:
    """They are fired in their order, each with this minion's name."""
    whole = answers(events=(Event(0.1, "one/web1", 1), Event(0.2, "two", {"id": "web1"})))
    assert whole.has_events
    asyncio.run(whole.fire_events(host))
    assert host.fired == [("one/minion-00001", 1), ("two", {"id": "minion-00001"})]


def test_times_of_states_are_those_of_this_run(host: Host) -> None:
    """Durations are the planned ones, and each start follows the one before."""
    recorded = replay._Recorded(STATES, adapt.Adapter(GRAINS))
    times = timing(STATES, recorded.run, Pace(1.0, 0.0), random.Random(1))  # noqa: S311 - no secret
    value = replay._timed(recorded, times, adapt.own(host.grains(), ""))
    assert value["test_|-b_|-b_|-nop"]["duration"] == 500.0
    again = steps(value)
    assert [step.pause for step in again] == pytest.approx([0.0, 0.25], abs=1e-5)
    assert isinstance(again[0], Step)


def test_the_shipped_recording_replays(host: Host) -> None:
    """The example is a highstate of 24 states that any minion can answer with."""
    path = Path(recording.__file__).parent.parent / "data" / "recording.json"
    example = recording.load(path)
    whole = Replay(example, 1, Pace(0.0, 0.0))
    assert whole.find("state.highstate", []) is not None
    (answer,) = [each for each in example.answers if each.fun == "state.highstate"]
    assert len(steps(answer.value)) == len(answer.value) == 24
    value = replay._Recorded(answer, adapt.Adapter(example.grains)).value.fill(adapt.own(host.grains(), "1"))
    assert "web1" not in str(value)
    assert str(value).count(host.id) > 2
