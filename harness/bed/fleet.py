"""The simulated minions, as a bed starts them: the command `python -m evil_minions run`.

The bed knows them by their command, their control socket and their sample files alone.

Asked before the first process starts: a fleet that is too large shows in many ways, and late. The figures of each
minion were measured on stock Salt over zeromq: memory with 3,500 idle connections and with 500 minions under load, the
time to get ready with 10,000; docs/load-reference.md has them. The other transports take less time, so
an estimate is on the safe side.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

import evil_minions
from evil_minions import ID_FORMAT
from harness.choices import TRANSPORT
from harness.errors import ScenarioError, SettingsError, StartError
from harness.paths import ROOT
from harness.processes.command import Command, Layer
from harness.processes.deadline import PAUSE_S, Deadline, Patience, until
from harness.processes.ports import HOST, listens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from evil_minions import Status
    from harness.processes.processes import Process, Processes

MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# what a process of the master opens besides one connection for each minion
SPARE_FILES = 500
# a bed without minions, with salt-api, PostgreSQL and clients
BASE_MB = 1500.0
# peak of each minion in all processes: the master's queue of requests 26 idle and up to 116 at work, its publisher 26
# and up to 70, the fleet 7; and what a pillar adds in the fleet
KB_PER_MINION = 190.0
KB_PER_PILLAR = 35.0
# CPU time of master and fleet until a minion is ready; no fleet begins more sign-ins in a second
CORE_S_PER_MINION = 0.13
SIGN_INS_PER_S = 300.0
# smaller fleets run on any machine, so nothing is told of them
WORTH_TELLING = 2000
# for the error of the estimate
SPARE_MEMORY = 0.9


@dataclass(frozen=True)
class Machine:
    """What there is: free memory in MB, cores, files that a process may open (-1: no limit), ports to connect from."""

    memory_mb: float
    cores: int
    files: int
    ports: int

    @classmethod
    def here(cls, limit: Path = MEMORY_LIMIT, ports: Path = PORTS) -> Self:
        """Return what this machine has; of its memory no more than the control group of this process allows."""
        memory = psutil.virtual_memory().available
        # there may be no limit, or no control group
        with contextlib.suppress(OSError, ValueError):
            memory = min(memory, int(limit.read_text(encoding="ascii")))
        low, high = map(int, ports.read_text(encoding="ascii").split())
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return cls(memory / 2**20, len(os.sched_getaffinity(0)), hard, high - low + 1)


@dataclass(frozen=True)
class Need:
    """What so many minions need: memory in MB, seconds until all are ready, and files of one process of the master."""

    minions: int
    memory_mb: float
    ready_s: float
    files: int

    @classmethod
    def of(cls, minions: int, cores: int, *, pillars: bool) -> Self:
        """Estimate what `minions` need, with pillars from PostgreSQL or without."""
        ready = max(minions * CORE_S_PER_MINION / cores, minions / SIGN_INS_PER_S)
        return cls(minions, BASE_MB + minions * _mb(pillars=pillars), ready, minions + SPARE_FILES)

    @property
    def description(self) -> str:
        """Return the estimate in words."""
        return (
            f"{self.minions:,} minions need about {self.memory_mb / 1024:.1f} GB of memory, {_span(self.ready_s)} "
            f"until all are ready, and {self.files:,} open files in one process of the master"
        )


def check_capacity(minions: int, *, pillars: bool, machine: Machine | None = None) -> Need:
    """Return what so many minions need. Raises SettingsError, which names all that is missing, if that is not there."""
    there = machine or Machine.here()
    need = Need.of(minions, there.cores, pillars=pillars)
    missing = []
    if need.memory_mb > there.memory_mb:
        missing.append(f"{there.memory_mb / 1024:.1f} GB of memory are available")
    if 0 <= there.files < need.files:
        missing.append(f"the hard limit of open files is {there.files:,} (as root: `ulimit -Hn {need.files}`)")
    if minions > there.ports:
        missing.append(
            f"one address can connect {there.ports:,} times to a port (see `sysctl net.ipv4.ip_local_port_range`; "
            "for more take several machines, docs/docker.md)"
        )
    if missing:
        raise SettingsError(
            f"{need.description}, but {'; '.join(missing)}: take at most {most(there, pillars=pillars):,}."
        )
    return need


def most(machine: Machine, *, pillars: bool) -> int:
    """Return how many minions a machine can hold, rounded down to hundreds where there are as many."""
    limits = [int((machine.memory_mb - BASE_MB) * SPARE_MEMORY / _mb(pillars=pillars)), machine.ports]
    if machine.files >= 0:
        limits.append(machine.files - SPARE_FILES)
    found = max(0, min(limits))
    return found // 100 * 100 if found >= 100 else found  # noqa: PLR2004 - a hundred


def _mb(*, pillars: bool) -> float:
    return (KB_PER_MINION + KB_PER_PILLAR * pillars) / 1024


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"  # noqa: PLR2004 - a minute and a half


CHECK_S = 60.0
START_S = 60.0
STOP_S = 20.0
# longer than a supervisor waits for a silent worker
ANSWER_S = 150.0
LAST_WORDS_S = 5.0


def shared_options(transport: str, master_options: Mapping[str, object], word: Path | None = None) -> list[str]:
    """Return the options of the command for what minions must have in common with their master.

    `word` is the file by which it knows them, if there is one.
    """
    filtering = ["--zmq-filtering"] if master_options.get("zmq_filtering") and transport == TRANSPORT else []
    known = [f"--autosign={word}"] if word and word.exists() else []
    return [f"--transport={transport}", *filtering, *known]


@dataclass(frozen=True)
class FleetSpec:
    """What the fleet's command is told."""

    # how many minions there are
    minions: int
    # the number of the first one
    first: int = 0
    # their ids, by their numbers
    id_format: str = ID_FORMAT
    # of the fleet's random choices
    seed: int = 1
    # further options of the command
    extra: Sequence[str] = ()
    # of its folder, its log and its process; a bed may have several fleets
    name: str = "fleet"
    # the master's address
    master: str = HOST

    def arguments(self, folder: Path, request_port: int) -> list[str]:
        """Return the command's arguments."""
        return [
            "run",
            f"--master={self.master}",
            f"--request-port={request_port}",
            f"--minions={self.minions}",
            f"--first={self.first}",
            f"--id-format={self.id_format}",
            f"--seed={self.seed}",
            f"--folder={folder}",
            *self.extra,
        ]


