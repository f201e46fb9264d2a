"""Runs states on minions: for the first of several similar minions the run is compiled, the others follow its plan.

A follower compares every answer with what the leader heard. When one differs (a file has changed on the master) it
looks for a plan that goes on from there, or has the rest compiled itself: nothing that was asked is asked twice.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from evil_minions.inventory.target import Target
from evil_minions.states.files import Files
from evil_minions.states.plan import StatePlan, Step
from evil_minions.states.run import SPREAD, Leader, Run, StateHost

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from evil_minions.functions.call import Call
    from evil_minions.states.caches import Caches
    from evil_minions.states.compiler import Compiler

_MOST_PLANS: Final = 500


@dataclass(frozen=True, slots=True)
class StateRequest:
    """What is to be run: a highstate, or the state files `mods`; `options` are the function's keywords."""

    mods: tuple[str, ...] | None
    options: Mapping[str, Any]

    def key(self, opts: Any) -> str:
        """Return what plans of the same request under the same options of the master have in common."""
        return json.dumps([self.mods, self.options, opts], sort_keys=True, default=str)


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
        request = StateRequest(None if mods is None else tuple(mods), dict(options))
        (opts,) = await host.ask_all([{"cmd": "_master_opts"}])
        override = request.options.get("pillar")
        pillar = await host.fetch_pillar(override=override if isinstance(override, dict) else None)
        key = request.key(opts)
        with host.asking() as ask:
            held = self._caches.of(host.index)
            files = Files(host.id, host.grains, ask, held)
            run = Run(host, ask, call.rng, call, pillar, host.grains(), held, files)
            try:
                plan = await self._complete(run, key, request, opts)
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
        await host.ask_all([{"cmd": "_master_opts"}])
        with host.asking() as ask:
            files = Files(host.id, host.grains, ask, self._caches.of(host.index))
            try:
                await files.top()
                return {kind: await files.modules(kind, saltenvs) for kind in kinds}
            finally:
                self._caches.add(host.index, files.got)

    async def _complete(self, run: Run, key: str, request: StateRequest, opts: Any) -> StatePlan:
        """Make a run to its end, and return its plan. Every turn brings it a step further, or ends it."""
        while True:
            plan = self._find(run, key)
            if plan is None:
                async with self._lead:
                    plan = self._find(run, key)
                    if plan is None:
                        return await self._compiled(run, key, request, opts)
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

    async def _compiled(self, run: Run, key: str, request: StateRequest, opts: Any) -> StatePlan:
        """Have a run compiled, making its requests on the way; keep its plan."""
        host = run.host
        leader = Leader(run)
        end = await self._compiler.compile(
            {
                "id": host.id,
                "mods": request.mods,
                "options": dict(request.options),
                "opts": opts,
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
