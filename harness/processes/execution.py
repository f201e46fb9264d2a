"""Starts a command in a session of its own: what happens between fork and exec."""

from __future__ import annotations

import json
import os
import resource
import signal
from typing import TYPE_CHECKING, NoReturn

from harness.processes.kernel import PR_SET_PDEATHSIG, prctl

if TYPE_CHECKING:
    from typing import Any


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
