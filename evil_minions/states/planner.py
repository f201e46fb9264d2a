"""Runs states on minions: for the first of several similar minions the run is compiled, the others follow its plan.

A follower compares every answer with what the leader heard. When one differs (a file has changed on the master) it
looks for a plan that goes on from there, or has the rest compiled itself: nothing that was asked is asked twice. A
thousand minions that ran the same states have the same: each such set is held once.
Source: RemoteClient in salt/fileclient.py and salt/utils/extmods.py of Salt 3008.5.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import struct
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

import salt.payload

from evil_minions.errors import CompilerError
from evil_minions.functions import Host, ask_all, fetch, job
from evil_minions.inventory.targets import Target
from evil_minions.line import Child

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from evil_minions.functions import Ask, Call


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


_LENGTH: Final = struct.Struct(">I")
_MODULE: Final = "evil_minions.states.compile"


class Compiler:
    """The compiling process of a worker."""

    def __init__(self, folder: Path) -> None:
        """Start nothing yet; what the process caches lies below `folder` while it runs."""
        self._folder = folder
        self._child: Child | None = None

    async def compile(
        self, order: dict[str, Any], answer: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> dict[str, Any]:
        """Have one run compiled; `answer` answers what the compiler asks on the way. Return the outcome.

        Raises:
            CompilerError: if the process ends meanwhile.
        """
        if self._child is None or self._child.process.returncode is not None:
            self._child = await Child.start("The state compiler of the fleet", _MODULE, str(self._folder))
        child = self._child
        try:
            await _send(child, order)
            while "end" not in (message := await _receive(child)):
                await _send(child, {"answer": await answer(message)})
        except (OSError, asyncio.IncompleteReadError) as error:
            end = await child.describe_end()
            await self.close()
            raise CompilerError(end) from error
        except BaseException:
            # whatever it waits for won't come
            await self.close()
            raise
        return dict(message["end"])

    async def close(self) -> None:
        """End the process: it tidies up and goes when nobody is there any more, or is killed."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop(asked=False)


async def _send(child: Child, message: dict[str, Any]) -> None:
    data = salt.payload.dumps(message, use_bin_type=True)
    child.line.writer.write(_LENGTH.pack(len(data)) + data)
    await child.line.writer.drain()


async def _receive(child: Child) -> dict[str, Any]:
    reader = child.line.reader
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return dict(salt.payload.loads(await reader.readexactly(length), encoding="utf-8"))


_MOST_PLANS: Final = 500


