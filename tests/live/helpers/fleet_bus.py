"""The master's events for a test, through `events.py`."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.bed import Bed

SECONDS = 120.0
SCRIPT = Path(__file__).with_name("fleet_events.py")


class Bus:
    """The master's events so far, and a way to publish jobs."""

    def __init__(self, bed: Bed, path: Path) -> None:
        """Listen."""
        self._path = path
        self._names = itertools.count()
        argv = [sys.executable, str(SCRIPT), str(bed.master.config_dir / "master")]
        with path.open("wb") as output:
            self.process = subprocess.Popen(argv, env=bed.environment, stdin=subprocess.PIPE, stdout=output)
        self.wait(lambda: bool(self.events(tag="listening")), "no event bus")

    def wait(self, condition: Callable[[], bool], problem: str) -> None:
        """Wait for something."""
        until(condition, Deadline(SECONDS), lambda: problem)

    def events(self, **wanted: object) -> list[dict[str, Any]]:
        """Return the events that have these values, in the order in which the master had them."""
        lines = self._path.read_text().splitlines(keepends=True)
        found = (json.loads(line) for line in lines if line.endswith("\n"))
        return [event for event in found if all(event.get(name) == value for name, value in wanted.items())]

    def publish(self, minions: Sequence[str], fun: str, *arg: object) -> str:
        """Publish a job for some minions; return its id."""
        name = str(next(self._names))
        job = {"name": name, "tgt": list(minions), "tgt_type": "list", "fun": fun, "arg": list(arg)}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()
        self.wait(lambda: bool(self.events(tag="published", name=name)), "the job wasn't published")
        return str(self.events(tag="published", name=name)[0]["jid"])

    def returns(self, jid: str) -> list[tuple[str, Any]]:
        """Return who has returned what for a job so far, in the order in which the master had it."""
        return [
            (event["id"], event["return"])
            for event in self.events(jid=jid)
            if event["tag"].startswith(f"salt/job/{jid}/ret/")
        ]

    def returned(self, jid: str, count: int) -> list[tuple[str, Any]]:
        """Wait for so many returns of a job."""
        self.wait(lambda: len(self.returns(jid)) >= count, f"{self.returns(jid)} of {count} returns came")
        return self.returns(jid)

    def close(self) -> None:
        """Stop listening."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(SECONDS)
