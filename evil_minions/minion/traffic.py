"""What a minion sends unasked once it has started: its mine, beacons, and recorded events.

Each minion that has any of it has one task; a minion without has nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ExchangeError
from evil_minions.functions.call import CURRENT, Call
from evil_minions.functions.table import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from evil_minions.functions.call import Host
    from evil_minions.recording.replay import Replay

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
