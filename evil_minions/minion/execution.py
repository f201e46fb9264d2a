"""A job that runs on a minion: what saltutil.running shows, and its way to a return."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

from evil_minions.behaviour.plan import HEALTHY
from evil_minions.behaviour.reply import NORMAL, NOTHING
from evil_minions.functions import job
from evil_minions.functions.call import Host

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from evil_minions.behaviour.plan import Plan
    from evil_minions.minion.publication import Publication
    from evil_minions.protocol.envelope import Load


class ExecutionHost(Host, Protocol):
    """The minion behind an execution."""

    def finished(self, execution: Execution, load: Load) -> None:
        """Take the load of the return."""

    def silent(self, execution: Execution) -> None:
        """Handle the end of a job that has no return."""


class Execution:
    """One job on one minion, with a process id as a real one has, run as its plan says."""

    __slots__ = ("_host", "pid", "plan", "publication")

    def __init__(self, host: ExecutionHost, publication: Publication, pid: int, plan: Plan = HEALTHY) -> None:
        """Stand for a process that starts."""
        self._host = host
        self.pid = pid
        self.plan = plan
        self.publication = publication

    def data(self) -> dict[str, Any]:
        """Return what a real minion writes into its file of running jobs."""
        return {"pid": self.pid, **self.publication.load}

    def run(self) -> Coroutine[Any, Any, None] | None:
        """Do what the plan says; a coroutine comes back if that takes time."""
        load, reply = self.publication.load, self.plan.reply
        if reply.kind == NOTHING:
            self._host.silent(self)
            return None
        literal = reply.result(self._host.id)
        if literal is not None:
            self._finish(job.literal_return(load, self._host.id, literal))
            return None
        if job.is_multiple(load):
            return self._run_multiple()
        result = job.begin(self._host, load, self.pid, load["fun"], load["arg"])
        if inspect.iscoroutine(result):
            return self._run_single(result)
        self._finish(job.single_return(load, self._host.id, result))
        return None

    def _finish(self, load: Load) -> None:
        """Hand the return over, with the exit code of the plan if that has one."""
        reply = self.plan.reply
        if reply.retcode is not None and reply.kind == NORMAL and isinstance(load["retcode"], int):
            load = {**load, "retcode": reply.retcode, "success": reply.retcode == 0}
        self._host.finished(self, load)

    async def _run_single(self, result: Coroutine[Any, Any, job.Result]) -> None:
        """Wait for the function."""
        load = self.publication.load
        self._finish(job.single_return(load, self._host.id, await result))

    async def _run_multiple(self) -> None:
        """Run several functions one after the other."""
        self._finish(await job.multiple_return(self._host, self.publication.load, self.pid))
