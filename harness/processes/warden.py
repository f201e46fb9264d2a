"""The one parent of every process of a bed: `python -m harness.processes.warden`.

A harness that is killed with -9 can't stop anything any more, so the processes of a bed are not its children. They
belong to the warden, a small process in a session of its own. It starts them on request, notices when the harness is
gone, stops them, and removes the bed's temporary folder. Its parent is the reaper, which only waits for the warden's
end and then ends whatever is left. Should both be killed at once, the kernel sends each process that the warden started
its stop signal (PR_SET_PDEATHSIG): Salt's main processes and PostgreSQL then take their own children along.

Rejected: process groups alone (Salt's jobs and PostgreSQL's backends leave theirs), PR_SET_PDEATHSIG alone (not
inherited by children), PID namespaces (need privileges).

A process whose parent died, and that left its group and its session, arrives here: the reaper is a child subreaper,
which the kernel makes the parent of orphans.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evil_minions import Line
from harness.paths import PRIVATE
from harness.processes.command import start
from harness.processes.kernel import (
    KILL_S,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    TICK_S,
    descendants,
    kill_children,
    prctl,
    reap,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

ASK_S = 10.0
"""How long the processes that a killed warden left may take to stop."""


def wait_for(warden: int) -> None:
    """Wait for the warden's end, then for the processes that it left, and kill those that stay."""
    while warden not in reap():
        received = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], SIGNAL_S)
        if received is not None and received.si_signo == signal.SIGTERM:
            os.kill(warden, signal.SIGTERM)
    end = time.monotonic() + ASK_S
    asked: set[int] = set()
    # a warden that was killed leaves processes that the kernel has told to stop, and orphans that it has not
    while time.monotonic() < end and (left := descendants(os.getpid(), recursive=False)):
        send(left - asked, signal.SIGTERM)
        asked |= left
        signal.sigtimedwait([signal.SIGCHLD], TICK_S)
        reap()
    kill_children()


# stopping a whole bed must end, whatever its processes do
STOP_S = 20.0
SIGNAL_S = 0.5
ROSTER = "roster.csv"
# the names of the folders that other users have beside the temporary one
BESIDE = "beside"


@dataclass
class Child:
    """A process that the warden started.

    `code` is its exit code, or minus the signal that ended it, `ended` when that was noticed, in seconds since the
    epoch; `patience` is how many seconds it may take to stop. `family` are its descendants when it was sent a signal:
    who outlives it is found by them.
    """

    pid: int
    stop_signal: int
    layer: int
    patience: float
    code: int | None = None
    ended: float | None = None
    family: set[int] = field(default_factory=set)


