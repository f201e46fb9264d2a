"""A process of the bed, as the harness sees it: the warden is its parent, and is asked for everything."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import time
from typing import TYPE_CHECKING

from harness.errors import ProcessError, end_error
from harness.processes import kernel
from harness.processes.command import tail
from harness.processes.deadline import SLICE_S, Deadline, Patience

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes.command import Command
    from harness.processes.processes import Processes

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
                f"{self.name} (process {self.pid}) still runs after {deadline.waited()}: {kernel.told(self.pid)}; "
                f"see {self.log}."
            )
        return code

    def late(self, what: str, deadline: Deadline, log: Path | None = None) -> str:
        """Return the text of an error: the process was waited for in vain; what it was doing, and the end of its log.

        `what` is the beginning, such as "The master does not answer". A Python process is ended: that is how its stack
        is had.
        """
        doing = kernel.told(self.pid)
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
