"""What an execution function may know of the job and the minion that it runs on."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Mapping, Sequence


class Host(Protocol):
    """The minion as its functions see it."""

    id: str

    @property
    def rng(self) -> random.Random:
        """The source of chance for what belongs to no job."""

    def chance(self, pid: int) -> random.Random:
        """Return the source of chance of the job with this process id; draw at once."""

    def grains(self) -> dict[str, Any]:
        """Return the grains."""

    def running(self) -> list[dict[str, Any]]:
        """Return the data of every job that runs now."""

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Have the master compile the pillar anew; what is kept for targets stays as it is."""

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Start to fetch the pillar that is kept, in the background."""

    async def errands(self, loads: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Ask the master for several things one after the other, over a connection of their own."""


@dataclass(slots=True)
class Call:
    """One function of one job; a function may set `retcode`."""

    host: Host
    load: Mapping[str, Any]
    pid: int
    retcode: int = 0

    @property
    def rng(self) -> random.Random:
        """This job's source of chance, the same in each run with the same seed; draw at once, and ask only once."""
        return self.host.chance(self.pid)

    def others(self) -> list[dict[str, Any]]:
        """Return the data of the jobs that run beside this one."""
        return [data for data in self.host.running() if data["pid"] != self.pid]


CURRENT: ContextVar[Call] = ContextVar("call")
