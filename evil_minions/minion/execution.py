"""A job that runs on a minion: what saltutil.running shows, and its way to a return."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

from evil_minions.functions import job
from evil_minions.functions.call import Host

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from evil_minions.minion.publication import Publication
    from evil_minions.protocol.envelope import Load


class ExecutionHost(Host, Protocol):
    """The minion behind an execution."""

    def finished(self, execution: Execution, load: Load) -> bool:
        """Take the load of the return; return whether it is sent."""


class Execution:
    """One job on one minion, with a process id as a real one has."""

    __slots__ = ("_host", "pid", "publication")

    def __init__(self, host: ExecutionHost, publication: Publication, pid: int) -> None:
        """Stand for a process that starts."""
        self._host = host
        self.pid = pid
        self.publication = publication

    def data(self) -> dict[str, Any]:
        """Return what a real minion writes into its file of running jobs."""
        return {"pid": self.pid, **self.publication.load}

    def run(self) -> Coroutine[Any, Any, None] | None:
        """Run the function; a coroutine comes back if that takes time."""
        load = self.publication.load
        if job.is_multiple(load):
            return self._run_multiple()
        outcome = job.begin(self._host, load, self.pid, load["fun"], load["arg"])
        if inspect.iscoroutine(outcome):
            return self._run_single(outcome)
        self.finish(job.single_return(load, self._host.id, outcome))
        return None

    def finish(self, load: Load) -> None:
        """Hand the return over."""
        self._host.finished(self, load)

    async def _run_single(self, outcome: Coroutine[Any, Any, job.Outcome]) -> None:
        """Wait for the function."""
        load = self.publication.load
        self.finish(job.single_return(load, self._host.id, await outcome))

    async def _run_multiple(self) -> None:
        """Run several functions one after the other."""
        self.finish(await job.multiple_return(self._host, self.publication.load, self.pid))
