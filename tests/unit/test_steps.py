"""Steps side by side: what is shown in which order, what stops the others, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

WAIT_S = 120
# for a child that waits for its end, tells that it has begun, and tells which signal came
WAITS = """
import os, signal, sys, time
def told(number, frame):
    print("stopped by", signal.Signals(number).name, flush=True)
    sys.exit(130)
signal.signal(signal.SIGINT, told)
with open(sys.argv[1] + ".new", "w") as begun:
    print(os.getpid(), file=begun)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def python(code: str, *arguments: str) -> list[str]:
    """Return a command."""
    return [sys.executable, "-c", code, *arguments]


@contextmanager
def steps(root: Path, lanes: Sequence[Sequence[tuple[str, list[list[str]]]]]) -> Iterator[subprocess.Popen[str]]:
    """Run the steps of the lanes."""
    argv = [sys.executable, str(root / "tests" / "steps.py"), json.dumps(lanes)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, process_group=0) as process:
        try:
            yield process
        finally:
            process.kill()


def run(root: Path, lanes: Sequence[Sequence[tuple[str, list[list[str]]]]]) -> tuple[int, list[str]]:
    """Run the steps to their end; return the exit code and the lines, without their times."""
    with steps(root, lanes) as process:
        out, _ = process.communicate(timeout=WAIT_S)
    return process.returncode, [line.partition(" after ")[0] for line in out.splitlines()]


def test_output_of_a_step_is_shown_whole(root: Path, tmp_path: Path) -> None:
    """Two steps that wait for each other run at the same time, and their lines are not mixed."""
    left, right = str(tmp_path / "left"), str(tmp_path / "right")
    os.mkfifo(left)
    os.mkfifo(right)
    talk = "import sys; print(1, flush=True); open(sys.argv[1], sys.argv[2]).close(); "
    talk += "open(sys.argv[3], sys.argv[4]).close(); print(2)"
    code, lines = run(
        root,
        [[("one", [python(talk, left, "w", right, "r")])], [("two", [python(talk, left, "r", right, "w")])]],
    )
    assert code == 0
    assert set(lines[:2]) == {"== one: begins", "== two: begins"}
    assert {tuple(lines[2:5]), tuple(lines[5:8])} == {("1", "2", "== one: passed"), ("1", "2", "== two: passed")}
    assert lines[8:] == ["== all passed"]


def test_steps_of_a_lane_run_in_order(root: Path) -> None:
    """The second begins when the first has passed; a step of several commands is one."""
    say = "import sys; print(sys.argv[1])"
    code, lines = run(root, [[("one", [python(say, "a"), python(say, "b")]), ("two", [python(say, "c")])]])
    assert (code, lines[:4]) == (0, ["== one: begins", "a", "b", "== one: passed"])
    assert lines[4:] == ["== two: begins", "c", "== two: passed", "== all passed"]


def test_failure_stops_the_others_and_comes_last(root: Path, tmp_path: Path) -> None:
    """The exit code is that of the command that failed; what would have come after it is not run."""
    begun = tmp_path / "begun"
    fail = (
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\nprint('because')\nsys.exit(5)"
    )
    failing: list[tuple[str, list[list[str]]]] = [
        ("fails", [python(fail, str(begun)), python("print('never')")]),
        ("later", [python("print('never')")]),
    ]
    code, lines = run(root, [[("waits", [python(WAITS, str(begun))])], failing])
    assert (code, lines[-2:]) == (5, ["because", "== fails: failed with exit code 5"])
    # what the other one had to say
    assert lines[-4:-2] == ["stopped by SIGINT", "== waits: stopped"]
    assert "never" not in lines
    assert "== later: begins" not in lines


def test_killed_step_has_the_exit_code_of_a_shell(root: Path) -> None:
    """A step that a signal ended fails with 128 and the signal's number."""
    code, lines = run(root, [[("killed", [python("import os; os.kill(os.getpid(), 9)")])]])
    assert (code, lines[-1]) == (137, "== killed: failed with exit code 137")


def test_ctrl_c_stops_all(root: Path, tmp_path: Path) -> None:
    """SIGINT to the group, as a terminal sends it, reaches every step once; the exit code is 130."""
    begun = [tmp_path / "left", tmp_path / "right"]
    with steps(root, [[(path.name, [python(WAITS, str(path))])] for path in begun]) as process:
        until(lambda: all(path.exists() for path in begun), Deadline(WAIT_S), lambda: "the steps did not begin")
        pids = [int(path.read_text()) for path in begun]
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (130, "Stopped.\n")
    assert not any(psutil.pid_exists(pid) for pid in pids)
