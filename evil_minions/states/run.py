"""One state run on one minion: what it has asked so far, and how it asks.

Source: RemoteClient in salt/fileclient.py and salt/utils/extmods.py of Salt 3008.5.

A thousand minions that ran the same states have the same: each such set is held once.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import salt.payload

from evil_minions.functions import job
from evil_minions.functions.registry import Host, fetch
from evil_minions.inventory.inventory import Target

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from evil_minions.functions.registry import Ask, Call

NOTHING: Final[frozenset[Held]] = frozenset()


class Caches:
    """What each minion has, by its index."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sets: dict[frozenset[Held], frozenset[Held]] = {}
        self._of: dict[int, frozenset[Held]] = {}

    def of(self, index: int) -> frozenset[Held]:
        """Return what a minion has."""
        return self._of.get(index, NOTHING)

    def add(self, index: int, keys: Iterable[Held]) -> None:
        """Give a minion more; a newer version of a file or a state takes the place of the older one."""
        new = {key[:-1]: key for key in keys}
        if not new:
            return
        found = frozenset({**{key[:-1]: key for key in self.of(index)}, **new}.values())
        self._of[index] = self._sets.setdefault(found, found)
        if len(self._sets) > 2 * len(self._of) + 16:
            self._sets = {each: each for each in self._of.values()}

    def forget(self, index: int) -> None:
        """Take everything from a minion, as when its machine is reinstalled."""
        self._of.pop(index, None)


_TOP: Final = "top.sls"
_MODULES: Final = (".py", ".pyx", ".so", ".zip")


class Files:
    """One minion's file client: `held` is what it had before, `got` what it has fetched since."""

    def __init__(
        self, minion_id: str, grains: Callable[[], Mapping[str, Any]], ask: Ask, held: frozenset[Held]
    ) -> None:
        """Begin with nothing fetched."""
        self._id = minion_id
        self._grains = grains
        self._ask = ask
        self._held = held
        self.got: set[Held] = set()

    def has(self, key: Held) -> bool:
        """Return whether the minion has a file in this version."""
        return key in self.got or key in self._held

    async def fetch(self, load: Mapping[str, Any], key: Held) -> bytes:
        """Fetch a file."""
        content = await fetch(self._ask, load)
        self.got.add(key)
        return content

    async def cache(self, path: str, saltenv: str) -> bool | None:
        """Have a file: return whether it had to be fetched, None if the master has none."""
        found = await self._ask({"path": path, "saltenv": saltenv, "cmd": "_file_hash"})
        if not found:
            return None
        key = ("cache", saltenv, path, str(found["hsum"]))
        if self.has(key):
            return False
        await self.fetch({"path": path, "saltenv": saltenv}, key)
        return True

    async def top(self) -> None:
        """Ask for the top file of every environment, and for what the master's tops say."""
        saltenvs = await self._ask({"cmd": "_file_envs"})
        for saltenv in dict.fromkeys(["base", *(saltenvs if isinstance(saltenvs, list) else [])]):
            await self.cache(_TOP, saltenv)
        opts = {"id": self._id, "grains": self._grains()}
        await self._ask({"cmd": "_master_tops", "id": self._id, "opts": opts})

    async def modules(self, kind: str, saltenvs: Sequence[str]) -> list[str]:
        """Have the master's own modules of one kind; return the names of those that are new."""
        new: list[str] = []
        prefix = f"_{kind}/"
        for saltenv in saltenvs:
            paths = await self._ask({"saltenv": saltenv, "prefix": "", "cmd": "_file_list"})
            wanted = [each for each in paths if each.startswith(prefix) and each.endswith(_MODULES)]
            new += [each.removeprefix(prefix) for each in wanted if await self.cache(each, saltenv)]
        return [f"{kind}.{name.rpartition('.')[0].replace('/', '.')}" for name in new]


MISSING: Final = "\0missing"
"""Stands for the value of a grain or a part of the pillar that isn't there."""

# what a minion has: ("cache", saltenv, path, hash), ("file", path on the minion, hash), ("state", tag, fingerprint)
Held = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One request: its load without the minion's own values, the seconds of work before it, and its answer.

    Without a load it is a file, which `held` identifies; a minion that does not have it fetches it.
    """

    load: Mapping[str, Any]
    pause: float
    answer: Any = None
    held: Held | None = None

    def like(self, other: Step) -> bool:
        """Return whether another run made the same request and heard the same."""
        return self.load == other.load and self.held == other.held and self.answer == other.answer


@dataclass(frozen=True, slots=True)
class StatePlan:
    """The steps of a run, its return, and all that the run looked at: the plan fits minions where that is the same.

    `grains` and `pillar` are values of the top level, `shapes` the shapes (see `shape`) of those that files only print.
    `targets` are those of the top file and whether they matched the minion, `calls` functions with what they returned,
    `effects` what states leave behind and whether the minion had it before. `leaves` is what it has afterwards.
    """

    steps: tuple[Step, ...]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    shapes: tuple[Mapping[str, Any], Mapping[str, Any]]
    targets: tuple[tuple[Any, str, bool], ...]
    calls: tuple[tuple[str, Sequence[Any], Mapping[str, Any], Any], ...]
    effects: tuple[tuple[Held, bool], ...]
    leaves: frozenset[Held]
    value: Any
    retcode: int
    pause: float

    def continues(self, given: Sequence[Step]) -> bool:
        """Return whether a run that has made these steps may go on with the rest of this one's."""
        return len(given) <= len(self.steps) and all(
            mine.like(theirs) for mine, theirs in zip(self.steps, given, strict=False)
        )

    def suits(self, grains: Mapping[str, Any], pillar: Mapping[str, Any], held: frozenset[Held]) -> bool:
        """Return whether a minion with these grains, this pillar and what it has would have made the same run."""
        return (
            all(grains.get(name, MISSING) == value for name, value in self.grains.items())
            and all(pillar.get(name, MISSING) == value for name, value in self.pillar.items())
            and all(shape(grains.get(name, MISSING)) == form for name, form in self.shapes[0].items())
            and all(shape(pillar.get(name, MISSING)) == form for name, form in self.shapes[1].items())
            and all((key in held) == before for key, before in self.effects)
        )


