"""Two masters of a Salt cluster with one queue in PostgreSQL, and some simulated minions at each.

They share keys and cache, as Salt's documentation has it, and listen at two addresses of the loopback interface.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import zip_longest
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import psutil
from psycopg2.extensions import parse_dsn

from harness.bed import Bed, BedSettings
from harness.bed.settings import temporary_parent
from harness.database import Place, Postgres, sources, wait_ready
from harness.database.cluster import PLACES, local_binaries
from harness.processes.ports import Ports
from harness.processes.processes import Processes
from tests.live.helpers.handler_bed import IPC_MODE, READY_S, TRANSPORT, Client, HandlerBed, most_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from evil_minions.samples import ReturnRow
    from harness.processes.processes import Process

# the third one has no job handler and no minions: without it the Raft of the cluster would have no majority when a
# master is killed, and the one that comes back would not serve anybody
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
MINIONS = 10
STOP_S, START_S = 20.0, 30.0


class Server:
    """A PostgreSQL that can be stopped and started."""

    def __init__(self, processes: Processes, ports: Ports, logs: Path) -> None:
        """Start it."""
        source: Any = "local" if local_binaries(os.environ, PLACES) else "wheel"
        self._processes = processes
        self.postgres: Postgres = sources.start(Place(processes, ports, logs, os.environ), source)
        assert self.postgres.process
        self._process: Process = self.postgres.process

    def options(self) -> dict[str, Any]:
        """Return the options of the job handler's section `postgresql`."""
        return dict(parse_dsn(self.postgres.dsn))

    def stop(self) -> None:
        """Stop it."""
        self._process.stop(STOP_S)

    def start(self) -> None:
        """Start it again with what it holds."""
        self._process = self._processes.start("postgres", self._process.command)
        wait_ready(replace(self.postgres, process=self._process), self._process, START_S)


class Cluster:
    """The masters, each with its fleet, and the cachedir that they share."""

    def __init__(self, members: Sequence[HandlerBed], cache: Path) -> None:
        """Take the parts."""
        self.members = members
        self.cache = cache

    def ids(self, number: int) -> list[str]:
        """Return the ids of the minions at one master."""
        return [f"minion-{MINIONS * number + minion:05d}" for minion in range(MINIONS)]

    def leader(self) -> HandlerBed:
        """Return the master whose job handler leads."""
        leads = psutil.Process(self.members[0].pid())
        above = {process.pid for process in leads.parents()}
        (found,) = [member for member in self.members if member.bed.master_pid in above]
        return found

    def follower(self) -> HandlerBed:
        """Return the other one."""
        leader = self.leader()
        (found,) = [member for member in self.members if member is not leader]
        return found

    def returns(self) -> list[ReturnRow]:
        """Return the samples of all returns so far."""
        return [row for member in self.members for row in member.returns()]

    def executions(self, jids: Sequence[str]) -> list[tuple[str, str]]:
        """Return (job, minion) for each execution of these jobs."""
        return [pair for member in self.members for pair in member.executions(jids)]

    def most_at_once(self, jids: Sequence[str]) -> int:
        """Return how many executions of these jobs, which have one minion each, overlapped at most."""
        return most_at_once([member.fleet.folder for member in self.members], jids)


def kill(member: HandlerBed) -> None:
    """Kill all processes of a master."""
    process = psutil.Process(member.bed.master_pid)
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGKILL)


@contextmanager
def server(logs: Path) -> Iterator[Server]:
    """Yield a server."""
    with Processes(temporary_parent()) as processes, Ports(SystemRandom()) as ports:
        yield Server(processes, ports, logs)


@contextmanager
def cluster(
    root: Path, folder: Path, sections: Sequence[dict[str, Any]], *, survives: bool = True
) -> Iterator[Cluster]:
    """Yield a cluster that is ready; each master has one of the sections `rate_limiting`.

    `survives` says whether a third master keeps the majority when one is killed.
    """
    hosts = HOSTS if survives else HOSTS[: len(sections)]
    with ExitStack() as stack:
        shared = stack.enter_context(Processes(temporary_parent())).folder
        pool = stack.enter_context(Ports(SystemRandom())).take("cluster")
        (shared / "pki" / "peers").mkdir(parents=True)
        (shared / "cache").mkdir()
        members = []
        for number, (host, section) in enumerate(zip_longest(hosts, sections)):
            options = {
                # Salt would put the folders that are shared below it
                "root_dir": "/",
                "interface": host,
                "id": host,
                "cluster_id": "saltbed",
                "cluster_peers": [one for one in hosts if one != host],
                "cluster_pki_dir": str(shared / "pki"),
                "cachedir": str(shared / "cache"),
                "sqlite_queue_dir": str(shared / "queues"),
                "cluster_pool_port": pool,
                "ipc_mode": IPC_MODE,
                **({"rate_limiting": section} if section else {}),
            }
            wanted = BedSettings(
                tree=root / "salt",
                folder=folder / host,
                master_options=options,
                pillar="none",
                postgres="none",
                minions=MINIONS,
                api=None,
                transport=TRANSPORT,  # type: ignore[arg-type]  # one of them, or the bed refuses it
            )
            bed = stack.enter_context(Bed(wanted))
            if section:
                client = stack.enter_context(Client(bed))
                fleet = bed.start_fleet(extra=[f"--first={number * MINIONS}"])
                members.append(HandlerBed(bed, fleet, client))
        for member in members:
            member.fleet.wait_ready(READY_S)
            member.pid()
        yield Cluster(members, shared / "cache")
