"""Replay: a fleet that answers what a real minion answered, adapted to each minion and with times of its own.

A recorded answer is a function like any other, so a job takes the same way. Only looking the function up differs, and
only in a fleet with a recording.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from evil_minions.functions import CURRENT, START_SECONDS, Function
from evil_minions.functions.modules import state
from evil_minions.recording import adapt, is_live

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evil_minions.functions import Host
    from evil_minions.recording import Answer, Recording

_STATE_RUNS: Final = frozenset({"state.apply", "state.highstate", "state.sls"})
_PLACEHOLDER: Final = re.compile(r"<(?:secret(?:-\d+)?|PEM|hash)>")
_CLOCK: Final = "%H:%M:%S.%f"
_HALF_DAY: Final = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a fleet replays: every time is multiplied by `slowdown` and a log-normal factor of spread `jitter`."""

    slowdown: float = 1.0
    jitter: float = 0.1

    def factor(self, rng: random.Random) -> float:
        """Return what a time is multiplied by; its median is the slowdown."""
        return self.slowdown * (rng.lognormvariate(0.0, self.jitter) if self.jitter else 1.0)


@dataclass(frozen=True, slots=True)
class Step:
    """A state of a recorded run: the seconds since the state before it ended, and those that it took."""

    pause: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timing:
    """One execution's times: seconds to the return, to each event, and of each state its start and duration.

    `before` are the seconds from the publication to the first state.
    """

    seconds: float
    events: tuple[float, ...]
    before: float
    states: tuple[tuple[float, float], ...]


def _number(entry: dict[str, Any]) -> int:
    return int(entry.get("__run_num__", 0))


def steps(value: Any) -> tuple[Step, ...]:
    """Return the states of a recorded return, in the order in which they ran; nothing for other returns."""
    if not isinstance(value, dict) or not value:
        return ()
    if not all(isinstance(entry, dict) and "start_time" in entry and "duration" in entry for entry in value.values()):
        return ()
    found: list[Step] = []
    end: datetime | None = None
    for entry in sorted(value.values(), key=_number):
        try:
            start, took = datetime.strptime(entry["start_time"], _CLOCK), float(entry["duration"])  # noqa: DTZ007 - a time of day
        except (TypeError, ValueError):
            return ()
        pause = timedelta(0) if end is None else start - end
        if pause < -_HALF_DAY:
            pause += 2 * _HALF_DAY
        found.append(Step(pause.total_seconds(), took / 1000.0))
        end = start + timedelta(milliseconds=took)
    return tuple(found)


def timing(answer: Answer, run: Sequence[Step], pace: Pace, rng: random.Random) -> Timing:
    """Return the times of one execution: each state has a factor of its own, everything around them another one."""
    around = pace.factor(rng)
    times: list[tuple[float, float]] = []
    now = 0.0
    for step in run:
        start = now + step.pause * around
        took = step.seconds * pace.factor(rng)
        times.append((start, took))
        now = start + took
    recorded = sum(step.pause + step.seconds for step in run)
    rest = max(0.0, answer.seconds - recorded) * around
    total = now + rest
    scale = total / answer.seconds if answer.seconds else around
    return Timing(total, tuple(event.at * scale for event in answer.events), rest, tuple(times))


class _Recorded:
    """One recorded answer, taken apart for replay."""

    def __init__(self, answer: Answer, adapter: adapt.Adapter) -> None:
        self.answer = answer
        self.run = steps(answer.value)
        self.value = adapter.template(answer.value, answer.jid)
        self.events = [adapter.template([event.tag, event.data], answer.jid) for event in answer.events]
        self.modules = sorted({str(entry.get("__sls__", "")) for entry in answer.value.values()}) if self.run else []


def _matcher(args: tuple[Any, ...]) -> Callable[[str], bool] | None:
    """Return what recognises arguments whose secrets were masked, or None if nothing was."""
    text = _key(args)
    if not _PLACEHOLDER.search(text):
        return None
    pattern = re.compile(".*".join(map(re.escape, _PLACEHOLDER.split(text))), re.DOTALL)
    return lambda found: pattern.fullmatch(found) is not None


def _key(args: Sequence[Any]) -> str:
    """Return arguments as a text that is equal for equal ones."""
    return json.dumps(list(args), sort_keys=True, default=str)


