"""The processes of a bed, as the harness sees them.

They belong to the warden, a process that outlives the harness for as long as it takes to stop them; see
`harness.processes.warden` for the why.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from harness.errors import ProcessError, StartError, WardenError, disk_error, end_error
from harness.paths import ROOT
from harness.processes import vitals, warden
from harness.processes.deadline import Deadline, Patience

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

ANSWER_S = 10.0
CLOSE_S = warden.STOP_S + 2 * warden.KILL_S
# the job cache of a large run is some hundred thousand files, which a busy disk takes minutes to forget
REMOVE_S = 300.0
TAIL_BYTES = 16_384
SLICE_S = 0.5
# how long a process may take to write its stack, and how many calls of it are shown
STACK_S = 5.0
CALLS = 8
FATAL = "PYTHONFAULTHANDLER"
ENDED = "The warden of this bed (process {}) was ended from outside, and the bed with it: start the bed again."


class Layer(IntEnum):
    """What uses a service is stopped before the service: the highest layer goes first."""

    DATABASE = 0
    MASTER = 1
    API = 2
    CLIENT = 3
    MINION = 4


@dataclass(frozen=True)
class User:
    """A user of the machine, by number."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Command:
    """What to start; `role` names it in the samples.

    `output` takes what it prints, and its errors too unless `errors` does. `patience` is how many seconds it may take
    to stop at the end of the bed.
    """

    role: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    output: Path
    errors: Path | None = None
    cwd: Path = Path("/")
    user: User | None = None
    stop_signal: int = signal.SIGTERM
    layer: Layer = Layer.CLIENT
    patience: float = 8.0

    def request(self) -> dict[str, Any]:
        """Return this command as the warden's request."""
        return {
            "do": "start",
            "role": self.role,
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "output": str(self.output.absolute()),
            "errors": self.errors and str(self.errors.absolute()),
            "cwd": str(self.cwd.absolute()),
            "uid": self.user and self.user.uid,
            "gid": self.user and self.user.gid,
            "stop_signal": int(self.stop_signal),
            "layer": int(self.layer),
            "patience": self.patience,
        }


def tail(path: Path, lines: int = 5) -> str:
    """Return the last lines of a log, or nothing if there is no such file."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def calls(text: str) -> str:
    """Return the innermost calls out of what Python's fault handler wrote, "" if there are none."""
    found = re.search(r"Current thread .*\n((?:  File .*\n?)+)", text)
    return "\n".join(found[1].splitlines()[:CALLS]) if found else ""


