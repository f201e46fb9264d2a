"""Gaps in samples that are taken every second: figures that need the missing samples are not measured.

CPU time is a counter, so its values at two moments tell what was used between them: there has to be a sample near both.
A peak may be missed in any gap.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.samples.rows import Timeline

LONGEST_S = 5.0
"""The longest time without a sample that is none: five of them may be late on a busy machine."""
# or so many times what lies between two samples of this file
RHYTHMS = 3.0


@dataclass(frozen=True)
class Gap:
    """A time without samples, in seconds since the epoch; `edge`: the load began, or had settled, in it."""

    start: float
    end: float
    edge: bool

    def told(self, what: str, load_start: float) -> str:
        """Return the gap in words; `what` is the subject with its verb."""
        return (
            f"{what} not sampled for {self.end - self.start:.1f} s, from {self.start - load_start:.1f} s after the "
            "load's start"
        )


def find(times: Iterable[float], timeline: Timeline) -> list[Gap]:
    """Return the gaps between `times` of samples from the load's start until it had settled."""
    start, end = timeline.load_start, timeline.settled
    moments = sorted(set(times))
    rhythm = statistics.median(after - before for before, after in pairwise(moments)) if len(moments) > 1 else 0.0
    longest = max(LONGEST_S, RHYTHMS * rhythm)
    before = [moment for moment in moments if moment <= start]
    after = [moment for moment in moments if moment >= end]
    # where there is no sample before or after the load, its start or end takes the place of one
    within = [moment for moment in moments if start < moment < end]
    chain = [before[-1] if before else start, *within, after[0] if after else end]
    found = [Gap(one, two, one <= start or two >= end) for one, two in pairwise(chain) if two - one > longest]
    if not moments:
        return [Gap(start, end, edge=True)]
    return found