@dataclass(frozen=True)
class Fleet:
    """Simulated minions at work; `folder` holds their samples, `control` is a client of its control socket."""

    minions: int
    folder: Path
    control: evil_minions.Control
    process: Process

    def status(self) -> Status:
        """Return the fleet's state; raise StartError if it, or a worker of it, has ended or does not answer."""
        self.process.check()
        try:
            return self.control.status()
        except evil_minions.ControlError as error:
            # the log of a fleet that ends says more than a closed connection
            deadline = Deadline(LAST_WORDS_S)
            while self.process.running() and not deadline.passed():
                time.sleep(PAUSE_S)
            self.process.check()
            raise StartError(f"{error} Its log is {self.process.log}.") from error

    def wait_ready(self, seconds: float, progress: Callable[[Status], None] | None = None) -> Status:
        """Wait until every minion that is to get ready is, and return the state.

        `progress` is called with each state on the way.

        Raises:
            StartError: if the fleet ends, or is not ready after `seconds`, which grow on a busy machine and as long as
                more minions get ready.
        """
        seen = [self.status()]
        deadline = Patience(seconds, lambda: advance(seen[0]), least=1)

        def ready() -> Status | None:
            seen[:] = [self.status()]
            if progress:
                progress(seen[0])
            # minions whose keys the master does not accept never get ready
            waiting = seen[0].minions - seen[0].expected
            return seen[0] if seen[0].ready >= self.minions - waiting else None

        return until(
            ready,
            deadline,
            lambda: (
                f"Of {self.minions:,} simulated minions {seen[0].ready:,} are ready after {deadline.waited()}, "
                f"{seen[0].connected:,} are connected: see {self.process.log} and the master's log beside it."
            ),
        )

    def match(self, tgt: str, tgt_type: str) -> int:
        """Return how many minions a target matches."""
        return len(self.control.match(tgt, tgt_type))

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Send a request on a connection of its own, while others may be under way, and return the answer."""
        with evil_minions.connect(self.folder) as connection:
            return connection.ask(**request)

    def unseen(self, jids: Sequence[str]) -> list[str]:
        """Return those of the job ids that no minion has heard of."""
        return self.control.unseen(list(jids))

    def flush(self) -> None:
        """Have all samples written."""
        self.control.flush()

    def close(self) -> None:
        """Hang up; the fleet goes on."""
        self.control.close()

    def stop(self) -> None:
        """End the fleet; its samples are complete when this returns."""
        self.close()
        self.process.stop(STOP_S)


def check(spec: FleetSpec, functions: Iterable[str], behaviours: Iterable[str]) -> None:
    """Ask the fleet's command whether it could start; nothing is started.

    `functions` are those that its minions have to know, `behaviours` those that they get while they run.

    Raises:
        ScenarioError: with the command's own sentences if it could not, each in a line.
    """
    wanted = [*(f"--asks={name}" for name in sorted(functions)), *(f"--later={name}" for name in sorted(behaviours))]
    # the folder and the port are not looked at
    arguments = spec.arguments(ROOT, 1)
    command = [sys.executable, "-m", "evil_minions", *arguments, "--check", *wanted]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=CHECK_S)
    except subprocess.TimeoutExpired as error:
        raise StartError(f"The fleet's command did not check its options within {CHECK_S:g} s: try again.") from error
    if done.returncode:
        _, prefix, said = done.stderr.strip().rpartition("evil_minions: ")
        # without its prefix it is a traceback
        lines = said.splitlines() if prefix else said.splitlines()[-1:]
        raise ScenarioError("\n".join(f"The simulated minions can't do that: {line}" for line in lines))


def advance(status: Status) -> float:
    """Return how far a fleet is on its way to be ready: the steps that its minions have taken together."""
    return status.connected + status.authenticated + status.ready


def start(
    spec: FleetSpec, request_port: int, samples: Path, logs: Path, environment: Mapping[str, str], processes: Processes
) -> Fleet:
    """Start a fleet of the master on `request_port`, whose samples go below `samples`, and wait until it answers."""
    (samples / spec.name).mkdir(parents=True, exist_ok=True)
    # a short path to the folder: that of the control socket must have at most a hundred bytes
    folder = processes.folder / spec.name
    try:
        folder.symlink_to(samples / spec.name)
    except FileExistsError as error:
        raise StartError(f"This bed has a fleet {spec.name!r} already: give the other one another name.") from error
    command = Command(
        role="fleet",
        argv=[sys.executable, "-m", "evil_minions", *spec.arguments(folder, request_port)],
        environment=environment,
        output=logs / f"{spec.name}.out",
        cwd=processes.folder,
        layer=Layer.CLIENT,
    )
    process = processes.start(spec.name, command)
    path = evil_minions.socket_path(folder)
    deadline = process.patience(START_S)

    def ready() -> bool:
        process.check()
        return path.exists() and listens(socket.AF_UNIX, str(path))

    until(ready, deadline, lambda: process.late(f"The fleet does not answer at {path}", deadline))
    return Fleet(spec.minions, folder, evil_minions.connect(folder, ANSWER_S), process)
