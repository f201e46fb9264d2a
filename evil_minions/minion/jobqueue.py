"""The job queue of a minion itself: what is above `process_count_max` waits, in the order in which it came.

Source: Minion._handle_decoded_payload_impl and process_process_queue in salt/minion.py of Salt 3008.5, where the queue
lies on the minion's disk and is looked at every 0.2 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import asyncio

    from evil_minions.minion.publication import Publication

LOOK_SECONDS: Final = 0.2
BYPASS: Final = "__ignore_process_count_max"


class QueueOwner(Protocol):
    """The minion whose jobs wait."""

    def busy(self) -> int:
        """Return how many jobs run."""

    @property
    def is_up(self) -> bool:
        """Whether the minion runs; its queue is on disk, and waits while it doesn't."""

    def start(self, publication: Publication) -> None:
        """Start a job for which a process is free."""


class JobQueue:
    """The jobs that wait on one minion; `most` is how many may run at a time."""

    def __init__(self, minion: QueueOwner, most: float, loop: asyncio.AbstractEventLoop) -> None:
        """Begin empty."""
        self.most = most
        self._minion = minion
        self._loop = loop
        self._waiting: list[Publication] = []

    def take(self, publication: Publication) -> None:
        """Start a job, or have it wait if enough run and its publisher does not say that it must not."""
        if self._minion.busy() < self.most or publication.load.get(BYPASS):
            self._minion.start(publication)
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
        self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Start as many waiting jobs as there are free processes."""
        if self._minion.is_up:
            while self._waiting and self._minion.busy() < self.most:
                self._minion.start(self._waiting.pop(0))
        if self._waiting:
            self._look_later()
