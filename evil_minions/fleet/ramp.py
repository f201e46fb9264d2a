"""The start of a worker's minions, at a pace: all at once they would be a load that nobody asked for.

- A master compiles some 25 pillars a second, and signing in takes the same workers. Thousands of requests at once would
  wait for each other until they time out. A bounded number keeps the master just as busy, and none times out.
- A publisher with thousands of heartbeats to send takes few new connections in a second. A connection that waits too
  long hangs up and tries again. So few may wait at a time.
- All workers of a fleet have all their minions signed in and connected before the first one asks for a pillar: ten
  thousand are connected after one minute then, otherwise after seven.

The master decides about keys. With `auto_accept: False` it reads `autosign_file` and `autoreject_file`, which are
written into the fleet's folder. A denied key is that of a machine which was reinstalled under an id that the master
knows already: such a minion signs in, loses its key, and comes back with another one.

A master with `autosign_grains_dir` accepts those who know what is in a file there.
Source: AuthFuncs in salt/master.py and AutoKey in salt/daemons/masterapi.py of Salt 3008.5.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.errors import ExchangeError, PendingError, RejectedError, UsageError
from evil_minions.fleet.orders import ORDERS
from evil_minions.inventory.targets import Target
from evil_minions.minion.minion import Minion
from evil_minions.minion.runtime import Phase
from evil_minions.network.path import NetworkPath
from evil_minions.rng import Assignment, assign, assignment_of, check_shares
from evil_minions.samples import StartRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from evil_minions.behaviour import Director
    from evil_minions.fleet.settings import FleetSettings
    from evil_minions.minion.runtime import Runtime
    from evil_minions.minion.shared import Shared
    from evil_minions.samples import Journal


PENDING, REJECTED, DENIED, ACCEPTED = "pending", "rejected", "denied", "accepted"
STATES: Final = (ACCEPTED, PENDING, DENIED, REJECTED)
AUTOSIGN: Final = "autosign.txt"
AUTOREJECT: Final = "autoreject.txt"


def parts_of(text: str) -> tuple[Assignment, ...]:
    """Return the shares in a text such as `pending=10%,denied=5%`.

    Raises:
        UsageError: if it is something else.
    """
    found = tuple(assignment_of(word.strip(), "--keys") for word in text.split(","))
    for each in found:
        if each.name not in STATES:
            raise UsageError(f"--keys {each.name} is no state of a key: there are {', '.join(STATES)}.")
    check_shares(found, "--keys")
    return found


def states(settings: FleetSettings) -> dict[int, str]:
    """Return the states of the keys of a worker's minions by their numbers, without those that are accepted."""
    found = assign(settings.keys, settings.numbers, range(*settings.whole), settings.seed, "keys")
    return {number: state for number, state in found.items() if state != ACCEPTED}


def grains(file: Path) -> dict[str, str]:
    """Return the grain that a file of the master's `autosign_grains_dir` is about, with a value that it accepts.

    Raises:
        UsageError: if there is none.
    """
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The file of --autosign can't be read: {error}; give another one.") from error
    values = [line for line in lines if line and not line.startswith("#")]
    if not values:
        raise UsageError(f"{file} has no line with a value: give --autosign a file of the master's.")
    return {file.name: values[0]}


def write(settings: FleetSettings) -> None:
    """Write the files that the master needs into the fleet's folder.

    Raises:
        OSError: if that can't be done.
    """
    by_state: dict[str, list[str]] = {}
    for number, state in states(settings).items():
        by_state.setdefault(state, []).append(re.escape(settings.id_format.format(number)))
    # one expression for all, as the master tries line after line for each sign-in
    wait = "|".join([*by_state.get(PENDING, []), *by_state.get(REJECTED, [])])
    reject = "|".join(by_state.get(REJECTED, []))
    # written whole: the master may read them at any time
    for name, line in ((AUTOSIGN, f"(?!(?:{wait})$).*" if wait else ".*"), (AUTOREJECT, f"(?:{reject})")):
        draft = settings.folder / f".{name}"
        draft.write_text(f"{line}\n" if line != "(?:)" else "")
        draft.chmod(0o644)
        draft.replace(settings.folder / name)


_SUBSCRIBE_S: Final = 60.0
_LOOK_S: Final = 0.2
# of a worker's minions; publish port and request port let a thousand of the whole fleet wait, see `backlog` in zmq
_UNCONNECTED: Final = 100
# a minion, and the number of the life that is to be brought up: if that has ended meanwhile, nothing is done
Turn = tuple["Minion", int]