def shape(value: Any) -> Any:
    """Return what matters of a value that a template only prints: its keys, and whether it is there."""
    if isinstance(value, dict):
        return {name: shape(child) for name, child in value.items()}
    if isinstance(value, list):
        return [shape(child) for child in value]
    return MISSING if value == MISSING else None


SPREAD: Final = 0.25
"""Spread of the log-normal factor of every time."""


class StateHost(Host, Protocol):
    """A minion as a state run sees it."""

    index: int

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches this minion."""


@dataclass(slots=True)
class Run:
    """A run: `given` are the steps that it has made, `held` is what the minion had before, `files` its file client."""

    host: StateHost
    ask: Ask
    rng: random.Random
    call: Call
    pillar: Mapping[str, Any]
    grains: Mapping[str, Any]
    held: frozenset[Held]
    files: Files
    given: list[Step] = field(default_factory=list)

    def factor(self) -> float:
        """Return what the time of some work is multiplied by."""
        return self.rng.lognormvariate(0.0, SPREAD)

    async def question(self, load: Mapping[str, Any]) -> Any:
        """Ask, with what is the minion's own in the load."""
        found = dict(load)
        if load["cmd"] == "_master_tops":
            found |= {"id": self.host.id, "opts": {"id": self.host.id, "grains": self.host.grains()}}
        elif load["cmd"] == "_mine_get":
            found["id"] = self.host.id
        return await self.ask(found)

    async def fetch(self, step: Step, *, wanted: bool) -> bytes | None:
        """Fetch a file as a minion does, part by part, if it hasn't got it or somebody wants its content."""
        if step.held is None or (not wanted and self.files.has(step.held)):
            return None
        return await self.files.fetch(step.load, step.held)

    def called(self, name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of a simulated function that needs no time, or the error of one that fails or needs some."""
        given = [*args, {"__kwarg__": True, **keywords}] if keywords else list(args)
        outcome = job.begin(self.host, dict(self.call.load), self.call.pid, name, given)
        if inspect.iscoroutine(outcome):
            outcome.close()
            return {"error": f"{name} can't be called while states are compiled: take it out of the state files."}
        return {"error": str(outcome.value)} if outcome.error is not None else {"value": outcome.value}


class Leader:
    """A run that is compiled: makes the requests that the compiler asks for, and writes its plan down."""

    def __init__(self, run: Run) -> None:
        """Begin where the run is."""
        self._run = run
        self._ready = list(run.given)
        self._steps: list[Step] = []
        self._targets: list[tuple[Any, str, bool]] = []
        self._calls: list[tuple[str, Sequence[Any], Mapping[str, Any], Any]] = []
        self._known: dict[bytes, Any] = {}

    async def answer(self, message: dict[str, Any]) -> Any:
        """Answer one message of the compiler."""
        if "ask" in message:
            return await self._ask(message["ask"], message["pause"])
        if "load" in message:
            return await self._file(message)
        if "match" in message:
            tgt, kind = message["match"]
            meant = self._run.host.is_meant(Target(tgt, kind))
            self._targets.append((tgt, kind, meant))
            return meant
        name, args, keywords = message["call"]
        value = self._run.called(name, args, keywords)
        self._calls.append((name, args, keywords, value))
        return value

    async def _ask(self, load: Mapping[str, Any], pause: float) -> Any:
        """Ask the master, unless this run has done so before it was compiled."""
        if self._ready and self._ready[0].held is None and self._ready[0].load == load:
            found = self._ready.pop(0).answer
        else:
            self._ready.clear()
            await asyncio.sleep(pause * self._run.factor())
            found = await self._run.question(load)
        # most lists are asked for many times
        found = self._known.setdefault(bytes(salt.payload.dumps(found)), found)
        self._steps.append(Step(dict(load), pause, found))
        return found

    async def _file(self, message: dict[str, Any]) -> bytes | None:
        """Have a file fetched, unless the minion has it."""
        step = Step(dict(message["load"]), message["pause"], None, tuple(message["held"]))
        self._steps.append(step)
        if self._ready and self._ready[0].like(step):
            self._ready.pop(0)
        else:
            self._ready.clear()
        return await self._run.fetch(step, wanted=bool(message["wanted"]))

    def plan(self, end: Mapping[str, Any]) -> StatePlan:
        """Return the plan of a run that has ended so."""
        run = self._run
        return StatePlan(
            steps=tuple(self._steps),
            grains={name: run.grains.get(name, MISSING) for name in end["grains"]},
            pillar={name: run.pillar.get(name, MISSING) for name in end["pillar"]},
            shapes=(
                {name: shape(run.grains.get(name, MISSING)) for name in end["shown"]["grains"]},
                {name: shape(run.pillar.get(name, MISSING)) for name in end["shown"]["pillar"]},
            ),
            targets=tuple(self._targets),
            calls=tuple(self._calls),
            effects=tuple((tuple(each), tuple(each) in run.held) for each in end["effects"]),
            leaves=frozenset(tuple(each) for each in end["leaves"]),
            value=end["value"],
            retcode=end["retcode"],
            pause=end["pause"],
        )
