"""The call of a function: the job that it belongs to, and the minion that it runs on."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from evil_minions.functions.host import Asking, Described, Working

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from evil_minions.functions.registry import Function
    from evil_minions.functions.tree import State


class Recorded(Protocol):
    """What was recorded, as a job asks for it: see `evil_minions.recording.replay`."""

    def find(self, name: str, args: Sequence[Any]) -> Function | None:
        """Return what answers to a function with these arguments."""


class StateRunner(Protocol):
    """What runs the master's own states: see `evil_minions.states`."""

    async def run(self, call: Call, host: Any, mods: Sequence[str] | None, options: Mapping[str, Any]) -> Any:
        """Run a highstate (`mods` is None) or some state files; return what comes of it, and the exit code."""

    async def synchronise(self, host: Any, kinds: Sequence[str], saltenvs: Sequence[str]) -> dict[str, list[str]]:
        """Fetch the master's own modules of some kinds; return the names of the new ones by kind."""


class Answering(Protocol):
    """Where a minion's answers come from, beside the simulated functions."""

    @property
    def replay(self) -> Recorded | None:
        """What was recorded, if the fleet replays something."""

    @property
    def states(self) -> Sequence[State] | None:
        """The states of the simulated tree, None where the master's own are run."""

    @property
    def planner(self) -> StateRunner:
        """What runs the master's own states."""


class Host(Described, Answering, Working, Asking, Protocol):
    """A minion."""


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
        """The job's random numbers, the same in each run with the same seed; get them once, and use them at once."""
        return self.host.job_rng(self.pid)

    def others(self) -> list[dict[str, Any]]:
        """Return the data of the jobs that run beside this one."""
        return [data for data in self.host.running() if data["pid"] != self.pid]


CURRENT: ContextVar[Call] = ContextVar("call")
