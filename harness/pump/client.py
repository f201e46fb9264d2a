"""Starts `harness.pump.minions` for a bed's master, and tells them what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from harness.errors import StartError
from harness.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from harness.bed import Bed

STOP_S = 10.0


class Pump:
    """The minions, in a process of their own, as Salt changes the one that it is in; a context manager.

    Every method raises StartError if that process has ended.
    """

    def __init__(self, bed: Bed, minions: int, folder: Path) -> None:
        """Take the bed, which has to run when the context is entered; the minions' keys stay in `folder`."""
        self._bed = bed
        self._minions = minions
        self._folder = folder

    def __enter__(self) -> Self:
        """Start the process and wait until all minions are connected."""
        master = self._bed.master
        argv = [master.request_port, self._minions, self._folder, master.pki_dir, master.cache_dir]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.pump.minions", *map(str, argv)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """End the process."""
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=STOP_S)

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise StartError("The process of the minions that only return has ended; its traceback stands above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def returns(self, jid: str) -> None:
        """Let all return a ping."""
        self._ask({"jid": jid})

    def insist(self, jid: str, patience: float) -> int:
        """Let all return a ping, each again and again after so many seconds without an answer; return the tries."""
        return int(self._ask({"jid": jid, "patience": patience})["tries"])

    def ask(self, number: int, jid: str, **load: object) -> None:
        """Let one return a ping, or what the load says else."""
        self._ask({"minion": number, "load": {"jid": jid, **load}})
