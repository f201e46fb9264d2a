"""What functions may ask of the minion that they run on, in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Generator, Mapping, Sequence


class Described(Protocol):
    """What a minion is: its id, random numbers, grains and the pillar that is kept."""

    id: str

    @property
    def rng(self) -> random.Random:
        """Random numbers that belong to no job."""

    def job_rng(self, pid: int) -> random.Random:
        """Return the random numbers of the job with this process id; shared, so use them at once."""

    def grains(self) -> dict[str, Any]:
        """Return the grains."""

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""

    def pillar_item(self, name: str) -> Any:
        """Return one value of the pillar's top level, or None; don't change it."""


class Working(Protocol):
    """The jobs of a minion."""

    def running(self) -> list[dict[str, Any]]:
        """Return the data of every job that runs now."""

    def queued(self) -> list[dict[str, Any]]:
        """Return the data of every job that waits in the minion's own queue."""

    def stop_job(self, jid: str) -> int | None:
        """End a job for good, without a return; return the process id that it had, None if it doesn't run."""


class Asking(Protocol):
    """What a minion asks and tells its master."""

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Have the master compile the pillar again; the one that is kept for targets stays as it is."""

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Start to fetch the pillar that is kept, in the background."""

    async def ask_in_turn(self, questions: Generator[Mapping[str, Any], Any, Any]) -> Any:
        """Ask the master for things that depend on the answer before, and return what comes of that."""

    async def ask_all(self, loads: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Ask the master for several things one after the other, over a connection of their own."""

    def fire(self, tag: str, data: object) -> None:
        """Send an event to the master's bus."""

    def register_resources(self) -> None:
        """Tell the master which resources this minion manages: none."""
