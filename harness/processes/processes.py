"""The processes of a bed, as the harness sees them: the warden is their parent, and is asked for everything.

It outlives the harness for as long as it takes to stop them; `harness.processes.warden` says why.

Nobody waits for a master, a database or a monitor to end, so nobody would notice, and figures measured after such an
end would be wrong without a sign of it. So the processes are checked often.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from harness.errors import ProcessError, StartError, WardenError, disk_error, end_error
from harness.paths import ROOT
from harness.processes import kernel, warden
from harness.processes.command import tail
from harness.processes.deadline import SLICE_S, Deadline, Patience
from harness.processes.line import Child

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from harness.processes.command import Command, User

# how long a process may take to write its stack, and how many calls of it are shown
STACK_S = 5.0
CALLS = 8
FATAL = "PYTHONFAULTHANDLER"


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
        self.command = command
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
        return Patience(seconds, lambda: kernel.cpu_s(self.pid))

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit code.

        Raises:
            ProcessError: if it runs on for longer than `seconds`, which grow as told by `patience`.
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
                f"{self.name} (process {self.pid}) still runs after {deadline.waited()}: {kernel.describe(self.pid)}; "
                f"see {self.log}."
            )
        return code

    def late(self, what: str, deadline: Deadline, log: Path | None = None) -> str:
        """Return the text of an error: the process was waited for in vain; what it was doing, and the end of its log.

        `what` is the beginning, such as "The master does not answer". A Python process is ended: that is how its stack
        is had.
        """
        doing = kernel.describe(self.pid)
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
            # no core dump
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


# on a quiet machine: how long a process may be stopped, or give no sign of life
SILENT_S = 15.0


@dataclass
class Entry:
    """One process: what is lost without it, its own log if it has one, and how far it has got by its sign of life."""

    process: Process
    loss: str
    log: Path | None
    sign: Callable[[], float] | None
    may_end: bool
    deadline: Deadline
    value: float = -1.0
    since: float = 0.0


class Watch:
    """The processes of one bed that have to live; one that was stopped on purpose is forgotten."""

    def __init__(
        self, deadline: Callable[[float], Deadline] = Deadline, clock: Callable[[], float] = time.time
    ) -> None:
        """Watch nothing yet. `deadline` makes one of so many seconds, `clock` tells seconds since the epoch."""
        self._deadline = deadline
        self._clock = clock
        self._entries: list[Entry] = []

    def add(
        self,
        process: Process,
        loss: str = "",
        *,
        log: Path | None = None,
        sign: Callable[[], float] | None = None,
        may_end: bool = False,
    ) -> None:
        """Watch a process.

        loss: a sentence that says what the bed lacks without it
        log: where it says why it ends, beside what it prints
        sign: a number that changes as long as it does its work, such as the size of the file that it writes
        may_end: whether its end is somebody else's business
        """
        self._entries.append(Entry(process, loss, log, sign, may_end, self._deadline(SILENT_S), since=self._clock()))

    def check(self) -> None:
        """Raise StartError if a process has ended, ProcessError if one is stopped or gives no sign of life."""
        for entry in list(self._entries):
            process = entry.process
            if not (process.stopped or entry.may_end):
                try:
                    process.check(entry.log)
                except StartError as error:
                    # somebody may have stopped it meanwhile
                    if not process.stopped:
                        raise type(error)(" ".join(filter(None, [str(error), entry.loss]))) from error
            if process.stopped:
                self._entries.remove(entry)
            else:
                self._listen(entry)

    def _listen(self, entry: Entry) -> None:
        """Raise ProcessError if a process has been stopped, or has given no sign of life, for too long."""
        seen = kernel.read(entry.process.pid)
        halted = seen is not None and seen.halted
        value = entry.sign() if entry.sign else entry.value
        if not halted and (entry.sign is None or value != entry.value):
            entry.value, entry.since = value, self._clock()
            entry.deadline = self._deadline(SILENT_S)
        elif entry.deadline.passed():
            since = time.strftime("%H:%M:%S", time.localtime(entry.since))
            what = "has been stopped" if halted else "has given no sign of life"
            raise ProcessError(
                f"{entry.process.name} (process {entry.process.pid}) {what} since {since}: "
                f"{kernel.describe(entry.process.pid)}; see {entry.process.log}. {entry.loss}".rstrip()
            )


ANSWER_S = 10.0
CLOSE_S = warden.STOP_S + 2 * kernel.KILL_S
# the job cache of a large run is some hundred thousand files, which a busy disk takes minutes to forget
REMOVE_S = 300.0


class Processes:
    """All processes of one bed, and its temporary folder; a context manager that leaves nothing behind."""

    def __init__(self, temporary: Path) -> None:
        """Make the temporary folder below `temporary`."""
        self._temporary = temporary
        self._lock = threading.Lock()
        self._number = 0
        self.folder = Path()
        self.warden = 0
        self.reaper = 0

    def __enter__(self) -> Self:
        """Start the warden."""
        self._child = Child(
            "The warden of this bed",
            "harness.processes.warden",
            [str(os.getpid()), str(self._temporary.absolute())],
            WardenError,
            "the bed has ended with it, start it again",
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            # a session of its own: Ctrl-C in the terminal is for the harness alone
            start_new_session=True,
        )
        self.reaper = self._child.pid
        try:
            answer = self._child.receive(ANSWER_S)
        except BaseException:
            self._leave()
            raise
        if "errno" in answer:
            self._leave()
            raise disk_error(OSError(answer["errno"], answer["error"]), self._temporary)
        self.folder, self.warden = Path(answer["folder"]), answer["warden"]
        self._child.pid = self.warden
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop every process, the highest layer first, and remove the temporary folder."""
        try:
            self.request({"do": "close"}, CLOSE_S)
        except WardenError:
            # whatever became of it, its reaper takes over, also from one that is stopped
            self._end_warden()
            if error is None:
                raise
        finally:
            self._leave()

    def _end_warden(self) -> None:
        """Kill a warden that does not answer, if it is still there."""
        with contextlib.suppress(psutil.NoSuchProcess):
            warden = psutil.Process(self.warden)
            if warden.ppid() == self.reaper:
                warden.kill()

    def _leave(self) -> None:
        """Let go of the warden, which stops everything on its own, and wait until it has."""
        self._child.close(CLOSE_S + REMOVE_S)

    def request(self, request: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        """Send a request to the warden and return its answer, for which it may take `seconds` longer than usual."""
        with self._lock:
            self._number += 1
            number = self._number
            self._child.send({"number": number, **request}, ANSWER_S)
            answer = self._child.receive(seconds + ANSWER_S + kernel.KILL_S)
            # Ctrl-C may have come between an earlier request and its answer
            while answer["number"] != number:
                answer = self._child.receive(seconds + ANSWER_S + kernel.KILL_S)
            return answer

    def folder_for(self, user: User) -> Path:
        """Return a new folder that only this user may enter, and which goes with the temporary one."""
        answer = self.request({"do": "folder", "uid": user.uid, "gid": user.gid})
        if "errno" in answer:
            raise disk_error(OSError(answer["errno"], answer["error"]), self._temporary)
        return Path(answer["folder"])

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
