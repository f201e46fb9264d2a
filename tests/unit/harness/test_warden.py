"""The warden: whatever ends, nothing of a bed is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.errors import DiskError, HarnessError, ProcessError, StartError, WardenError
from harness.paths import ROOT
from harness.processes.command import Command, Layer, User
from harness.processes.deadline import Deadline, until
from harness.processes.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENVIRONMENT = {"PATH": os.environ["PATH"]}
# a process, one in a session of its own, and one whose parent ends at once
FAMILY = "setsid sleep 1001 & (setsid sleep 1002 &) ; sleep 1003; true"
# ignores every polite request
STUBBORN = "trap '' TERM INT HUP; while true; do sleep 1004; done"
HARNESS = """
import json, os, sys
from pathlib import Path
from harness.processes.command import Command
from harness.processes.processes import Processes

with Processes(Path(sys.argv[1])) as processes:
    command = Command("family", ["bash", "-c", sys.argv[2]], dict(os.environ), processes.folder / "out")
    leader = processes.start("family", command).pid
    print(json.dumps([str(processes.folder), processes.reaper, processes.warden, leader]), flush=True)
    sys.stdin.read()
"""


def command(folder: Path, script: str, **options: object) -> Command:
    """Return a shell script as a command."""
    return Command("test", ["bash", "-c", script], ENVIRONMENT, folder / "out", **options)  # type: ignore[arg-type]  # each has the field's type


def family(pid: int, count: int) -> list[psutil.Process]:
    """Return the descendants of a process once there are that many."""
    return until(
        lambda: found if len(found := psutil.Process(pid).children(recursive=True)) >= count else None,
        Deadline(10),
        lambda: f"process {pid} has not {count} descendants",
    )


def is_up(log: Path) -> bool:
    """Say whether a script has printed that it is up."""
    return log.exists() and log.read_text() == "up\n"


def alive(process: psutil.Process) -> bool:
    """Say whether a process runs; one that nobody has waited for yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(processes: list[psutil.Process], folder: Path) -> None:
    """Wait until the processes and the folder are gone."""
    until(
        lambda: not any(map(alive, processes)) and not folder.exists(),
        Deadline(20),
        lambda: f"left: {list(filter(alive, processes))} {list(folder.glob('*'))}",
    )


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Yield the processes of a bed without any."""
    with Processes(tmp_path) as found:
        yield found


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, list[psutil.Process]]]:
    """Yield a harness in a process of its own, its temporary folder, and all processes of its bed."""
    argv = [sys.executable, "-c", HARNESS, str(tmp_path), FAMILY]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        folder, reaper, _, _ = json.loads(process.stdout.readline())
        everything = [psutil.Process(reaper), *family(reaper, 5)]
        yield process, tmp_path / folder, everything
        process.kill()
        # a shell does not take its children along, unlike Salt and PostgreSQL
        for one in filter(alive, everything[2:]):
            one.kill()


def test_output_and_exit_code(processes: Processes) -> None:
    """A command that ends gives back what it printed, on both streams, and its exit code."""
    errors = processes.folder / "err"
    result = processes.run("x", command(processes.folder, "echo out; echo err >&2; exit 3", errors=errors), 10)
    assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 3)


def test_signal_is_a_negative_code(processes: Processes) -> None:
    """A process that a signal ended has minus its number as exit code."""
    process = processes.start("x", command(processes.folder, "sleep 1000"))
    process.signal(signal.SIGUSR1)
    assert process.wait(10) == -signal.SIGUSR1


def test_wait_in_vain(processes: Processes) -> None:
    """Waiting ends with one sentence if the process does not."""
    process = processes.start("sleeper", command(processes.folder, "sleep 1000"))
    with pytest.raises(ProcessError, match=r"^sleeper \(process \d+\) still runs after .* s.*: it is sleeping"):
        process.wait(0.1)


def test_run_past_its_time_is_ended(processes: Processes) -> None:
    """A command that takes too long is stopped with its descendants."""
    with pytest.raises(ProcessError):
        processes.run("x", command(processes.folder, "sleep 1000 & sleep 1000"), 0.1)
    assert psutil.Process(processes.warden).children(recursive=True) == []


def test_no_such_command(processes: Processes) -> None:
    """A command that does not exist is an error of one sentence."""
    nothing = Command("x", ["/no/such/command"], ENVIRONMENT, processes.folder / "out")
    with pytest.raises(StartError, match=r"^x can't be started: No such file or directory: /no/such/command\.$"):
        processes.start("x", nothing)


def test_early_end_quotes_the_log(processes: Processes) -> None:
    """A process that should run but has ended is reported with the end of its log."""
    process = processes.start("x", command(processes.folder, "echo because; exit 4"))
    process.wait(10)
    with pytest.raises(
        StartError, match=r"^x ended with exit code 4 at \d\d:\d\d:\d\d; the last lines of .*/out are:\nbecause$"
    ):
        process.check()


def test_early_end_by_a_full_disk(processes: Processes) -> None:
    """A process that ended because a disk is full is reported as that."""
    process = processes.start("x", command(processes.folder, "echo 'write: No space left on device'; exit 1"))
    process.wait(10)
    with pytest.raises(DiskError, match="free some space"):
        process.check()


def test_descriptor_limit_is_raised(processes: Processes) -> None:
    """A process may open as many files as the hard limit permits."""
    result = processes.run("x", command(processes.folder, "ulimit -Sn; ulimit -Hn"), 10)
    soft, hard = result.stdout.split()
    assert soft == hard


def test_stop_takes_descendants_along(processes: Processes) -> None:
    """Stopping a process ends its descendants too, in whatever session they are."""
    process = processes.start("x", command(processes.folder, "setsid sleep 1000 & sleep 1000; true"))
    family(process.pid, 2)
    process.stop(5)
    assert psutil.Process(processes.warden).children(recursive=True) == []


def test_stop_takes_along_who_outlived_its_leader(processes: Processes) -> None:
    """A process that ended by a signal may leave descendants behind, which a later stop ends."""
    process = processes.start("x", command(processes.folder, "setsid sleep 1000 & sleep 1000; true"))
    family(process.pid, 2)
    process.signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    assert len(psutil.Process(processes.warden).children(recursive=True)) == 2
    process.stop(5)
    assert psutil.Process(processes.warden).children(recursive=True) == []


def test_what_is_written_is_for_its_user_alone(processes: Processes) -> None:
    """The temporary folder is closed to others, and so is all that a process of a bed writes."""
    processes.start("x", command(processes.folder, "umask")).wait(10)
    assert (processes.folder / "out").read_text() == "0077\n"
    places = [processes.folder, *(processes.folder / name for name in ("out", "roster.csv"))]
    assert [place for place in places if place.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("ends", ["leaves", "killed"])
def test_folder_of_another_user(tmp_path: Path, ends: str) -> None:
    """It is beside the temporary one, closed to all others, and goes with it, also when the warden is killed."""
    user = User("me", os.getuid(), os.getgid())
    with suppress(WardenError), Processes(tmp_path) as processes:
        folder = processes.folder_for(user)
        (folder / "file").touch()
        assert (folder.parent, folder.stat().st_mode & 0o777, folder.stat().st_uid) == (tmp_path, 0o700, user.uid)
        if ends == "killed":
            os.kill(processes.warden, signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_stubborn_process_is_killed(processes: Processes) -> None:
    """A process that does not stop when asked to is killed."""
    process = processes.start("x", command(processes.folder, STUBBORN))
    family(process.pid, 1)
    assert process.stop(0.2) == -signal.SIGKILL


def test_higher_layers_stop_first(tmp_path: Path) -> None:
    """At the end, what uses a service goes before the service."""
    script = "trap 'echo {0} >> {1}; exit' TERM; echo up; sleep 1000 & wait"
    order = tmp_path / "order"
    with Processes(tmp_path) as processes:
        for layer in Layer:
            log = tmp_path / layer.name
            processes.start(
                layer.name,
                Command("x", ["bash", "-c", script.format(layer.name, order)], ENVIRONMENT, log, layer=layer),
            )
            until(partial(is_up, log), Deadline(10), lambda: "not up")
    assert order.read_text().split() == ["MINION", "CLIENT", "API", "MASTER", "DATABASE"]


def test_nothing_is_left_at_the_end(tmp_path: Path) -> None:
    """Leaving the context ends every process and removes the temporary folder."""
    with Processes(tmp_path) as processes:
        processes.start("x", command(processes.folder, FAMILY))
        everything = [psutil.Process(processes.reaper), *family(processes.reaper, 5)]
    assert [process for process in everything if process.is_running()] == []
    assert list(tmp_path.iterdir()) == []


def test_killed_harness_leaves_nothing(harness: tuple[subprocess.Popen[str], Path, list[psutil.Process]]) -> None:
    """After kill -9 of the harness its processes and its folder go."""
    process, folder, everything = harness
    process.kill()
    gone(everything, folder)


@pytest.mark.slow
@pytest.mark.parametrize("victims", [[0], [1], [0, 1]], ids=["reaper", "warden", "both"])
def test_killed_warden_leaves_no_process(
    harness: tuple[subprocess.Popen[str], Path, list[psutil.Process]], victims: list[int]
) -> None:
    """After kill -9 of the warden, of its reaper, or of both, the processes that it started go."""
    _, _, everything = harness
    leader = everything[1].children()[0]
    for number in victims:
        everything[number].kill()
    until(lambda: not leader.is_running(), Deadline(20), lambda: f"{leader} is left")


def test_killed_warden_leaves_no_orphan(harness: tuple[subprocess.Popen[str], Path, list[psutil.Process]]) -> None:
    """After kill -9 of the warden its reaper ends even processes that left their parent and their session."""
    _, folder, everything = harness
    everything[1].kill()
    gone(everything, folder)


def test_loss_of_the_warden_is_one_sentence(tmp_path: Path) -> None:
    """A harness whose warden was killed is told so."""
    processes = Processes(tmp_path)
    processes.__enter__()
    psutil.Process(processes.warden).kill()
    with pytest.raises(WardenError, match=r"^The warden of this bed \(process \d+\) has ended: "):
        processes.__exit__(None, None, None)


def test_ended_harness_with_a_child_of_its_own(tmp_path: Path) -> None:
    """A child of the harness that holds copies of its descriptors does not keep the bed alive."""
    argv = [sys.executable, "-c", HARNESS.replace("sys.stdin.read()", "os.fork(); sys.stdin.read()")]
    with subprocess.Popen(
        [*argv, str(tmp_path), FAMILY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        folder, reaper, _, _ = json.loads(process.stdout.readline())
        everything = [psutil.Process(reaper), *family(reaper, 5)]
        (child,) = until(
            lambda: [one for one in psutil.Process(process.pid).children() if one.pid != reaper],
            Deadline(10),
            lambda: "no child",
        )
        process.kill()
        gone(everything, tmp_path / folder)
        assert child.is_running()
        child.kill()


def test_temporary_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A place without room for the temporary folder is an error of one sentence."""
    with pytest.raises(HarnessError, match="choose a folder that you may write to"), Processes(tmp_path / "none"):
        pass


def test_roster_names_roles(processes: Processes) -> None:
    """The warden writes the role of each process that it starts."""
    process = processes.start("x", command(processes.folder, "sleep 1000"))
    assert (processes.folder / "roster.csv").read_text() == f"{process.pid},test\n"
