"""The life of minions beside their jobs: restarts, the timers of their behaviours, and what comes after a job.

Each minion that has any of it has one task; a minion without has nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from evil_minions import defaults
from evil_minions.behaviour import DIE, DISCONNECT, RESTART, SWITCH, Plan, Subject
from evil_minions.errors import ExchangeError
from evil_minions.functions import CURRENT, Call
from evil_minions.functions.modules import FUNCTIONS
from evil_minions.minion.runtime import Phase
from evil_minions.rng import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from pathlib import Path

    from evil_minions.behaviour import Director, Rule, Sequel
    from evil_minions.functions import Host
    from evil_minions.minion.runtime import Runtime
    from evil_minions.network.link import Link
    from evil_minions.network.ports import Partition
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import Draws, SeededRandom
    from evil_minions.samples import Journal

MINE_SECONDS: Final = 3600.0
"""Seconds between two updates of the mine: mine_interval of a minion, 60 minutes."""


class Traffic:
    """Starts what the minions of a worker send unasked."""

    def __init__(
        self, spawn: Callable[[Coroutine[Any, Any, Any]], Any], beacon_seconds: float, replay: Replay | None
    ) -> None:
        """Take what runs a coroutine, the seconds between two beacon events of a minion (0: none), and a recording."""
        self._spawn = spawn
        self._beacon_seconds = beacon_seconds
        self._replay = replay
        self._begun: set[str] = set()

    def begin(self, host: Host) -> None:
        """Begin with a minion that has started; for one that has started again it goes on as before."""
        mine = bool(host.pillar_item("mine_functions"))
        events = self._replay if self._replay is not None and self._replay.has_events else None
        if not (mine or self._beacon_seconds or events) or host.id in self._begun:
            return
        self._begun.add(host.id)
        if mine:
            self._spawn(self._mine(host))
        if self._beacon_seconds:
            self._spawn(self._beacon(host))
        if events:
            self._spawn(events.fire_events(host))

    async def _mine(self, host: Host) -> None:
        """Update the mine at the start and then every hour, as the scheduler of a minion does without a job."""
        CURRENT.set(Call(host, {"jid": "", "fun": "mine.update", "arg": []}, 0, table=FUNCTIONS))
        while True:
            with contextlib.suppress(ExchangeError):
                await FUNCTIONS["mine.update"].call()
            await asyncio.sleep(MINE_SECONDS)

    async def _beacon(self, host: Host) -> None:
        """Fire events of the beacon `load`, the first one after a random part of the interval."""
        await asyncio.sleep(host.rng.uniform(0.0, self._beacon_seconds))
        while True:
            averages = {name: round(host.rng.lognormvariate(-1.0, 0.8), 2) for name in ("15m", "1m", "5m")}
            host.fire(f"salt/beacon/{host.id}/load/", {**averages, "id": host.id})
            await asyncio.sleep(self._beacon_seconds)


# offset, in the random stream of a job or of a timer's round, of the choices for what comes next
_NEXT: Final = 19


class Living(Subject, Protocol):
    """A minion; `life` grows whenever it ends, `phase` says how far it has come."""

    id: str
    life: int
    phase: Phase

    @property
    def rng(self) -> SeededRandom:
        """Random numbers that belong to no job."""

    def limit_jobs(self, most: int) -> None:
        """Let at most so many jobs run at a time (0: no limit)."""

    def fire(self, tag: str, data: object) -> None:
        """Send an event to the master's bus."""

    def refresh_pillar(self, *, clean_cache: bool) -> object:
        """Start to fetch the pillar, in the background."""

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in again, then call `then` with whether that went well."""

    def links(self) -> list[Link]:
        """Return the connections that there are."""

    def close(self, phase: Phase) -> None:
        """End as a process that is killed."""


Minion = TypeVar("Minion", bound=Living)


class Lifecycle(Generic[Minion]):
    """Carries out what behaviours say about the minions themselves, rather than about their jobs."""

    def __init__(
        self,
        director: Director,
        runtime: Runtime,
        draws: Draws,
        journal: Journal,
        partition: Partition,
        restart: Callable[[Minion, float, Phase], None],
    ) -> None:
        """Take who decides, and what carries it out.

        `restart` stops a minion, which is in the phase given then, and starts it again after some seconds.
        """
        self.restart = restart
        self._director = director
        self._loop = runtime.loop
        self._draws = draws
        self._journal = journal
        self._partition = partition
        # counts the rounds of each timer of a minion: each round has random numbers of its own
        self._rounds: dict[tuple[int, str], int] = {}
        # grows with every change of behaviour: a timer of an earlier behaviour finds out by it that it has to end
        self._versions: dict[int, int] = {}

    def assign(self, minions: Iterable[Minion], name: str | Path) -> None:
        """Have some minions behave as a preset or a file says, from now on.

        Raises:
            UsageError: if it can't be read.
        """
        chosen = list(minions)
        self._journal.open_decisions()
        self._director.assign([minion.index for minion in chosen], name)
        for minion in chosen:
            self._changed(minion)

    def _changed(self, minion: Minion) -> None:
        """Apply what the new behaviour of a minion says beside its rules for jobs."""
        self._versions[minion.index] = self._versions.get(minion.index, 0) + 1
        behaviour = self._director.behaviour(minion.index)
        minion.limit_jobs(behaviour.process_count_max if behaviour else 0)
        if minion.phase == Phase.READY:
            self.on_ready(minion)

    def on_ready(self, minion: Minion) -> None:
        """Start the timers of a minion that is ready."""
        for rule in self._director.timers(minion):
            self._wait(minion, rule, minion.life, self._versions[minion.index])

    def _wait(self, minion: Minion, rule: Rule, life: int, version: int) -> None:
        """Wait for a timer's next round."""
        behaviour = self._director.behaviour(minion.index)
        if behaviour is None or rule.every is None:
            return
        key = (minion.index, rule.name)
        self._rounds[key] = nth = self._rounds.get(key, 0) + 1
        begin = stream(self._draws.seed, "timer", behaviour.name, rule.name, nth)
        seconds = rule.every.draw(self._draws.rng.at(minion.number, begin))
        self._journal.add(Plan(behaviour.name, rule).decision(minion.id, f"timer#{nth}", seconds))
        self._loop.call_later(seconds, self._round, minion, rule, life, version, begin)

    def _round(self, minion: Minion, rule: Rule, life: int, version: int, begin: int) -> None:
        """Do what a timer says, unless its minion has ended or changed since."""
        if not self._lasts(minion, life, version):
            return
        if rule.events is not None:
            tag = rule.events.tag.replace("{id}", minion.id)
            for _ in range(rule.events.copies):
                minion.fire(tag, rule.events.data)
        if "pillar" in rule.asks:
            minion.refresh_pillar(clean_cache=False)
        if "auth" in rule.asks:
            minion.reauthenticate(lambda _success: None)
        self.follow(minion, rule.sequel, begin)
        if self._lasts(minion, life, version):
            self._wait(minion, rule, life, version)

    def refuse(self, minion: Minion) -> None:
        """End a minion that the master rejects: a real one ends, and its service manager starts it again."""
        self.restart(minion, minion.rng.uniform(*defaults.REJECTED_WAIT), Phase.REFUSED)

    def _lasts(self, minion: Minion, life: int, version: int) -> bool:
        """Return whether a minion neither ended nor got another behaviour."""
        return minion.life == life and self._versions[minion.index] == version

    def follow(self, minion: Minion, sequel: Sequel, begin: int) -> None:
        """Do what comes after a job or a round of a timer, whose random numbers begin at `begin`."""
        seconds = sequel.seconds.draw(self._draws.rng.at(minion.number, begin + _NEXT))
        if sequel.kind == DIE:
            minion.close(Phase.DEAD)
        elif sequel.kind == RESTART:
            self.restart(minion, seconds, Phase.IDLE)
        elif sequel.kind == DISCONNECT:
            self._partition.drop(minion.index, minion.links, seconds)
        elif sequel.kind == SWITCH:
            self._director.switch(minion.index, sequel.behaviour)
            self._changed(minion)
