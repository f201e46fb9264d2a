"""A minion's standing with its master: keys, signing in, and questions over connections of their own."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evil_minions import defaults
from evil_minions.errors import ExchangeError, PendingError, RejectedError
from evil_minions.minion.phase import Stage
from evil_minions.network.request import AuthRequest, PillarRequest, Request, SealedRequest
from evil_minions.protocol import auth, envelope, loads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence

    from evil_minions.functions.tree import State
    from evil_minions.minion.context import Context
    from evil_minions.network.channel import RequestChannel
    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import Dice
    from evil_minions.states.planner import Planner


class Session:
    """The part of a minion that knows keys: `session` is that of its requests, `aes` that of publications."""

    __slots__ = (
        "_apart",
        "_draws",
        "_met",
        "_signing",
        "aes",
        "context",
        "id",
        "index",
        "key",
        "life",
        "serial",
        "session",
    )

    def __init__(self, context: Context, index: int) -> None:
        """Start without any keys of the master; `index` is the number of the minion in its worker."""
        self.context = context
        self.index = index
        self.id = context.ids[index]
        self.key = self.first_key()
        self.session = ""
        self.aes = ""
        self.serial = 0
        # grows whenever the minion ends: what belongs to an earlier life finds that out by it
        self.life = 0
        self._draws = 0
        self._apart: list[RequestChannel] | None = None
        self._met = context.master.known_at_start
        self._signing: asyncio.Task[None] | None = None

    @property
    def master(self) -> MasterKey:
        """The key of the master."""
        return self.context.master

    @property
    def signed_in_once(self) -> bool:
        """Whether the master has ever let the minion in."""
        return bool(self.aes)

    @property
    def number(self) -> int:
        """The number of the minion in its fleet, of all workers."""
        return self.context.settings.first + self.index

    def first_key(self) -> MinionKey:
        """Return the key that the minion starts with."""
        return self.context.keys[self.number % len(self.context.keys)]

    @property
    def rng(self) -> Dice:
        """The next place of this minion's chance; draw at once."""
        self._draws += 1
        return self.context.dice.at(self.number, self.context.lot + self._draws)

    def random(self) -> float:
        """Return a number from 0 up to 1 out of this minion's chance."""
        return self.rng.random()

    @property
    def replay(self) -> Replay | None:
        """What was recorded, if the fleet replays something."""
        return self.context.replay

    @property
    def states(self) -> Sequence[State] | None:
        """The states of the simulated tree, None where the master's own are run."""
        return self.context.states

    @property
    def planner(self) -> Planner:
        """What runs the master's own states."""
        return self.context.planner

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""
        return self.context.pillars.get(self.index)

    def pillar_item(self, name: str) -> Any:  # noqa: ANN401 - whatever a pillar holds
        """Return one value of the top level of the pillar that is kept, or None; don't change it."""
        return self.context.pillars.item(self.index, name)

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self.context.factory.build(self.id, self.number)

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""
        self.context.factory.change(self.id, changes, removed)

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
        life = self.life
        try:
            while True:
                if self.life != life:
                    raise ExchangeError(f"{self.id} has ended.")
                try:
                    await self.exchange_keys()
                except PendingError:
                    self.context.counters.auth_retries += 1
                    await asyncio.sleep(defaults.ACCEPTANCE_WAIT_TIME)
                except RejectedError:
                    # a real minion ends here, and its service manager starts it again
                    if self.life == life:
                        self.context.restart(self.index, self.rng.uniform(*defaults.REJECTED_WAIT), Stage.REFUSED)
                    raise
                else:
                    return
        finally:
            self._signing = None

    @contextmanager
    def _channel_apart(self) -> Iterator[RequestChannel]:
        """Give a connection of its own, as a real minion has for keys, pillars and files."""
        channel = self.context.channel(self)
        self._apart = [*(self._apart or ()), channel]
        try:
            yield channel
        finally:
            channel.close(reset=True)
            self._apart = [other for other in self._apart or () if other is not channel] or None

    async def _ask_apart(self, kind: type[Request], load: Load, timeout: float, tries: int) -> Any:  # noqa: ANN401, ASYNC109 - the protocol's timeout
        """Ask over a connection of its own."""
        with self._channel_apart() as channel:
            return await channel.ask(kind, load, timeout, tries)

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

    @contextmanager
    def asking(self) -> Iterator[Callable[[Mapping[str, Any]], Awaitable[Any]]]:
        """Give a connection of its own and what asks over it, as a file client of a real minion has one."""
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        with self._channel_apart() as channel:

            async def ask(load: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the master's answer
                return await channel.ask(SealedRequest, dict(load), timeout, tries)

            yield ask

    async def converse(self, questions: Generator[Mapping[str, Any], Any, Any]) -> Any:  # noqa: ANN401 - the questions' end
        """Ask the master for things that depend on the answer before, over a connection of their own.

        Raises:
            ExchangeError: if the master doesn't answer one of them.

        """
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        answer: Any = None
        with self._channel_apart() as channel:
            while True:
                try:
                    load = questions.send(answer)
                except StopIteration as end:
                    return end.value
                answer = await channel.ask(SealedRequest, dict(load), timeout, tries)

    async def errands(self, questions: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Ask the master for several things one after the other, over a connection of their own.

        Raises:
            ExchangeError: if the master doesn't answer one of them.

        """
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        with self._channel_apart() as channel:
            return [await channel.ask(SealedRequest, dict(load), timeout, tries) for load in questions]
