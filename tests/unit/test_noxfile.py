"""How nox runs our commands: their exit codes are passed on, and Ctrl-C leaves them the time to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# what a session does with a command, here one of the test's own; the folder of the test is on the command's path
SESSION = """
import sys
from pathlib import Path
import noxfile
noxfile.PYTHON = Path(sys.executable)
noxfile._call("command")
print("went on")
"""
# stops in more than the half second that nox itself would wait
STOPS = """
import signal, sys, threading
stopped = threading.Event()
signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
print("started", flush=True)
stopped.wait(60)
threading.Event().wait(1.5)
print("stopped", flush=True)
sys.exit(130)
"""


@pytest.fixture
def session(root: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a session's call of `command.py` of the test's folder, in a process group as a terminal does."""
    env = {**os.environ, "PYTHONPATH": f"{root}:{tmp_path}"}
    command = [sys.executable, "-c", "import sys; exec(sys.stdin.read())"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, process_group=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    """Let the session begin."""
    assert process.stdin is not None
    process.stdin.write(SESSION)
    process.stdin.close()
    process.stdin = None


@pytest.mark.parametrize(("text", "code"), [("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_exit_code_is_passed_on(session: subprocess.Popen[str], tmp_path: Path, text: str, code: int) -> None:
    """A command's exit code is the session's, and a signal's is as a shell would say it."""
    (tmp_path / "command.py").write_text(text)
    begin(session)
    out, _ = session.communicate(timeout=60)
    assert (session.returncode, out) == (code, "")


def test_session_goes_on_after_success(session: subprocess.Popen[str], tmp_path: Path) -> None:
    """A command that ends well does not end the session."""
    (tmp_path / "command.py").write_text("")
    begin(session)
    out, _ = session.communicate(timeout=60)
    assert (session.returncode, out) == (0, "went on\n")


def test_ctrl_c_waits_for_the_command(session: subprocess.Popen[str], tmp_path: Path) -> None:
    """SIGINT to the group: the command stops by itself, and its exit code is the session's."""
    (tmp_path / "command.py").write_text(STOPS)
    begin(session)
    assert session.stdout is not None
    assert session.stdout.readline() == "started\n"
    os.killpg(session.pid, signal.SIGINT)
    out, _ = session.communicate(timeout=60)
    assert (session.returncode, out) == (130, "stopped\n")
