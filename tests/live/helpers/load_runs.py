"""A harness at work in a process of its own, for tests that disturb it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = """
description = "Pings for a while"
minions = 10
pillar = "none"
settle_s = 10

[[clients]]
name = "ping all"
kind = "api"
function = "test.ping"
tgt = "*"
rate = 2
duration_s = {seconds}
arrival = "constant"
"""


@dataclass(frozen=True)
class Running:
    """A harness at work, and the file that takes all that it prints."""

    process: subprocess.Popen[bytes]
    output: Path
    folder: Path

    def said(self) -> str:
        """Return what it has printed."""
        return self.output.read_text()

    def ends(self) -> int:
        """Wait for its end, longer on a busy machine, and return its exit code."""
        until(lambda: self.process.poll() is not None, Deadline(100), self.said)
        return self.process.wait()

    def child(self, words: str) -> psutil.Process:
        """Return its descendant whose command line holds some words."""
        everybody = psutil.Process(self.process.pid).children(recursive=True)
        (found,) = [one for one in everybody if words in " ".join(one.cmdline())]
        return found

    def run(self) -> Path:
        """Return the folder of its run."""
        (folder,) = (path for path in self.folder.iterdir() if path.is_dir() and not path.is_symlink())
        return folder


@contextmanager
def running_harness(root: Path, folder: Path, *words: str) -> Iterator[Running]:
    """Yield a harness that does a command, with its folders below `folder`."""
    output = folder / "output"
    command = [sys.executable, "-m", "harness", *words, "--folder", str(folder / "runs")]
    with (
        output.open("w") as file,
        subprocess.Popen(command, cwd=root, stdout=file, stderr=file, start_new_session=True) as process,
    ):
        try:
            yield Running(process, output, folder / "runs")
        finally:
            process.kill()


@contextmanager
def load(root: Path, folder: Path, seconds: int, *words: str) -> Iterator[Running]:
    """Yield a load run that sends requests."""
    (folder / "mine.toml").write_text(SCENARIO.format(seconds=seconds))
    with running_harness(
        root, folder, "load", "--scenario", str(folder / "mine.toml"), "--tree", "stock", *words
    ) as running:
        until(
            lambda: list(folder.glob("runs/*/stock/samples/zero")) or running.process.poll() is not None,
            Deadline(120),
            running.said,
        )
        assert running.process.poll() is None, running.said()
        yield running