class Warden:
    """Starts and stops the processes of one bed."""

    def __init__(self, folder: Path) -> None:
        """Take the bed's temporary folder, which also holds the roster: a line `pid,role` for each started process."""
        self.folder = folder
        self.children: dict[int, Child] = {}
        self.closing = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request asks for.

        - start: role, argv, environment, cwd, output, errors, uid, gid, stop_signal, layer, patience -> pid, or errno
          and error
        - folder: uid, gid -> the path of a new folder of that user's, which goes with the temporary one
        - state: pid -> code and when it ended, null while it runs
        - signal: pid, signal -> the same
        - stop: pid, seconds -> the same
        - close: nothing -> nothing, once everything has been stopped
        """
        match request["do"]:
            case "start":
                return self.start(request)
            case "folder":
                return self.make_folder(request["uid"], request["gid"])
            case "close":
                self.closing = True
                self.stop_all()
                return {}
            case action:
                child = self.children[request["pid"]]
                if action == "signal" and child.code is None:
                    child.family |= descendants(child.pid)
                    os.kill(child.pid, request["signal"])
                elif action == "stop":
                    self.stop([child], time.monotonic() + request["seconds"])
                return {"code": child.code, "ended": child.ended}

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start a process and write it into the roster."""
        try:
            pid = start(request)
        except OSError as error:
            return {"errno": error.errno, "error": f"{error.strerror}: {error.filename or request['argv'][0]}"}
        self.children[pid] = Child(pid, request["stop_signal"], request["layer"], request["patience"])
        with contextlib.suppress(OSError), (self.folder / ROSTER).open("a", encoding="utf-8") as roster:
            roster.write(f"{pid},{request['role']}\n")
        return {"pid": pid}

    def make_folder(self, uid: int, gid: int) -> dict[str, Any]:
        """Make a folder for a user who may not enter the temporary one, beside that."""
        try:
            folder = tempfile.mkdtemp(prefix=f"{self.folder.name}-", dir=self.folder.parent)
            with (self.folder / BESIDE).open("a", encoding="utf-8") as names:
                names.write(f"{folder}\n")
            os.chown(folder, uid, gid)
        except OSError as error:
            return {"errno": error.errno, "error": str(error)}
        return {"folder": folder}

    def collect(self) -> None:
        """Note which processes have ended."""
        for pid, code in reap().items():
            if pid in self.children:
                self.children[pid].code, self.children[pid].ended = code, time.time()

    def stop(self, children: Sequence[Child], end: float) -> None:
        """Ask processes to stop, wait until they and their descendants are gone, and kill what is left at `end`."""
        family = {pid for child in children if child.code is None for pid in descendants(child.pid)}
        family |= {pid for child in children for pid in child.family}
        # only the processes that were started are asked: Salt and PostgreSQL stop their own children in their own order
        for child in children:
            if child.code is None:
                send([child.pid], child.stop_signal)
        orphans_asked = False
        while True:
            self.collect()
            running = [child.pid for child in children if child.code is None]
            family &= descendants(os.getpid())
            family |= {pid for leader in running for pid in descendants(leader)}
            if not running and not family:
                return
            if time.monotonic() >= end:
                break
            if not running and not orphans_asked:
                send(family, signal.SIGTERM)
                orphans_asked = True
            signal.sigtimedwait([signal.SIGCHLD], TICK_S)
        send([*running, *family], signal.SIGKILL)
        limit = time.monotonic() + KILL_S
        while any(child.code is None for child in children) and time.monotonic() < limit:
            signal.sigtimedwait([signal.SIGCHLD], TICK_S)
            self.collect()

    def stop_all(self) -> None:
        """Stop every process, the last layer first: what uses a service goes before the service."""
        end = time.monotonic() + STOP_S
        for layer in sorted({child.layer for child in self.children.values()}, reverse=True):
            family = [child for child in self.children.values() if child.layer == layer and child.code is None]
            if family:
                patience = max(child.patience for child in family)
                self.stop(family, min(end, time.monotonic() + patience))
        kill_children()

    def serve(self, control: Line, harness: int) -> None:
        """Answer requests until asked to close, told to end by a signal, or left by the harness.

        `harness` is a descriptor of the harness's process: a copy of the other end of `control` may live on in one of
        its children.
        """
        control.send({"folder": str(self.folder), "warden": os.getpid()})
        while not self.closing and signal.SIGTERM not in signal.sigpending():
            ready = select.select([control.fileno(), harness], [], [], 0.0 if control.waits() else SIGNAL_S)[0]
            self.collect()
            if harness in ready:
                return
            if control.waits() or control.fileno() in ready:
                request = control.receive()
                control.send({"number": request["number"], **self.answer(request)})


def work(control: Line, harness: int, folder: Path, parent: int) -> None:
    """Be the warden: serve the harness, then stop everything."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    warden = Warden(folder)
    try:
        if os.getppid() == parent:
            with contextlib.suppress(OSError):
                warden.serve(control, harness)
    finally:
        warden.stop_all()


def main(control_fd: str, harness_pid: str, temporary: str) -> int:
    """Make the folder, start the warden, wait for its end as its reaper, and remove the folder.

    `control_fd` is a stream socket to the harness, `temporary` where the folder is made.
    """
    connection = socket.socket(fileno=int(control_fd))
    control = Line(connection)
    try:
        harness = os.pidfd_open(int(harness_pid))
        folder = Path(tempfile.mkdtemp(prefix="saltbed-", dir=temporary))
    except OSError as error:
        control.send({"errno": error.errno, "error": str(error)})
        return 1
    os.umask(PRIVATE)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # blocked signals wait for sigtimedwait and sigpending; Ctrl-C and a closed terminal are the harness's business
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    me = os.getpid()
    warden = os.fork()
    try:
        if warden == 0:
            work(control, harness, folder, me)
        else:
            # not `control.close`, which would hang up for the warden as well
            connection.close()
            wait_for(warden)
    finally:
        # by the last of the two processes
        remove(folder)
    return 0


def remove(folder: Path) -> None:
    """Remove the temporary folder, and those that other users have beside it."""
    with contextlib.suppress(FileNotFoundError):
        for name in (folder / BESIDE).read_text(encoding="utf-8").splitlines():
            shutil.rmtree(name, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
