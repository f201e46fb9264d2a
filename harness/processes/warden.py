"""The one parent of every process of a bed: `python -m harness.processes.warden`.

A harness that is killed with -9 can't stop anything any more, so the processes of a bed are not its children. They
belong to a small process in a session of its own that starts them on request, notices when the harness is gone, stops
them, and removes the bed's temporary folder. It is two processes: the warden does the work; its parent, the keeper,
only waits for the warden's end and then ends whatever is left. Both are child subreapers, so that a process whose
parent died, and that left its group and its session, still arrives here. Should both be killed at once, the kernel
sends each process that the warden started its stop signal (PR_SET_PDEATHSIG): Salt's main processes and PostgreSQL
then take their own children along.

Rejected: process groups alone (Salt's jobs and PostgreSQL's backends leave theirs), PR_SET_PDEATHSIG alone (not
inherited by children), PID namespaces (need privileges).

Only the standard library is imported, to keep both processes small. Requests and answers are JSON, one line each, see
`Warden.answer`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# stopping a whole bed must end, whatever its processes do
STOP_S = 20.0
KILL_S = 10.0
TICK_S = 0.1
SIGNAL_S = 0.5
ROSTER = "roster.csv"
LIBC = ctypes.CDLL(None, use_errno=True)


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


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process, as the system call of that name does."""
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def processes() -> Iterator[tuple[int, int]]:
    """Yield every process of the machine with its parent."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # the name of a command may hold spaces and parentheses, so the fields are counted from its end
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                yield int(entry.name), int(fields[1])


def descendants(root: int) -> set[int]:
    """Return the processes below `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in processes():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    new = list(children.get(root, []))
    while new:
        found.update(new)
        new = [child for pid in new for child in children.get(pid, []) if child not in found]
    return found


def reap() -> dict[int, int]:
    """Collect the children that have ended, with their exit codes (minus the signal's number if one ended them)."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def kill_children() -> None:
    """Kill every child until none is left, its orphaned children included, which become ours when it ends.

    Only children are killed: their ids can't be given to another process before they are reaped here.
    """
    end = time.monotonic() + KILL_S
    me = os.getpid()
    while time.monotonic() < end:
        children = [pid for pid, parent in processes() if parent == me]
        if not children:
            return
        send(children, signal.SIGKILL)
        signal.sigtimedwait([signal.SIGCHLD], TICK_S)
        reap()


def line(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(message).encode() + b"\n"


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, some of which may be gone already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def execute(request: dict[str, Any], parent: int) -> NoReturn:
    """Become the requested command; called in a new process and never returns."""
    os.setsid()
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    errors = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if request["errors"] else output
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if request["uid"] is not None:
        os.setgroups([])
        os.setgid(request["gid"])
        os.setuid(request["uid"])
    # after the change of user, which clears it
    prctl(PR_SET_PDEATHSIG, request["stop_signal"])
    if os.getppid() != parent:
        os._exit(1)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.chdir(request["cwd"])
    os.execvpe(request["argv"][0], request["argv"], request["environment"])  # noqa: S606 - the command is the bed's own, and no shell is wanted


def start(request: dict[str, Any]) -> int:
    """Start the requested command and return its process id; raise OSError if it can't be executed."""
    reader, writer = os.pipe()
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            execute(request, me)
        except OSError as error:
            os.write(writer, json.dumps([error.errno, error.strerror, error.filename]).encode())
        finally:
            os._exit(127)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        failure = pipe.read()
    if failure:
        raise OSError(*json.loads(failure))
    return pid


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
        - state: pid -> code and when it ended, null while it runs
        - signal: pid, signal -> the same
        - stop: pid, seconds -> the same
        - close: nothing -> nothing, once everything has been stopped
        """
        match request["do"]:
            case "start":
                return self.start(request)
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

    def collect(self) -> None:
        """Note which processes have ended."""
        for pid, code in reap().items():
            if pid in self.children:
                self.children[pid].code, self.children[pid].ended = code, time.time()

    def stop(self, children: Sequence[Child], end: float) -> None:
        """Ask processes to stop, wait until they and their descendants are gone, and kill what is left at `end`."""
        family = {pid for child in children if child.code is None for pid in descendants(child.pid)}
        family |= {pid for child in children for pid in child.family}
        # the leaders alone are asked: Salt and PostgreSQL stop their own children, in their own order
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

    def serve(self, control: socket.socket, harness: int) -> None:
        """Answer requests until asked to close, told to end by a signal, or left by the harness.

        `harness` is a descriptor of the harness's process: a copy of the other end of `control` may live on in one of
        its children.
        """
        control.sendall(line({"folder": str(self.folder), "warden": os.getpid()}))
        received = b""
        while not self.closing and signal.SIGTERM not in signal.sigpending():
            ready = select.select([control.fileno(), harness], [], [], SIGNAL_S)[0]
            self.collect()
            if harness in ready:
                return
            if control.fileno() in ready:
                chunk = control.recv(65_536)
                if not chunk:
                    return
                *requests, received = (received + chunk).split(b"\n")
                for request in map(json.loads, requests):
                    control.sendall(line({"number": request["number"], **self.answer(request)}))


def work(control: socket.socket, harness: int, folder: Path, keeper: int) -> None:
    """Be the warden: serve the harness, then stop everything."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    warden = Warden(folder)
    try:
        if os.getppid() == keeper:
            with contextlib.suppress(OSError):
                warden.serve(control, harness)
    finally:
        warden.stop_all()


def keep(warden: int) -> None:
    """Be the keeper: wait for the warden's end, then for the processes that it left, and kill those that stay."""
    while warden not in reap():
        received = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], SIGNAL_S)
        if received is not None and received.si_signo == signal.SIGTERM:
            os.kill(warden, signal.SIGTERM)
    end = time.monotonic() + STOP_S / 2
    asked: set[int] = set()
    # a warden that was killed leaves processes that the kernel has told to stop, and orphans that it has not
    while time.monotonic() < end and (left := {pid for pid, parent in processes() if parent == os.getpid()}):
        send(left - asked, signal.SIGTERM)
        asked |= left
        signal.sigtimedwait([signal.SIGCHLD], TICK_S)
        reap()
    kill_children()


def main(argv: Sequence[str]) -> int:
    """Make the folder, start the warden, keep it company, and remove the folder."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.processes.warden", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--control", type=int, required=True, help="file descriptor of a stream socket to the harness")
    parser.add_argument("--harness", type=int, required=True, help="process id of the harness")
    parser.add_argument("--temporary", type=Path, required=True, help="where to make the bed's temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder")
    options = parser.parse_args(argv)
    control = socket.socket(fileno=options.control)
    try:
        harness = os.pidfd_open(options.harness)
        folder = Path(tempfile.mkdtemp(prefix="saltbed-", dir=options.temporary))
    except OSError as error:
        control.sendall(line({"errno": error.errno, "error": str(error)}))
        return 1
    # traversable, for PostgreSQL may run as another user
    folder.chmod(0o711)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # blocked signals wait for sigtimedwait and sigpending; Ctrl-C and a closed terminal are the harness's business
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    keeper = os.getpid()
    warden = os.fork()
    try:
        if warden == 0:
            work(control, harness, folder, keeper)
        else:
            control.close()
            keep(warden)
    finally:
        # by whichever of the two outlives the other
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