class Ramp:
    """Brings minions up, and up again whenever that failed."""

    def __init__(self, runtime: Runtime, settings: FleetSettings, director: Director, journal: Journal) -> None:
        """Begin without minions."""
        self.minions: list[Minion] = []
        self.assembled = False
        self._runtime = runtime
        self._settings = settings
        self._director = director
        self._journal = journal
        self._began = self._next_slot = runtime.loop.time()
        self._to_sign_in: asyncio.Queue[Turn] = asyncio.Queue()
        self._to_tune_in: asyncio.Queue[tuple[Turn, float]] = asyncio.Queue()
        self._tried = asyncio.Event()
        self._everybody = asyncio.Event()
        self._unconnected = asyncio.Semaphore(_UNCONNECTED)
        self._untried = 0

    def run(self) -> None:
        """Queue all minions, and start as many starters as may be under way at once."""
        self._began = self._next_slot = self._runtime.loop.time()
        self.bring_up(self.minions)
        self._untried = self._to_sign_in.qsize()
        self._runtime.spawn(self._assemble())
        for _ in range(self._settings.window):
            self._runtime.spawn(self._sign_in())
            self._runtime.spawn(self._tune_in())

    def bring_up(self, minions: Iterable[Minion]) -> None:
        """Start minions that aren't under way, when it is their turn."""
        for minion in minions:
            if self._director.is_paced(minion.index):
                self._to_sign_in.put_nowait((minion, minion.life))
            else:
                self._runtime.spawn(self._rush(minion, minion.life))

    def restart(self, minion: Minion, seconds: float, phase: Phase) -> None:
        """Stop a minion, which is in `phase` then, and bring it up again after some seconds."""
        minion.close(phase)
        self._later(minion, seconds)

    def _later(self, minion: Minion, seconds: float) -> None:
        self._runtime.loop.call_later(seconds, self._again, minion, minion.life)

    def _again(self, minion: Minion, life: int) -> None:
        """Bring a minion up unless it has ended since."""
        if minion.life == life:
            self.bring_up([minion])

    async def _pace(self) -> None:
        loop = self._runtime.loop
        slot = max(loop.time(), self._next_slot)
        self._next_slot = slot + 1.0 / self._settings.auth_rate
        await asyncio.sleep(slot - loop.time())

    async def _sign_in(self) -> None:
        """Sign minions in, one after the other."""
        while True:
            minion, life = await self._to_sign_in.get()
            if minion.life == life:
                await self._pace()
            await self._unconnected.acquire()
            if minion.life == life and await self._attempt(minion, life):
                self._to_tune_in.put_nowait(((minion, life), self._runtime.loop.time() - self._began))
                self._runtime.spawn(self._connect(minion, life))
            else:
                self._unconnected.release()
            self._untried -= 1
            if not self._untried:
                self._tried.set()

    async def _rush(self, minion: Minion, life: int) -> None:
        """Bring a minion up out of turn."""
        if await self._attempt(minion, life):
            await self._finish(minion, life, self._runtime.loop.time() - self._began)

    async def _attempt(self, minion: Minion, life: int) -> bool:
        """Sign a minion in, and see to it that it is tried again if that fails; return whether it is in."""
        try:
            await minion.sign_in()
        except ExchangeError as error:
            if minion.life != life:
                return False
            if isinstance(error, PendingError):
                self._later(minion, defaults.ACCEPTANCE_WAIT_TIME)
                return False
            self._runtime.report(error)
            if isinstance(error, RejectedError):
                minion.shared.lifecycle.refuse(minion)
            else:
                self._later(minion, defaults.ACCEPTANCE_WAIT_TIME)
            return False
        return minion.life == life

    async def _connect(self, minion: Minion, life: int) -> None:
        """Keep the place of a minion that is signed in until it is connected, or has ended, or for a while."""
        deadline = self._runtime.loop.time() + _SUBSCRIBE_S
        while self._runtime.loop.time() < deadline and minion.life == life and not minion.connected:  # noqa: ASYNC110 - hundreds of minions would set the event
            await asyncio.sleep(_LOOK_S)
        self._unconnected.release()

    async def _assemble(self) -> None:
        """Note when everybody who is signed in is connected as well, or that this takes too long.

        A publisher that has to share its core with the compiling of pillars takes few connections in a second.
        """
        if self._untried:
            await self._tried.wait()
        loop = self._runtime.loop
        deadline = loop.time() + _SUBSCRIBE_S
        while loop.time() < deadline and not all(  # noqa: ASYNC110 - thousands of minions would set the event
            minion.connected for minion in self.minions if minion.phase >= Phase.AUTHENTICATED
        ):
            await asyncio.sleep(_LOOK_S)
        self.assembled = True

    def begin(self) -> None:
        """Let pillars be asked for."""
        self._everybody.set()

    async def _tune_in(self) -> None:
        """Bring minions that are signed in to the end of their start, one after the other."""
        await self._everybody.wait()
        while True:
            (minion, life), signed_in = await self._to_tune_in.get()
            if minion.life == life:
                await self._finish(minion, life, signed_in)

    async def _finish(self, minion: Minion, life: int, signed_in: float) -> None:
        """Bring a minion that is signed in to the end of its start, and write down how long that took."""
        try:
            pillar_time, ready_time = await minion.tune_in()
        except ExchangeError as error:
            if minion.life == life:
                self._runtime.report(error)
                self.restart(minion, defaults.ACCEPTANCE_WAIT_TIME, Phase.IDLE)
            return
        if minion.life == life and minion.phase == Phase.READY:
            row = StartRow(minion.id, signed_in, pillar_time - self._began, ready_time - self._began)
            self._journal.add(row)


