"""The request that carries the return of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evil_minions.network.request import EncryptedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.minion.publication import Publication
    from evil_minions.protocol.envelope import Load
    from evil_minions.samples.counters import Counters


class ReturnRequest(EncryptedRequest):
    """The return of a job; `publication` is the job's."""

    __slots__ = ("publication",)

    def __init__(
        self,
        load: Load,
        timeout: float,
        tries: int,
        done: Callable[[ReturnRequest, Any], None],
        publication: Publication,
    ) -> None:
        """Prepare; a channel sends it."""
        super().__init__(load, timeout, tries, done)
        self.publication = publication

    def count(self, counters: Counters) -> None:
        """Count every send."""
        counters.return_sends += 1
