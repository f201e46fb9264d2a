"""Plays the timeline of a scenario while the clients are at work: `Player`.

Actions on the fleet and actions on the master run independently, each kind in order: a rotation of keys waits for the
master's maintenance, and must not delay the partition that is due meanwhile.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from harness.samples import EventSample, SampleFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from harness.load.backend import Backend
    from harness.scenarios.timeline import Event


class Player(AbstractContextManager["Player"]):
    """Does each moment when it is due and writes what came of it; a context manager.

    `ask` sends a request to the fleet and returns its answer. Nothing happens before `start`.
    """

    def __init__(
        self,
        moments: Iterable[Event],
        ask: Callable[[dict[str, object]], dict[str, Any]],
        master: Backend,
        folder: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the moments, and the folder for `timeline.csv`, which is made only if there are any."""
        self._moments = tuple(moments)
        self._ask = ask
        self._master = master
        self._clock = clock
        self._file = SampleFile(folder / "timeline.csv", EventSample) if self._moments else None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.problem = ""

    def __exit__(self, *_error: object) -> None:
        """Skip what is not due yet, and wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._file:
            self._file.close()

    def start(self, zero: float) -> None:
        """Begin; `zero` is the load's start in seconds since the epoch."""
        if self._threads:
            return
        for of_master in (False, True):
            moments = [moment for moment in self._moments if moment.of_master == of_master]
            if moments:
                self._threads.append(threading.Thread(target=self._play, args=(moments, zero), daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def started(self) -> bool:
        """Return whether the timeline has begun."""
        return bool(self._threads)

    @property
    def done(self) -> bool:
        """Return whether no moment is left or under way."""
        return not any(thread.is_alive() for thread in self._threads)

    def _play(self, moments: list[Event], zero: float) -> None:
        try:
            self._play_all(moments, zero)
        except Exception as problem:  # noqa: BLE001  # such as a full disk: a thread that dies takes no one along
            self.problem = f"The timeline could not be played on: {problem}"
            self._stop.set()

    def _play_all(self, moments: list[Event], zero: float) -> None:
        for moment in moments:
            while (left := zero + moment.at_s - self._clock()) > 0:
                if self._stop.wait(left):
                    return
            sample = self._do(moment)
            with self._lock:
                if self._file:
                    self._file.write(sample)
            if sample.error:
                self.problem = f"The moment `{moment.name}` of the timeline could not be played: {sample.error}"
                self._stop.set()
                return

    def _do(self, moment: Event) -> EventSample:
        began = self._clock()
        minions, error = 0, ""
        try:
            if moment.do == "rotate-keys":
                self._master.rotate_keys()
            elif moment.do == "restart-master":
                self._master.restart_master()
            else:
                minions = int(self._ask(moment.request()).get("minions", 0))
        except Exception as problem:  # noqa: BLE001  # whatever it is ends the run, from the thread that watches it
            error = str(problem)
        seconds = self._clock() - began
        return EventSample(began, moment.at_s, seconds, moment.do, moment.name, minions, error)
