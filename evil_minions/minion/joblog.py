"""The log of jobs: what is noted when the first minion of a worker hears of a publication."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from evil_minions.minion.phase import Phase
from evil_minions.rng import stream
from evil_minions.samples.rows import JobRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.minion.publication import Publication
    from evil_minions.samples.journal import Journal


class Hearer(Protocol):
    """A minion; `phase` says how far it has come."""

    phase: Phase

    @property
    def subscribed(self) -> bool:
        """Whether publications reach it."""

    @property
    def signed_in_once(self) -> bool:
        """Whether the master has ever let it in."""


class JobLog:
    """Writes the samples of publications, and gives each job its stream of random numbers."""

    def __init__(self, minions: Sequence[Hearer], journal: Journal, seed: int) -> None:
        """Take the minions by their indexes (the sequence may grow later), the journal and the fleet's seed."""
        self._minions = minions
        self._journal = journal
        self._seed = seed
        self._functions: Counter[str] = Counter()

    def new(self, publication: Publication) -> None:
        """Note a publication, and give its job a stream if the job is new.

        The stream is that of the n-th job with this function: how many find_jobs a slow master caused changes nothing.
        What reaches a minion late, as when its network heals, was counted when the others got it.
        """
        tally = publication.tally
        new = not tally.nth
        if new:
            self._functions[publication.fun] += 1
            tally.nth = self._functions[publication.fun]
            tally.stream = stream(self._seed, "job", publication.fun, tally.nth)
        publication.stream, publication.nth = tally.stream, tally.nth
        meant = [index for index, chosen in enumerate(publication.chosen) if chosen and not tally.asked >> index & 1]
        if not new and not meant:
            return
        targeted = sum(1 for index in meant if self._hears(index))
        self._journal.add(JobRow(time.time(), publication.jid, publication.fun, targeted))
        for index in meant:
            # a master publishes for all whose keys it has accepted, whatever became of them since
            if self._minions[index].signed_in_once:
                tally.asks(index)
        self._journal.tallies.changed(tally)

    def _hears(self, index: int) -> bool:
        """Return whether a minion receives publications and will run them."""
        minion = self._minions[index]
        return minion.phase >= Phase.TUNED and minion.subscribed
