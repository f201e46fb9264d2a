"""A minion and its master: keys, signing in, and the minion's own requests and events."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evil_minions import defaults
from evil_minions.errors import ExchangeError, PendingError, RejectedError
from evil_minions.network.channel import AuthRequest, EncryptedRequest, PillarRequest, Request
from evil_minions.protocol import auth, envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from evil_minions.functions.registry import Ask
    from evil_minions.functions.tree import State
    from evil_minions.inventory.inventory import Target
    from evil_minions.minion.publication import Publication
    from evil_minions.minion.shared import Shared
    from evil_minions.network.channel import RequestChannel
    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import SeededRandom
    from evil_minions.states.planner import Planner


class Member:
    """A minion with an id and a number, and its random numbers; `index` is its place in its worker."""

    __slots__ = ("_draws", "id", "index", "shared")

    def __init__(self, shared: Shared, index: int) -> None:
        """Take what all minions of the worker share."""
        self.shared = shared
        self.index = index
        self.id = shared.inventory.ids[index]
        self._draws = 0

    @property
    def number(self) -> int:
        """The number of the minion in its fleet, of all workers."""
        return self.shared.inventory.first + self.index

    @property
    def rng(self) -> SeededRandom:
        """The random numbers that belong to no job; shared by all minions of the worker, so use them at once."""
        self._draws += 1
        draws = self.shared.draws
        return draws.rng.at(self.number, draws.own + self._draws)

    def random(self) -> float:
        """Return a number from 0 up to 1 that belongs to no job."""
        return self.rng.random()

    def rng_of(self, publication: Publication, what: int) -> SeededRandom:
        """Return the random numbers for one decision about one job; shared, so use them at once."""
        return self.shared.draws.rng.at(self.number, publication.stream + what)

    @property
    def replay(self) -> Replay | None:
        """What was recorded, if the fleet replays something."""
        return self.shared.answers.replay

    @property
    def states(self) -> Sequence[State] | None:
        """The made-up states, None where the master's own are run."""
        return self.shared.answers.states

    @property
    def planner(self) -> Planner:
        """What runs the master's own states."""
        return self.shared.answers.planner

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""
        return self.shared.inventory.pillars.get(self.index)

    def pillar_item(self, name: str) -> Any:
        """Return one value of the top level of the pillar that is kept, or None; don't change it."""
        return self.shared.inventory.pillars.item(self.index, name)

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self.shared.inventory.factory.build(self.id, self.number)

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""
        self.shared.inventory.factory.change(self.id, changes, removed)

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches this minion."""
        return bool(self.shared.inventory.targets.select(target)[self.index])


def ignore(_request: Request, _answer: object) -> None:
    """Take an answer that nobody waits for."""


class Session(Member):
    """The part of a minion that asks the master: `session` is the key of its requests, `aes` that of publications.

    `channel` is the connection to the request port that stays, once the minion has signed in. `life` grows whenever
    the minion ends: what was begun in an earlier life finds out by it.
    """

    __slots__ = ("_extra", "_met", "_signing", "aes", "channel", "key", "life", "serial", "session")

    def __init__(self, shared: Shared, index: int) -> None:
        """Start without any keys of the master."""
        super().__init__(shared, index)
        self.key = self.first_key()
        self.session = ""
        self.aes = ""
        self.serial = 0
        self.life = 0
        self.channel: RequestChannel | None = None
        self._extra: list[RequestChannel] | None = None
        self._met = shared.keys.master.known_at_start
        self._signing: asyncio.Task[None] | None = None

    @property
    def master(self) -> MasterKey:
        """The key of the master."""
        return self.shared.keys.master

    @property
    def signed_in_once(self) -> bool:
        """Whether the master has ever let the minion in."""
        return bool(self.aes)

    def first_key(self) -> MinionKey:
        """Return the key that the minion starts with."""
        return self.shared.keys.of(self.number)

    async def exchange_keys(self) -> auth.Credentials:
        """Sign in once over a connection of its own, and keep the keys.

        Raises:
            ExchangeError: if the master doesn't answer or doesn't let the minion in.

        """
        await asyncio.sleep(defaults.SIGN_IN_PAUSE)
        grains = self.shared.keys.grains_of(self.number)
        attempt = auth.question(self.id, self.key, self.master if self._met else None, self.key.secret, grains)
        reply = await self._ask_extra(AuthRequest, attempt.load, defaults.AUTH_TIMEOUT, defaults.AUTH_TRIES)
        credentials = auth.answer(attempt, reply, self.key, self.master)
        if credentials.aes != self.aes:
            self.serial = 0
        self.aes, self.session, self._met = self.shared.keys.intern(credentials.aes), credentials.session, True
        self.shared.runtime.counters.auth_ok += 1
        return credentials

    def introduction(self) -> bytes:
        """Return the message that tells a publish port who listens."""
        return envelope.introduction(self.id, self.key, self.aes)

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in again, then call `then` with whether that went well."""

        async def sign_in() -> None:
            try:
                await self.authenticated()
            except ExchangeError:
                then(False)
            else:
                then(True)

        self.shared.runtime.spawn(sign_in())

    async def authenticated(self) -> None:
        """Wait for the one attempt to sign in again that is under way, or begin it.

        Raises:
            ExchangeError: if the master doesn't let the minion in.

        """
        if self._signing is None:
            self._signing = self.shared.runtime.loop.create_task(self._authenticate())
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
                    self.shared.runtime.counters.auth_retries += 1
                    await asyncio.sleep(defaults.ACCEPTANCE_WAIT_TIME)
                except RejectedError:
                    if self.life == life:
                        self.shared.lifecycle.refuse(self)
                    raise
                else:
                    return
        finally:
            self._signing = None

    @contextmanager
    def _extra_channel(self) -> Iterator[RequestChannel]:
        """Give a connection of its own, as a real minion has for keys, pillars and files."""
        channel = self.shared.ports.channel(self)
        self._extra = [*(self._extra or ()), channel]
        try:
            yield channel
        finally:
            channel.close(reset=True)
            self._extra = [other for other in self._extra or () if other is not channel] or None

    async def _ask_extra(self, kind: type[Request], load: Load, timeout: float, tries: int) -> Any:  # noqa: ASYNC109 - the protocol's timeout
        """Ask over a connection of its own."""
        with self._extra_channel() as channel:
            return await channel.ask(kind, load, timeout, tries)

    async def fetch_pillar(
        self, *, override: dict[str, Any] | None = None, clean_cache: bool = False
    ) -> dict[str, Any]:
        """Have the master compile the pillar.

        Raises:
            ExchangeError: if the master gives none.

        """
        load = envelope.pillar(self.id, self.grains(), override, clean_cache=clean_cache)
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        pillar = await self._ask_extra(PillarRequest, load, timeout, tries)
        if not isinstance(pillar, dict):
            raise ExchangeError(f"The master gave {type(pillar).__name__} as the pillar of {self.id}.")
        self.shared.runtime.counters.pillar_ok += 1
        return pillar

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Give what asks the master over a connection of its own, as a file client of a real minion has one."""
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        with self._extra_channel() as channel:

            async def ask(load: Mapping[str, Any]) -> Any:
                return await channel.ask(EncryptedRequest, dict(load), timeout, tries)

            yield ask

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Fetch the pillar that is kept for targets, then register resources, in the background."""

        async def refresh() -> None:
            try:
                pillar = await self.fetch_pillar(clean_cache=clean_cache)
            except ExchangeError:
                return
            self.shared.inventory.pillars.put(self.index, pillar)
            if self.channel is not None:
                self.channel.submit(self._registration())

        return self.shared.runtime.spawn(refresh())

    def fire(self, tag: str, data: object, done: Callable[[Request, Any], None] | None = None) -> None:
        """Send an event to the master's bus."""
        if self.channel is None:
            return
        self.shared.runtime.counters.events_sent += 1
        load = envelope.event(self.id, self.key.token, tag, data)
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.RETURN_RETRY_TRIES
        self.channel.submit(EncryptedRequest(load, timeout, tries, done or ignore))

    def register_resources(self) -> None:
        """Tell the master which resources this minion manages: none."""
        if self.channel is not None:
            self.channel.submit(self._registration())

    def _registration(self) -> EncryptedRequest:
        """Return the request that registers the resources of this minion: none."""
        return EncryptedRequest(
            envelope.registration(self.id, self.key.token), self._retry_timer(), defaults.RETURN_RETRY_TRIES, ignore
        )

    def _retry_timer(self) -> float:
        return float(self.rng.randint(*defaults.RETURN_RETRY_TIMER))