def placed(settings: FleetSettings, numbers: range) -> dict[int, NetworkPath]:
    """Return the networks of those minions that get one by a share of the fleet."""
    shares = [region for region in settings.network if region.share is not None]
    assignments = [Assignment(str(number), region.share or 0.0) for number, region in enumerate(shares)]
    found = assign(assignments, numbers, range(*settings.whole), settings.seed, "network")
    return {number: shares[int(name)].path for number, name in found.items()}


class MinionSet:
    """The minions that a worker has made; those beyond the fleet's size after scaling down are GONE."""

    def __init__(self, settings: FleetSettings, shared: Shared, ramp: Ramp) -> None:
        """Begin without minions; those that are made are brought up by the ramp."""
        self.shared = shared
        self.minions = ramp.minions
        self._settings = settings
        self._ramp = ramp
        self._key_states = states(settings)

    def populate(self) -> None:
        """Make the minions of the inventory; none of them does anything yet."""
        self._make(len(self.shared.inventory.ids))

    def _make(self, count: int) -> list[Minion]:
        """Make further minions, and give them the networks and the behaviours that the fleet started with."""
        start = len(self.minions)
        new = [Minion(self.shared, index) for index in range(start, start + count)]
        self.minions.extend(new)
        settings, seed = self._settings, self._settings.seed
        numbers = range(new[0].number, new[-1].number + 1)
        for number, path in placed(self._settings, numbers).items():
            self.shared.ports.networks.place(number - self._settings.first, path)
        for region in settings.network:
            if region.tgt is not None:
                chosen = self.shared.inventory.targets.select(Target(region.tgt, region.tgt_type))
                self.network([minion for minion in new if chosen[minion.index]], region.path)
        found = assign(settings.behaviours, numbers, range(*self._settings.whole), seed, "behaviours")
        for name in dict.fromkeys(found.values()):
            self.shared.lifecycle.assign([minion for minion in new if found.get(minion.number) == name], name)
        return new

    def counts(self) -> dict[str, int]:
        """Return how many minions are in which state."""
        here = self.here()
        # those that are ready, mostly all, are looked at once
        others = [minion for minion in here if minion.phase != Phase.READY]
        ready = len(here) - len(others)
        phases = [minion.phase for minion in others]
        return {
            "connected": sum(minion.connected for minion in here),
            "authenticated": ready + sum(phase >= Phase.AUTHENTICATED for phase in phases),
            "ready": ready,
            "pending": phases.count(Phase.PENDING),
            "dead": phases.count(Phase.DEAD),
            "rejected": sum(minion.phase == Phase.REFUSED and not self._is_denied(minion) for minion in others),
            "denied": sum(minion.phase == Phase.REFUSED and self._is_denied(minion) for minion in others),
            "partitioned": len(self.shared.ports.partition.cut),
            "executing": sum(minion.at_work() for minion in here),
            "expected": ready + sum(map(self._is_expected, others)),
        }

    def _is_denied(self, minion: Minion) -> bool:
        """Return whether a minion that is turned away has another key than the master knows."""
        return minion.key is not minion.first_key()

    def _is_expected(self, minion: Minion) -> bool:
        """Return whether a minion is ready or should be: neither dead nor meant to be turned away or to wait."""
        if minion.phase == Phase.READY:
            return True
        return minion.phase != Phase.DEAD and minion.number not in self._key_states

    def here(self) -> list[Minion]:
        """Return the minions that belong to the fleet now."""
        return [minion for minion in self.minions if minion.phase != Phase.GONE]

    def ids(self, target: Target) -> list[str]:
        """Return the ids of the minions that a target matches."""
        return [minion.id for minion in self._meant(target)]

    def _meant(self, target: Target) -> list[Minion]:
        chosen = self.shared.inventory.targets.select(target)
        return [minion for minion in self.here() if chosen[minion.index]]

    def candidates(self, order: str, target: Target | None) -> list[int]:
        """Return the numbers of the minions that an order could be for."""
        return [
            minion.number
            for minion in (self._meant(target) if target else self.here())
            if ORDERS[order].able(self, minion)
        ]

    def take(self, numbers: Sequence[int]) -> list[Minion]:
        """Return the minions of this worker that have these numbers."""
        first = self._settings.first
        return [self.minions[number - first] for number in numbers if 0 <= number - first < len(self.minions)]

    def kill(self, minions: Sequence[Minion], phase: Phase = Phase.DEAD) -> None:
        """End minions as processes that are killed."""
        for minion in minions:
            minion.close(phase)

    def revive(self, minions: Sequence[Minion]) -> None:
        """Start minions that have ended."""
        for minion in minions:
            minion.phase = Phase.IDLE
        self._ramp.bring_up(minions)

    def partition(self, minions: Sequence[Minion]) -> None:
        """Cut minions off from the master."""
        for minion in minions:
            self.shared.ports.partition.cut.add(minion.index)
            for link in minion.links():
                self.shared.ports.partition.sever(minion.index, link)

    def network(self, minions: Sequence[Minion], path: NetworkPath) -> None:
        """Put minions behind a network; one that does nothing puts them beside their master."""
        for minion in minions:
            self.shared.ports.networks.place(minion.index, None if path == NetworkPath() else path)
            for link in minion.links():
                link.reroute(self.shared.ports.side(minion.index, link.endpoint.base))

    def heal(self) -> int:
        """Let every minion reach the master again; return how many couldn't."""
        cut = [self.minions[index] for index in sorted(self.shared.ports.partition.cut)]
        self.shared.ports.partition.heal()
        for minion in cut:
            for link in minion.links():
                self.shared.ports.partition.rejoin(link)
        return len(cut)

    def scale(self, size: int) -> int:
        """Have the first `size` minions only, made new where there never were so many; return how many changed."""
        surplus = [minion for minion in self.minions[size:] if minion.phase != Phase.GONE]
        self.shared.ports.partition.cut.difference_update(minion.index for minion in surplus)
        self.kill(surplus, Phase.GONE)
        missing = [minion for minion in self.minions[:size] if minion.phase == Phase.GONE]
        if size > len(self.minions):
            missing += self._grow(size - len(self.minions))
        self.revive(missing)
        return len(surplus) + len(missing)

    def _grow(self, count: int) -> list[Minion]:
        """Make more minions, whose numbers follow, and room for them."""
        number = self._settings.first + len(self.minions)
        id_format = self._settings.id_format
        self.shared.inventory.grow([id_format.format(number + more) for more in range(count)])
        self.shared.publications.grow(count)
        return self._make(count)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the supervisor orders, and return what it asks, or how many minions that changed."""
        match request["do"]:
            case "assembled":
                return {"assembled": self._ramp.assembled}
            case "begin":
                self._ramp.begin()
                return {}
            case "scale":
                return {"minions": self.scale(int(request["minions"]))}
            case "heal":
                return {"minions": self.heal()}
            case "candidates":
                target = Target(request["tgt"], request["tgt_type"]) if "tgt" in request else None
                return {"numbers": self.candidates(request["order"], target)}
        minions = self.take(request["numbers"])
        order = ORDERS[request["do"]]
        if order.do is not None:
            order.do(self, minions, request)
        return {"minions": len(minions)}
