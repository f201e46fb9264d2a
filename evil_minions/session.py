"""A minion's standing with its master: keys, signing in, and questions over connections of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from evil_minions import auth, defaults, envelope, loads
from evil_minions.errors import ExchangeError, PendingError, RejectedError
from evil_minions.request import AuthRequest, PillarRequest, Request, SealedRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from evil_minions.context import Context
    from evil_minions.envelope import Load
    from evil_minions.keys import MasterKey, MinionKey


class Session:
    """The part of a minion that knows keys: `session` is that of its requests, `aes` that of publications."""

    __slots__ = ("_met", "_signing", "aes", "context", "id", "index", "key", "serial", "session")

    def __init__(self, context: Context, index: int) -> None:
        """Start without any keys of the master; `index` is the number of the minion in its worker."""
        self.context = context
        self.index = index
        self.id = context.ids[index]
        self.key: MinionKey = context.keys[(context.settings.first + index) % len(context.keys)]
        self.session = ""
        self.aes = ""
        self.serial = 0
        self._met = context.master.known_at_start
        self._signing: asyncio.Task[None] | None = None

    @property
    def master(self) -> MasterKey:
        """The key of the master."""
        return self.context.master

    @property
    def rng(self) -> random.Random:
        """The source of chance of the worker."""
        return self.context.rng

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self.context.factory.build(self.id, self.context.settings.first + self.index)

    async def exchange_keys(self) -> auth.Credentials:
        """Sign in once over a connection of its own, and keep the keys.

        Raises:
            ExchangeError: if the master doesn't answer or doesn't let the minion in.

        """
        await asyncio.sleep(defaults.SIGN_IN_PAUSE)
        attempt = auth.question(self.id, self.key, self.master if self._met else None, self.key.secret)
        reply = await self._ask_apart(AuthRequest, attempt.load, defaults.AUTH_TIMEOUT, defaults.AUTH_TRIES)
        credentials = auth.answer(attempt, reply, self.key, self.master)
        if credentials.aes != self.aes:
            self.serial = 0
        self.aes, self.session, self._met = self.context.intern(credentials.aes), credentials.session, True
        self.context.counters.auth_ok += 1
        return credentials

    def introduction(self) -> bytes:
        """Return the message that tells a publish port who listens."""
        return envelope.introduction(self.id, self.key, self.aes)

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in anew, then call `then` with whether that went well."""

        async def sign_in() -> None:
            try:
                await self.authenticated()
            except ExchangeError:
                then(False)
            else:
                then(True)

        self.context.spawn(sign_in())

    async def authenticated(self) -> None:
        """Wait for the one attempt to sign in anew that is under way, or begin it.

        Raises:
            ExchangeError: if the master doesn't let the minion in.

        """
        if self._signing is None:
            self._signing = self.context.loop.create_task(self._authenticate())
        await asyncio.shield(self._signing)

    async def _authenticate(self) -> None:
        """Sign in as often as it takes while the key waits to be accepted."""
        try:
            while True:
                try:
                    await self.exchange_keys()
                except PendingError:
                    self.context.counters.auth_retries += 1
                    await asyncio.sleep(defaults.ACCEPTANCE_WAIT_TIME)
                except RejectedError:
                    # a real minion ends here, and its service manager starts it again
                    self.context.restart(self.index, self.rng.uniform(*defaults.REJECTED_WAIT))
                    raise
                else:
                    return
        finally:
            self._signing = None

    async def _ask_apart(self, kind: type[Request], load: Load, timeout: float, tries: int) -> Any:  # noqa: ANN401, ASYNC109 - the protocol's timeout
        """Ask over a connection of its own, as a real minion does for keys, pillars and files."""
        channel = self.context.channel(self)
        try:
            return await channel.ask(kind, load, timeout, tries)
        finally:
            channel.close(reset=True)

    async def fetch_pillar(
        self, *, override: dict[str, Any] | None = None, clean_cache: bool = False
    ) -> dict[str, Any]:
        """Have the master compile the pillar.

        Raises:
            ExchangeError: if the master gives none.

        """
        load = loads.pillar(self.id, self.grains(), override, clean_cache=clean_cache)
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        pillar = await self._ask_apart(PillarRequest, load, timeout, tries)
        if not isinstance(pillar, dict):
            raise ExchangeError(f"The master gave {type(pillar).__name__} as the pillar of {self.id}.")
        self.context.counters.pillar_ok += 1
        return pillar

    async def errands(self, questions: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Ask the master for several things one after the other, over a connection of their own.

        Raises:
            ExchangeError: if the master doesn't answer one of them.

        """
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        channel = self.context.channel(self)
        try:
            return [await channel.ask(SealedRequest, dict(load), timeout, tries) for load in questions]
        finally:
            channel.close(reset=True)
