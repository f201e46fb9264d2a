"""Watches the processes that a bed depends on: `Watch`.

Nobody waits for a master, a database or a monitor to end, so nobody would notice, and figures measured after such an
end would be wrong without a sign of it. So the processes are checked often.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import ProcessError, StartError
from harness.processes import vitals
from harness.processes.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes.process import Process

# on a quiet machine: how long a process may be stopped, or give no sign of life
SILENT_S = 15.0


@dataclass
class Entry:
    """One process: what is lost without it, its own log if it has one, and how far it has got by its sign of life."""

    process: Process
    loss: str
    log: Path | None
    sign: Callable[[], float] | None
    may_end: bool
    deadline: Deadline
    value: float = -1.0
    since: float = 0.0


class Watch:
    """The processes of one bed that have to live; one that was stopped on purpose is forgotten."""

    def __init__(
        self, deadline: Callable[[float], Deadline] = Deadline, clock: Callable[[], float] = time.time
    ) -> None:
        """Watch nothing yet. `deadline` makes one of so many seconds, `clock` tells seconds since the epoch."""
        self._deadline = deadline
        self._clock = clock
        self._entries: list[Entry] = []

    def add(
        self,
        process: Process,
        loss: str = "",
        *,
        log: Path | None = None,
        sign: Callable[[], float] | None = None,
        may_end: bool = False,
    ) -> None:
        """Watch a process.

        loss: a sentence that says what the bed lacks without it
        log: where it says why it ends, beside what it prints
        sign: a number that changes as long as it does its work, such as the size of the file that it writes
        may_end: whether its end is somebody else's business
        """
        self._entries.append(Entry(process, loss, log, sign, may_end, self._deadline(SILENT_S), since=self._clock()))

    def check(self) -> None:
        """Raise StartError if a process has ended, ProcessError if one is stopped or gives no sign of life."""
        for entry in list(self._entries):
            process = entry.process
            if not (process.stopped or entry.may_end):
                try:
                    process.check(entry.log)
                except StartError as error:
                    # somebody may have stopped it meanwhile
                    if not process.stopped:
                        raise type(error)(" ".join(filter(None, [str(error), entry.loss]))) from error
            if process.stopped:
                self._entries.remove(entry)
            else:
                self._listen(entry)

    def _listen(self, entry: Entry) -> None:
        """Raise ProcessError if a process has been stopped, or has given no sign of life, for too long."""
        seen = vitals.read(entry.process.pid)
        halted = seen is not None and seen.halted
        value = entry.sign() if entry.sign else entry.value
        if not halted and (entry.sign is None or value != entry.value):
            entry.value, entry.since = value, self._clock()
            entry.deadline = self._deadline(SILENT_S)
        elif entry.deadline.passed():
            since = time.strftime("%H:%M:%S", time.localtime(entry.since))
            what = "has been stopped" if halted else "has given no sign of life"
            raise ProcessError(
                f"{entry.process.name} (process {entry.process.pid}) {what} since {since}: "
                f"{vitals.told(entry.process.pid)}; see {entry.process.log}. {entry.loss}".rstrip()
            )
