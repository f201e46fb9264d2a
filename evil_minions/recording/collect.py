"""Collecting: from a master's event bus to what one minion answered.

A pure state machine: events go in one by one with the master's own time stamps, answers come out. It works with any
real minion over any transport, as the bus shows the same of each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from evil_minions.recording.recording import Answer, Event

if TYPE_CHECKING:
    from collections.abc import Mapping

LIVE: Final = ("grains.*", "pillar.*", "mine.*", "cp.*", "saltutil.*", "test.sleep")
"""Functions whose answer depends on the moment or on the master: simulated minions work these out themselves."""

_JOB: Final = re.compile(r"salt/job/(\d+)/(new|ret|start)(?:/(.+))?")
# what a simulated minion sends by itself
_OWN_START: Final = ("minion_start", "salt/minion/*/start", "salt/job/*/start/*", "minion/refresh/*")
_SENT: Final = "_minion_event"


def is_live(fun: str) -> bool:
    """Return whether a function is answered by the simulated minion rather than from a recording."""
    return any(fnmatchcase(fun, pattern) for pattern in LIVE)


def seconds(stamp: str) -> float:
    """Return the time of an event's stamp in seconds since the epoch."""
    return datetime.fromisoformat(stamp if stamp[-6:-5] in {"+", "-"} else f"{stamp}+00:00").timestamp()


@dataclass(slots=True)
class _Job:
    """A job that was published and hasn't returned."""

    since: float
    fun: Any
    args: list[Any]
    events: list[Event] = field(default_factory=list)


class Collector:
    """What one minion answered so far; `jobs` counts the jobs among its `answers`."""

    def __init__(self, minion: str, since: float) -> None:
        """Begin at a time in seconds since the epoch, from which events that belong to no job count."""
        self.jobs = 0
        self.answers: list[Answer] = []
        self.events: list[Event] = []
        self._minion = minion
        self._since = since
        self._jobs: dict[str, _Job] = {}

    def feed(self, tag: str, data: Mapping[str, Any]) -> None:
        """Take one event of the master's bus."""
        if "_stamp" not in data:
            return
        at = seconds(data["_stamp"])
        found = _JOB.fullmatch(tag)
        if found and found[2] == "new":
            self._jobs[found[1]] = _Job(at, data["fun"], list(data["arg"]))
        elif found and found[2] == "ret":
            if found[3] == self._minion:
                self._returned(found[1], data, at)
        elif self._mine(tag, data) and not any(fnmatchcase(tag, pattern) for pattern in _OWN_START):
            sent = data.get("data") if data.get("cmd") == _SENT else data
            if isinstance(sent, dict):
                sent = {name: value for name, value in sent.items() if name != "_stamp"}
            self._fired(tag, sent, at)

    def _mine(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Return whether the minion fired an event itself."""
        if tag.startswith(f"salt/beacon/{self._minion}/"):
            return True
        return data.get("id") == self._minion and data.get("cmd") == _SENT

    def _fired(self, tag: str, data: Any, at: float) -> None:
        """Keep an event with the job that it names, or else the one that began last and still runs."""
        named = next((jid for jid in self._jobs if jid in tag), None)
        running = [jid for jid, job in self._jobs.items() if self._kept(job)]
        jid = named or (running[-1] if running else None)
        if jid is None:
            self.events.append(Event(round(max(0.0, at - self._since), 6), tag, data))
        else:
            job = self._jobs[jid]
            job.events.append(Event(round(max(0.0, at - job.since), 6), tag, data))

    @staticmethod
    def _kept(job: _Job) -> bool:
        """Return whether any function of a job gets into the recording."""
        return not all(is_live(fun) for fun in ([job.fun] if isinstance(job.fun, str) else job.fun))

    def _returned(self, jid: str, data: Mapping[str, Any], at: float) -> None:
        """Make answers of a return; one whose publication nobody saw has no time, and is left out."""
        job = self._jobs.pop(jid, None)
        if job is None:
            return
        self.jobs += self._kept(job)
        took = round(max(0.0, at - job.since), 6)
        whole = Answer(
            "", (), data["return"], 0, took, jid, data.get("out"), tuple(sorted(job.events, key=lambda event: event.at))
        )
        if isinstance(job.fun, str):
            parts = [replace(whole, fun=job.fun, args=tuple(job.args), retcode=int(data.get("retcode", 0)))]
        else:
            parts = self._several(job, data, whole)
        self.answers += [part for part in parts if not is_live(part.fun)]

    @staticmethod
    def _several(job: _Job, data: Mapping[str, Any], whole: Answer) -> list[Answer]:
        """Take the return of several functions apart: equal shares of the time, events with the first."""
        share = round(whole.seconds / len(job.fun), 6)
        return [
            replace(
                whole,
                fun=fun,
                args=tuple(args),
                value=data["return"].get(fun),
                retcode=int(data["retcode"].get(fun, 1)),
                seconds=share,
                out=None,
                events=() if number else whole.events,
            )
            for number, (fun, args) in enumerate(zip(job.fun, job.args, strict=False))
            if fun in data["return"]
        ]