class Planner:
    """The plans of a worker."""

    def __init__(self, compiler: Compiler, caches: Caches) -> None:
        """Begin without any."""
        self._compiler = compiler
        self._caches = caches
        self._plans: OrderedDict[str, list[StatePlan]] = OrderedDict()
        self._lead = asyncio.Lock()

    @property
    def plans(self) -> list[StatePlan]:
        """Every plan that there is."""
        return [plan for plans in self._plans.values() for plan in plans]

    async def run(
        self, call: Call, host: StateHost, mods: Sequence[str] | None, options: Mapping[str, Any]
    ) -> tuple[Any, int]:
        """Run states: a highstate, or some state files; return what comes of it, and the exit code.

        Raises:
            ExchangeError: if the master doesn't answer.
            CompilerError: if the compiling process fails.
        """
        (opts,) = await ask_all(host, [{"cmd": "_master_opts"}])
        override = options.get("pillar")
        pillar = await host.fetch_pillar(override=override if isinstance(override, dict) else None)
        # what the compiler is told, and what plans of the same request under the same options of the master share
        request = {"mods": mods, "options": dict(options), "opts": opts}
        key = json.dumps(request, sort_keys=True, default=str)
        with host.asking() as ask:
            held = self._caches.of(host.index)
            files = Files(host.id, host.grains, ask, held)
            run = Run(host, ask, call.rng, call, pillar, host.grains(), held, files)
            try:
                plan = await self._complete(run, key, request)
            finally:
                self._caches.add(host.index, files.got)
        await asyncio.sleep(plan.pause * run.factor())
        self._caches.add(host.index, plan.leaves)
        return stamped(plan.value, run.rng), plan.retcode

    async def synchronise(self, host: StateHost, kinds: Sequence[str], saltenvs: Sequence[str]) -> dict[str, list[str]]:
        """Fetch the master's own modules of some kinds, and what leads to them; return the new ones' names by kind.

        Raises:
            ExchangeError: if the master doesn't answer.
        """
        await ask_all(host, [{"cmd": "_master_opts"}])
        with host.asking() as ask:
            files = Files(host.id, host.grains, ask, self._caches.of(host.index))
            try:
                await files.top()
                return {kind: await files.modules(kind, saltenvs) for kind in kinds}
            finally:
                self._caches.add(host.index, files.got)

    async def _complete(self, run: Run, key: str, request: Mapping[str, Any]) -> StatePlan:
        """Make a run to its end, and return its plan. Every turn brings it a step further, or ends it."""
        while True:
            plan = self._find(run, key)
            if plan is None:
                async with self._lead:
                    plan = self._find(run, key)
                    if plan is None:
                        return await self._compiled(run, key, request)
            if await self._follow(run, plan):
                return plan

    def _find(self, run: Run, key: str) -> StatePlan | None:
        """Return a plan that a run can go on with, the latest first."""
        for plan in reversed(self._plans.get(key, ())):
            if (
                plan.suits(run.grains, run.pillar, run.held)
                and plan.continues(run.given)
                and all(run.host.is_meant(Target(tgt, kind)) == meant for tgt, kind, meant in plan.targets)
                and all(run.called(name, args, keywords) == value for name, args, keywords, value in plan.calls)
            ):
                return plan
        return None

    async def _follow(self, run: Run, plan: StatePlan) -> bool:
        """Make the rest of a plan's steps; return whether every answer was the plan's."""
        for step in plan.steps[len(run.given) :]:
            await asyncio.sleep(step.pause * run.factor())
            if step.held is not None:
                await run.fetch(step, wanted=False)
                run.given.append(step)
                continue
            answer = await run.question(step.load)
            same = answer == step.answer
            run.given.append(step if same else Step(step.load, step.pause, answer))
            if not same:
                return False
        return True

    async def _compiled(self, run: Run, key: str, request: Mapping[str, Any]) -> StatePlan:
        """Have a run compiled, making its requests on the way; keep its plan."""
        host = run.host
        leader = Leader(run)
        end = await self._compiler.compile(
            {
                **request,
                "id": host.id,
                "grains": dict(run.grains),
                "pillar": dict(run.pillar),
                "held": [key for key in run.held if key[0] == "state"],
            },
            leader.answer,
        )
        plan = leader.plan(end)
        if end.get("failed"):
            return plan
        plans = self._plans.setdefault(key, [])
        plans.append(plan)
        del plans[:-_MOST_PLANS]
        self._plans.move_to_end(key)
        while len(self._plans) > _MOST_PLANS:
            self._plans.popitem(last=False)
        return plan

    async def close(self) -> None:
        """End the compiling process."""
        await self._compiler.close()


def stamped(value: Any, rng: random.Random) -> Any:
    """Return the results of states with times of a minion's own; lists of errors as they are."""
    if not isinstance(value, dict):
        return value
    start = datetime.now(UTC).astimezone()
    found: dict[str, Any] = {}
    for tag, result in value.items():
        if not isinstance(result, dict) or "duration" not in result:
            found[tag] = result
            continue
        duration = round(result["duration"] * rng.lognormvariate(0.0, SPREAD), 3)
        found[tag] = {**result, "duration": duration, "start_time": start.strftime("%H:%M:%S.%f")}
        start += timedelta(milliseconds=duration)
    return found
