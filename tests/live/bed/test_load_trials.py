"""A load run whose disk fills up, and one that is interrupted at any moment: a sentence, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from harness.results import runs
from tests.live.helpers.load_runs import SCENARIO, load, running_harness

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live
DISK_MB = 200


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Yield a disk with little room."""
    with tempfile.TemporaryDirectory(prefix="bed-disk-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def _fill(disk: Path) -> None:
    """Write until there is no room."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(2**16)):
                pass
        except OSError:
            return


@pytest.mark.needs_root
@pytest.mark.parametrize("whole", [False, True], ids=["folder", "temporary"])
def test_a_disk_that_fills_up_in_mid_run(
    root: Path, stock: Path, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    """The disk is what the user hears of, with its folder; samples so far stay, and the run is a failed one."""
    assert stock.is_dir()
    if whole:
        monkeypatch.setenv("TMPDIR", str(small_disk))
    place = tmp_path if whole else small_disk
    with load(root, place, 200) as running:
        samples = running.run() / "stock" / "samples"
        until(lambda: (samples / "fleet.csv").read_text().count("\n") > 3, Deadline(60), running.said)
        _fill(small_disk)
        assert running.ends() == 3, running.said()
        (small_disk / "filler").unlink()
    run = runs.read(running.run())
    assert run.status == "failed"
    assert run.problem.startswith("A disk that the bed writes to is full (")
    assert str(small_disk) in run.problem
    assert "free some space, or set TMPDIR or --folder" in run.problem
    assert "that you may write to" not in running.said()
    assert (samples / "fleet.csv").read_text().count("\n") > 3
    assert (samples / "processes.csv").read_text().count("\n") > 3


def _moments() -> list[float]:
    """Return twenty moments of a run's first seconds, the earlier the closer."""
    return [round(0.25 * 1.2**number, 2) for number in range(20)]


@pytest.mark.parametrize(
    "delay",
    [pytest.param(delay, marks=[] if number % 8 == 2 else pytest.mark.long) for number, delay in enumerate(_moments())],
)
def test_interrupted_at_any_moment(root: Path, stock: Path, tmp_path: Path, delay: float) -> None:
    """Whenever Ctrl-C comes: 130, no traceback, a run that says `interrupted`, and no temporary folder is left."""
    assert stock.is_dir()
    (tmp_path / "mine.toml").write_text(SCENARIO.format(seconds=60).replace('"none"', '"sql"'))
    words = ("load", "--scenario", str(tmp_path / "mine.toml"), "--tree", "stock")
    with tempfile.TemporaryDirectory(prefix="bed-test-") as temporary:
        Path(temporary).chmod(0o755)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("TMPDIR", temporary)
            with running_harness(root, tmp_path, *words) as running:
                try:
                    running.process.wait(delay)
                except subprocess.TimeoutExpired:
                    os.killpg(running.process.pid, signal.SIGINT)
                assert running.ends() == 130, running.said()
        until(lambda: not list(Path(temporary).iterdir()), Deadline(40), lambda: f"left in {temporary}")
    assert "Traceback" not in running.said()
    assert running.said().splitlines()[-1].startswith("Interrupted: ")
    found = [runs.read(path).status for path in (tmp_path / "runs").glob("2*")]
    assert found in ([], ["interrupted"])
