"""What is to be started in a bed, and the log that it writes."""

from __future__ import annotations

import json
import os
import resource
import signal
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from harness.paths import ROOT
from harness.processes.kernel import PR_SET_PDEATHSIG, prctl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def execute(request: dict[str, Any], parent: int) -> NoReturn:
    """Become the requested command; called in a new process and never returns."""
    os.setsid()
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    errors = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if request["errors"] else output
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


TAIL_BYTES = 16_384


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
    """What to start."""

    # its name in the samples
    role: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    # takes what it prints, and its errors too unless `errors` does
    output: Path
    errors: Path | None = None
    cwd: Path = Path("/")
    # whom it runs as; None is the user of the harness
    user: User | None = None
    # asks it to stop
    stop_signal: int = signal.SIGTERM
    layer: Layer = Layer.CLIENT
    # seconds that it may take to stop at the end of the bed
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


def own_environment(**more: str) -> dict[str, str]:
    """Return the harness's environment, in which Python finds the project's packages, and `more` variables."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1", **more}


def tail(path: Path, lines: int = 5) -> str:
    """Return the last lines of a log, or nothing if there is no such file."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