class Process:
    """A process of the bed."""

    def __init__(self, owner: Processes, name: str, pid: int, command: Command) -> None:
        """Take what the warden said of a process that it started by `command`."""
        self._owner = owner
        # not looked up in the process: Salt writes its title over its environment
        self._tells = FATAL in command.environment
        self.name = name
        self.pid = pid
        self.log = command.output
        # whether its end is wanted
        self.stopped = False

    def code(self) -> int | None:
        """Return the exit code (minus the signal that ended it), None while it runs."""
        code: int | None = self._owner.request({"do": "state", "pid": self.pid})["code"]
        return code

    def running(self) -> bool:
        """Say whether it runs."""
        return self.code() is None

    def check(self, log: Path | None = None) -> None:
        """Raise StartError, with when and how and the last lines of its log, if it has ended."""
        answer = self._owner.request({"do": "state", "pid": self.pid})
        if answer["code"] is not None:
            path = log if log and tail(log) else self.log
            raise end_error(self.name, answer["code"], path, tail(path), answer["ended"])

    def patience(self, seconds: float) -> Patience:
        """Return a deadline for what takes `seconds` on a quiet machine, longer as long as the process is at work."""
        return Patience(seconds, lambda: vitals.cpu_s(self.pid))

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit code.

        Raises ProcessError if it runs on for longer than `seconds`, which grow as told by `patience`.
        """
        deadline = self.patience(seconds)
        code = self.code()
        if code is None:
            try:
                handle = os.pidfd_open(self.pid)
            except ProcessLookupError:
                pass
            else:
                try:
                    # not select: a load run has more than a thousand descriptors
                    poll = select.poll()
                    poll.register(handle, select.POLLIN)
                    while not poll.poll(min(SLICE_S, deadline.left()) * 1000) and not deadline.passed():
                        pass
                finally:
                    os.close(handle)
            code = self.code()
        if code is None:
            raise ProcessError(
                f"{self.name} (process {self.pid}) still runs after {deadline.waited()}: {vitals.told(self.pid)}; "
                f"see {self.log}."
            )
        return code

    def late(self, what: str, deadline: Deadline, log: Path | None = None) -> str:
        """Return what is to be said of a process that was waited for in vain: what it was doing, and its log's end.

        `what` is the beginning, such as "The master does not answer". A Python process is ended: that is how its stack
        is had.
        """
        doing = vitals.told(self.pid)
        path = log if log and tail(log) else self.log
        last = tail(path)
        end = f"The last lines of {path} are:\n{last}" if last else f"Its log {path} is empty."
        stack = self.stack()
        said = f"\nIts stack, the latest call first:\n{stack}" if stack else ""
        return f"{what} after {deadline.waited()}. Process {self.pid}, when last seen: {doing}. {end}{said}"

    def stack(self) -> str:
        """End a Python process that was started with PYTHONFAULTHANDLER, and return the stack that it leaves.

        Returns "" if it is no such process, or leaves none.
        """
        if not self._tells:
            return ""
        try:
            # nobody wants its memory on a disk
            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, resource.prlimit(self.pid, resource.RLIMIT_CORE)[1]))
            before = self.log.stat().st_size
        except OSError:
            return ""
        self.signal(signal.SIGABRT)
        deadline = Deadline(STACK_S)
        while self.running() and not deadline.passed():
            time.sleep(SLICE_S / 10)
        with self.log.open("rb") as log:
            log.seek(before)
            return calls(log.read().decode(errors="replace"))

    def stop(self, seconds: float = 10.0) -> int:
        """Ask it to stop, kill it and its descendants after `seconds`, and return the exit code."""
        self.stopped = True
        code: int | None = self._owner.request({"do": "stop", "pid": self.pid, "seconds": seconds}, seconds)["code"]
        if code is None:
            raise ProcessError(
                f"{self.name} (process {self.pid}) can't be killed: it hangs in the kernel; see {self.log}."
            )
        return code

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._owner.request({"do": "signal", "pid": self.pid, "signal": int(number)})

    def tail(self, lines: int = 5) -> str:
        """Return the last lines that it printed."""
        return tail(self.log, lines)


class Processes:
    """All processes of one bed, and its temporary folder; a context manager that leaves nothing behind."""

    def __init__(self, temporary: Path, *, keep: bool = False) -> None:
        """Make the temporary folder below `temporary`; `keep` leaves it there at the end."""
        self._temporary = temporary
        self._keep = keep
        self._lock = threading.Lock()
        self._number = 0
        self.folder = Path()
        self.warden = 0
        self.keeper = 0

    def __enter__(self) -> Self:
        """Start the warden."""
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [
            sys.executable,
            "-m",
            "harness.processes.warden",
            "--control",
            str(theirs.fileno()),
            "--harness",
            str(os.getpid()),
        ]
        argv += ["--temporary", str(self._temporary.absolute()), *["--keep"] * self._keep]
        with theirs:
            self._keeper = subprocess.Popen(
                argv,
                env=environment,
                cwd="/",
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # a session of its own: Ctrl-C in the terminal is for the harness alone
                start_new_session=True,
            )
        self.keeper = self._keeper.pid
        self._socket = ours
        self._received = b""
        try:
            answer = self._read(ANSWER_S)
        except BaseException:
            self._leave()
            raise
        if "errno" in answer:
            self._leave()
            raise disk_error(OSError(answer["errno"], answer["error"]), self._temporary)
        self.folder, self.warden = Path(answer["folder"]), answer["warden"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop every process, the highest layer first, and remove the temporary folder."""
        try:
            self.request({"do": "close"}, CLOSE_S)
        except WardenError:
            # whatever became of it, its keeper takes over, also from one that is stopped
            self._end_warden()
            if error is None:
                raise
        finally:
            self._leave()

    def _end_warden(self) -> None:
        """Kill a warden that does not answer, if it is still there."""
        with contextlib.suppress(psutil.NoSuchProcess):
            warden = psutil.Process(self.warden)
            if warden.ppid() == self.keeper:
                warden.kill()

    def _leave(self) -> None:
        """Let go of the warden, which stops everything on its own, and wait until it has."""
        self._socket.close()
        self._keeper.wait(CLOSE_S + REMOVE_S)

    def _read(self, seconds: float) -> dict[str, Any]:
        """Return the warden's next answer, for which it has `seconds` on a quiet machine."""
        deadline = Deadline(seconds)
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while b"\n" not in self._received:
            if not poll.poll(min(SLICE_S, deadline.left()) * 1000):
                if deadline.passed():
                    raise WardenError(
                        f"The warden of this bed (process {self.warden or self.keeper}) does not answer: end it."
                    )
                continue
            try:
                more = self._socket.recv(65_536)
            except OSError as error:
                raise WardenError(ENDED.format(self.warden)) from error
            if not more:
                raise WardenError(ENDED.format(self.warden))
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def request(self, request: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        """Send a request to the warden and return its answer, for which it may take `seconds` longer than usual."""
        with self._lock:
            self._number += 1
            number = self._number
            try:
                self._socket.settimeout(ANSWER_S)
                self._socket.sendall(json.dumps({"number": number, **request}).encode() + b"\n")
            except OSError as error:
                raise WardenError(ENDED.format(self.warden)) from error
            answer = self._read(seconds + ANSWER_S + warden.KILL_S)
            # Ctrl-C may have come between an earlier request and its answer
            while answer["number"] != number:
                answer = self._read(seconds + ANSWER_S + warden.KILL_S)
            return answer

    def start(self, name: str, command: Command) -> Process:
        """Start a process; raise StartError if it can't be executed."""
        answer = self.request(command.request())
        if "errno" in answer:
            raise StartError(f"{name} can't be started: {answer['error']}.")
        return Process(self, name, answer["pid"], command)

    def run(self, name: str, command: Command, seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and return what it printed; raise ProcessError, and stop it, after `seconds`.

        `command.output` and `command.errors` are removed once they have been read.
        """
        process = self.start(name, command)
        errors = command.errors or command.output
        try:
            try:
                code = process.wait(seconds)
            except BaseException:
                process.stop(1.0)
                raise
            return subprocess.CompletedProcess(
                list(command.argv), code, command.output.read_text(errors="replace"), errors.read_text(errors="replace")
            )
        finally:
            command.output.unlink(missing_ok=True)
            errors.unlink(missing_ok=True)
