"""The start of a worker's minions: paced, so that it is no storm of the fleet's own making.

A master compiles 25 pillars a second here, and signing in shares its workers: thousands of requests at once would time
out behind each other. A bounded number under way keeps the master just as busy, and nothing times out. Everybody signs
in before the first pillar is asked for: ten thousand are connected after a minute then, and not after seven.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from evil_minions import defaults
from evil_minions.errors import ExchangeError, PendingError, RejectedError
from evil_minions.samples import StartRow
from evil_minions.stage import Stage

if TYPE_CHECKING:
    from evil_minions.context import Context
    from evil_minions.minion import Minion

_SUBSCRIBE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2


class Ramp:
    """Brings minions up, and up again whenever that failed."""

    def __init__(self, context: Context, minions: list[Minion]) -> None:
        """Queue all minions."""
        self._context = context
        self._minions = minions
        self._began = context.loop.time()
        self._next_slot = self._began
        self._to_sign_in: asyncio.Queue[Minion] = asyncio.Queue()
        self._to_tune_in: asyncio.Queue[tuple[Minion, float]] = asyncio.Queue()
        for minion in minions:
            self._to_sign_in.put_nowait(minion)
        self._unsigned = len(minions)
        self._tried = asyncio.Event()
        self._everybody = asyncio.Event()
        context.restart = self._restart

    def run(self) -> None:
        """Start as many starters as may be under way at once."""
        self._context.spawn(self._assemble())
        for _ in range(self._context.settings.window):
            self._context.spawn(self._sign_in())
            self._context.spawn(self._tune_in())

    def _restart(self, index: int, seconds: float) -> None:
        """Stop a minion, and bring it up again later."""
        self._minions[index].close()
        self._later(self._minions[index], seconds)

    def _later(self, minion: Minion, seconds: float) -> None:
        """Bring a minion up after a while."""
        self._context.loop.call_later(seconds, self._to_sign_in.put_nowait, minion)

    async def _pace(self) -> None:
        """Wait for the next free slot of the rate."""
        loop = self._context.loop
        slot = max(loop.time(), self._next_slot)
        self._next_slot = slot + 1.0 / self._context.settings.auth_rate
        await asyncio.sleep(slot - loop.time())

    async def _sign_in(self) -> None:
        """Sign minions in, one after the other."""
        while True:
            minion = await self._to_sign_in.get()
            await self._pace()
            try:
                await self._try(minion)
            except PendingError:
                self._context.counters.auth_retries += 1
                self._later(minion, defaults.ACCEPTANCE_WAIT_TIME)
            except RejectedError as error:
                self._context.report(error)
                self._later(minion, self._context.rng.uniform(*defaults.REJECTED_WAIT))
            except ExchangeError as error:
                self._context.report(error)
                self._later(minion, defaults.ACCEPTANCE_WAIT_TIME)
            else:
                self._to_tune_in.put_nowait((minion, self._context.loop.time() - self._began))

    async def _try(self, minion: Minion) -> None:
        """Sign a minion in, and take note when as many attempts are over as there are minions."""
        try:
            await minion.sign_in()
        finally:
            self._unsigned -= 1
            if not self._unsigned:
                self._tried.set()

    async def _assemble(self) -> None:
        """Let pillars be asked for when everybody who is signed in is subscribed as well, or after a while.

        A publisher that has to share its core with the compiling of pillars takes few connections in a second.
        """
        await self._tried.wait()
        loop = self._context.loop
        deadline = loop.time() + _SUBSCRIBE_SECONDS
        while loop.time() < deadline and not all(  # noqa: ASYNC110 - thousands of minions would set the event
            minion.subscribed for minion in self._minions if minion.stage >= Stage.AUTHENTICATED
        ):
            await asyncio.sleep(_LOOK_SECONDS)
        self._everybody.set()

    async def _tune_in(self) -> None:
        """Bring minions that are signed in to the end of their start, one after the other."""
        await self._everybody.wait()
        while True:
            minion, signed_in = await self._to_tune_in.get()
            try:
                pillar_time, ready_time = await minion.tune_in()
            except ExchangeError as error:
                self._context.report(error)
                minion.close()
                self._later(minion, defaults.ACCEPTANCE_WAIT_TIME)
                continue
            if minion.stage != Stage.READY:
                continue
            row = StartRow(minion.id, signed_in, pillar_time - self._began, ready_time - self._began)
            self._context.sample(self._context.starts, row)
