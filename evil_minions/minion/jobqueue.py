"""The job queue of a minion itself: what is above `process_count_max` waits, in the order in which it came.

Source: Minion._handle_decoded_payload_impl and process_process_queue in salt/minion.py of Salt 3008.5, where the queue
lies on the minion's disk and is looked at every 0.2 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.minion.minion import Minion
    from evil_minions.minion.publication import Publication

LOOK_SECONDS: Final = 0.2
BYPASS: Final = "__ignore_process_count_max"


class JobQueue:
    """The jobs that wait on one minion; `start` is called with each of them when a process is free."""

    def __init__(self, minion: Minion, most: float, start: Callable[[Minion, Publication], None]) -> None:
        """Begin empty; `most` is how many jobs may run at a time."""
        self._minion = minion
        self.most = most
        self._start = start
        self._waiting: list[Publication] = []

    def take(self, publication: Publication) -> None:
        """Start a job, or have it wait if enough run and its publisher does not say that it must not."""
        if self._minion.busy() < self.most or publication.load.get(BYPASS):
            self._start(self._minion, publication)
            return
        self._waiting.append(publication)
        if len(self._waiting) == 1:
            self._look_later()

    def data(self) -> list[dict[str, Any]]:
        """Return what saltutil.find_job tells of the jobs that wait."""
        return [
            {**publication.load, "pid": 0, "queued": True, "queue_type": "job_queue"} for publication in self._waiting
        ]

    def _look_later(self) -> None:
        """Look again after a while."""
        self._minion.context.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Start as many waiting jobs as there are free processes."""
        # the queue is on disk: a minion that ends finds it again when it has started
        if self._minion.channel is not None:
            while self._waiting and self._minion.busy() < self.most:
                self._start(self._minion, self._waiting.pop(0))
        if self._waiting:
            self._look_later()