class Replay:
    """The answers of a recording for the minions of a worker."""

    def __init__(self, recording: Recording, seed: int, pace: Pace) -> None:
        """Take the recording apart once for all minions."""
        self._seed = seed
        self._pace = pace
        self._turns: Counter[str] = Counter()
        self._exact: dict[str, dict[str, Function]] = {}
        self._masked: dict[str, list[tuple[Callable[[str], bool], Function]]] = {}
        adapter = adapt.Adapter(recording.grains)
        self._events = [(event.at, adapter.template([event.tag, event.data])) for event in recording.events]
        groups: dict[tuple[str, str], list[Answer]] = {}
        for answer in recording.answers:
            if not is_live(answer.fun):
                groups.setdefault((answer.fun, _key(answer.args)), []).append(answer)
        for (fun, key), answers in groups.items():
            function = self._function([_Recorded(answer, adapter) for answer in answers])
            self._exact.setdefault(fun, {})[key] = function
            matches = _matcher(answers[0].args)
            if matches is not None:
                self._masked.setdefault(fun, []).append((matches, function))

    @property
    def functions(self) -> frozenset[str]:
        """Return the names of the functions that were recorded."""
        return frozenset(self._exact) | frozenset(self._masked)

    def find(self, name: str, args: Sequence[Any]) -> Function | None:
        """Return what was recorded for a function with these arguments."""
        known = self._exact.get(name)
        if known is None:
            return None
        key = _key(args)
        return known.get(key) or next((found for matches, found in self._masked.get(name, ()) if matches(key)), None)

    def _rng(self, minion: str) -> random.Random:
        """Return the random numbers of a minion's next execution: the same in each run with the same seed and jobs."""
        self._turns[minion] += 1
        return random.Random(f"{self._seed}\0{minion}\0{self._turns[minion]}")  # noqa: S311 - no secret

    def _function(self, recorded: list[_Recorded]) -> Function:
        """Return recorded answers to the same question as one function, which gives a random one of them."""

        async def answer(*_args: object, **keywords: object) -> Any:
            call = CURRENT.get()
            rng = self._rng(call.host.id)
            chosen = recorded[0] if len(recorded) == 1 else rng.choice(recorded)
            begun = asyncio.get_running_loop().time()
            if chosen.answer.fun in _STATE_RUNS:
                conflict = state.conflicts(call)
                if conflict and not keywords.get("concurrent"):
                    call.retcode = state.COMPILE_ERROR
                    return conflict
            times = timing(chosen.answer, chosen.run, self._pace, rng)
            own = adapt.own(call.host.grains(), str(call.load["jid"]))
            due = zip(times.events, chosen.events, strict=True)
            events = asyncio.ensure_future(_fire_all(call.host, due, own, begun))
            try:
                if chosen.run:
                    await state.ask_master(call, chosen.modules, highstate=not call.load["arg"])
                await _sleep_until(begun + times.seconds)
                await events
            finally:
                events.cancel()
            call.retcode, call.out = chosen.answer.retcode, chosen.answer.out
            return _timed(chosen, times, own)

        # the recorded time holds the start of the job
        return Function(answer, "salt.modules.test:ping", seconds=-START_SECONDS)

    async def fire_events(self, host: Host) -> None:
        """Fire the events that belong to no job, as long after the minion's start as they came in the recording."""
        rng = self._rng(host.id)
        factor = self._pace.factor(rng)
        own = adapt.own(host.grains(), "")
        begun = asyncio.get_running_loop().time()
        await _fire_all(host, ((at * factor, template) for at, template in self._events), own, begun)

    @property
    def has_events(self) -> bool:
        """Whether there are events that belong to no job."""
        return bool(self._events)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))


async def _fire_all(host: Host, events: Any, own: Callable[[str], str], begun: float) -> None:
    for at, template in events:
        await _sleep_until(begun + at)
        tag, data = template.fill(own)
        host.fire(tag, data)


def _timed(recorded: _Recorded, times: Timing, own: Callable[[str], str]) -> Any:
    """Return a recorded value for one minion, with the times of this run in its states."""
    value = recorded.value.fill(own)
    if not recorded.run:
        return value
    first = datetime.now().astimezone() - timedelta(seconds=sum(times.states[-1]))
    in_order = sorted(value.values(), key=_number)
    for entry, (start, took) in zip(in_order, times.states, strict=True):
        entry["start_time"] = (first + timedelta(seconds=start)).strftime(_CLOCK)
        entry["duration"] = round(took * 1000.0, 3)
    return value
