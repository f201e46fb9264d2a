"""Runs states on minions: for the first of several similar minions the run is compiled, the others follow its plan.

A follower compares every answer with what the leader heard. When one differs (a file has changed on the master) it
looks for a plan that goes on from there, or has the rest compiled itself: nothing that was asked is asked twice.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import salt.payload

from evil_minions.errors import CompilerError
from evil_minions.functions.registry import ask_all
from evil_minions.inventory.inventory import Target
from evil_minions.states.run import SPREAD, Files, Leader, Run, StateHost, StatePlan, Step

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from evil_minions.functions.registry import Call
    from evil_minions.states.run import Caches

_LENGTH: Final = struct.Struct(">I")
_END_SECONDS: Final = 10.0
_MODULE: Final = "evil_minions.states.compile"


class Compiler:
    """The compiling process of a worker."""

    def __init__(self, folder: Path) -> None:
        """Start nothing yet; what the process caches lies below `folder` while it runs."""
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def _start(self) -> None:
        """Start the process; it ends with the connection."""
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _MODULE, str(theirs.fileno()), str(self._folder), pass_fds=[theirs.fileno()]
            )
        self._reader, self._writer = await asyncio.open_connection(sock=mine)

    async def compile(
        self, order: dict[str, Any], answer: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> dict[str, Any]:
        """Have one run compiled; `answer` answers what the compiler asks on the way. Return the outcome.

        Raises:
            CompilerError: if the process ends meanwhile.

        """
        if self._process is None or self._process.returncode is not None:
            await self._start()
        try:
            await self._send(order)
            while True:
                message = await self._receive()
                if "end" in message:
                    return dict(message["end"])
                await self._send({"answer": await answer(message)})
        except (OSError, asyncio.IncompleteReadError) as error:
            await self.close()
            raise CompilerError("The state compiler of the fleet has ended: see what it printed.") from error
        except BaseException:
            # whatever it waits for won't come
            await self.close()
            raise

    async def _send(self, message: dict[str, Any]) -> None:
        data = salt.payload.dumps(message, use_bin_type=True)
        if self._writer is not None:
            self._writer.write(_LENGTH.pack(len(data)) + data)
            await self._writer.drain()

    async def _receive(self) -> dict[str, Any]:
        if self._reader is None:
            raise CompilerError("The state compiler of the fleet was not started.")
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        return dict(salt.payload.loads(await self._reader.readexactly(length), encoding="utf-8"))

    async def close(self) -> None:
        """End the process: it tidies up and goes when nobody is there any more, or is killed."""
        process, self._process = self._process, None
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        if process is None:
            return
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


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
