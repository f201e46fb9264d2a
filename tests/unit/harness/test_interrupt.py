"""Ctrl-C in the first seconds, and a disk that is full: one line, and a run's folder that says what became of it."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import interrupt
from harness.bed import Bed, BedSettings, settings
from harness.commands import campaign
from harness.errors import DiskError, RunError, SettingsError, StartError, disk_error
from harness.load import run
from harness.paths import ROOT
from harness.processes.deadline import Deadline, until
from harness.progress import Progress
from harness.results import runs, trees
from harness.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Callable

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
QUICK = scenario.find("quick")
# SIGTERM in the kernel's masks of signals
TERM_BIT = 1 << (signal.SIGTERM - 1)


def _sees_to_signals(pid: int) -> bool:
    """Say whether a process has a handler for SIGTERM, which Python has none for by itself."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return True
    caught = next(line for line in lines if line.startswith("SigCgt:")).split()[1]
    return bool(int(caught, 16) & TERM_BIT)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 1.0])
def test_signals_while_a_command_is_loaded(root: Path, delay: float, number: signal.Signals) -> None:
    """From the project's first line on a signal is one line and 130, or comes too late to change what is done."""
    with subprocess.Popen(
        [sys.executable, "-m", "harness", "scenarios", "quick"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            until(lambda: _sees_to_signals(process.pid), Deadline(20), lambda: "no handler")
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    if process.returncode:
        assert (process.returncode, errors.count("\n"), errors[:13]) == (130, 1, "Interrupted: ")
    else:
        assert (errors, output.startswith("quick: ")) == ("", True)


def test_the_first_signal_counts(capfd: pytest.CaptureFixture[str]) -> None:
    """The first Ctrl-C is an exception, the next ones leave the stopping alone, and afterwards all is as it was."""
    before = signal.getsignal(signal.SIGINT)
    with interrupt.during():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr().err == 2 * "Stopping what was started: this takes up to a minute.\n"


def test_signals_that_wait() -> None:
    """What belongs together is done before Ctrl-C is heard."""
    done = []

    def work() -> None:
        with interrupt.held() as release:
            signal.raise_signal(signal.SIGINT)
            done.append("together")
            release()
            done.append("later")

    with interrupt.during(), pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["together"]


def _request(tmp_path: Path) -> campaign.RunRequest:
    return campaign.RunRequest("quick", ("stock",), tmp_path / "runs", "python -m harness load")


@pytest.mark.parametrize("where", ["facts", "create", "load"])
def test_ctrl_c_around_the_start_of_a_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A run that is interrupted as soon as it has a folder says so in it."""
    assert root

    def press(*_: object, **__: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return {"trees": {"stock": {}}}

    def facts(_: object) -> object:
        return press() if where == "facts" else {"trees": {"stock": {}}}

    monkeypatch.setattr(trees, "machine_facts", facts)
    monkeypatch.setattr(run, "run", press)
    monkeypatch.setattr(campaign, "find", lambda name: (name, tmp_path))
    if where == "create":
        real: Callable[..., Path] = runs.create

        def create(*words: object, **more: object) -> Path:
            press()
            return real(*words, **more)

        monkeypatch.setattr(runs, "create", create)
    with interrupt.during(), pytest.raises(KeyboardInterrupt):
        campaign.run(_request(tmp_path), Progress(io.StringIO()), WHEN)
    (folder,) = (tmp_path / "runs").iterdir()
    assert runs.read(folder).status == "interrupted"


def test_a_full_disk_keeps_what_a_run_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run.json` is replaced in one step: where there is no room for a new one, the old one stays."""
    folder = runs.create(tmp_path, WHEN, scenario.load(QUICK), QUICK, ("stock",), "python -m harness load")
    assert (folder / runs.RESERVE).stat().st_size == runs.RESERVE_BYTES

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            runs.end(folder, "failed")
    assert runs.read(folder).status == "running"
    runs.end(folder, "failed", "x")
    assert (runs.read(folder).problem, (folder / runs.RESERVE).exists()) == ("x", False)


def test_words_for_a_full_disk(tmp_path: Path) -> None:
    """A full disk is told with its folder, what is left, and what is needed; other failures with what helps there."""
    full = disk_error(OSError(errno.ENOSPC, "x"), tmp_path / "not" / "there", 20)
    assert isinstance(full, DiskError)
    assert str(full).startswith(f"A disk that the bed writes to is full ({tmp_path}/not/there: ")
    assert " MB are left, and the bed needs about 20 MB there): free some space, or set TMPDIR or " in str(full)
    refused = disk_error(OSError(errno.EACCES, "Permission denied"), tmp_path)
    assert (type(refused), "choose a folder that you may write to" in str(refused)) == (SettingsError, True)
    broken = disk_error(OSError(errno.EIO, "Input/output error"), tmp_path)
    assert type(broken) is StartError
    assert "that you may write to" not in str(broken)


def test_an_error_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends a bed whose disk is full, the disk is what its user hears of; Ctrl-C stays what it is."""
    found = Bed(BedSettings(tree=ROOT / "build" / "stock", folder=tmp_path))
    found._stack = ExitStack()
    with pytest.raises(RunError), found_as_it_is(found):
        raise RunError("The clients could not run.")
    monkeypatch.setattr(settings, "FULL_BYTES", 2**60)
    with pytest.raises(DiskError, match="and the bed needs about"), found_as_it_is(found):
        raise RunError("The clients could not run.")
    with pytest.raises(KeyboardInterrupt), found_as_it_is(found):
        raise KeyboardInterrupt
    with pytest.raises(DiskError, match=r"^A disk that the bed writes to is full"):
        found.check()


class found_as_it_is:  # noqa: N801 - reads as a part of the sentence
    """A bed that is up already."""

    def __init__(self, found: Bed) -> None:
        """Take it."""
        self._found = found

    def __enter__(self) -> None:
        """Start nothing."""

    def __exit__(self, *error: object) -> None:
        """End the bed."""
        self._found.__exit__(*error)  # type: ignore[arg-type]  # each has the field's type
