"""What an execution function may know of the job and the minion that it runs on."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Generator, Mapping, Sequence

    from evil_minions.functions.registry import Function
    from evil_minions.functions.tree import State


class Answers(Protocol):
    """What was recorded, as a job asks for it: see `evil_minions.recording.replay`."""

    def find(self, name: str, args: Sequence[Any]) -> Function | None:
        """Return what answers to a function with these arguments."""


class StateRunner(Protocol):
    """What runs the master's own states: see `evil_minions.states`."""

    async def run(self, call: Call, host: Any, mods: Sequence[str] | None, options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - value and exit code
        """Run a highstate (`mods` is None) or some state files; return what comes of it, and the exit code."""

    async def synchronise(self, host: Any, kinds: Sequence[str], saltenvs: Sequence[str]) -> dict[str, list[str]]:  # noqa: ANN401 - a minion
        """Fetch the master's own modules of some kinds; return the names of the new ones by kind."""


class Host(Protocol):
    """The minion as its functions see it."""

    id: str

    @property
    def rng(self) -> random.Random:
        """The source of chance for what belongs to no job."""

    def job_rng(self, pid: int) -> random.Random:
        """Return the source of chance of the job with this process id; draw at once."""

    @property
    def replay(self) -> Answers | None:
        """What was recorded, if the fleet replays something."""

    def grains(self) -> dict[str, Any]:
        """Return the grains."""

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""

    def register_resources(self) -> None:
        """Tell the master which resources this minion manages: none."""

    def running(self) -> list[dict[str, Any]]:
        """Return the data of every job that runs now."""

    def queued(self) -> list[dict[str, Any]]:
        """Return the data of every job that waits in the minion's own queue."""

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Have the master compile the pillar anew; what is kept for targets stays as it is."""

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Start to fetch the pillar that is kept, in the background."""

    @property
    def states(self) -> Sequence[State] | None:
        """The states of the simulated tree, None where the master's own are run."""

    @property
    def planner(self) -> StateRunner:
        """What runs the master's own states."""

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""

    def pillar_item(self, name: str) -> Any:  # noqa: ANN401 - whatever a pillar holds
        """Return one value of the pillar's top level, or None; don't change it."""

    def stop_job(self, jid: str) -> int | None:
        """End a job for good, without a return; return the process id that it had, None if it doesn't run."""

    async def converse(self, questions: Generator[Mapping[str, Any], Any, Any]) -> Any:  # noqa: ANN401 - the questions' end
        """Ask the master for things that depend on the answer before, and return what comes of that."""

    def fire(self, tag: str, data: object) -> None:
        """Send an event to the master's bus."""

    async def errands(self, loads: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Ask the master for several things one after the other, over a connection of their own."""


@dataclass(slots=True)
class Call:
    """One function of one job; a function may set `retcode`, and `out`, the outputter; `table` has all functions."""

    host: Host
    load: Mapping[str, Any]
    pid: int
    retcode: int = 0
    out: str | None = None
    table: Mapping[str, Function] = field(default_factory=dict)

    @property
    def rng(self) -> random.Random:
        """This job's source of chance, the same in each run with the same seed; draw at once, and ask only once."""
        return self.host.job_rng(self.pid)

    def others(self) -> list[dict[str, Any]]:
        """Return the data of the jobs that run beside this one."""
        return [data for data in self.host.running() if data["pid"] != self.pid]


CURRENT: ContextVar[Call] = ContextVar("call")
