"""What the fleet heard of a load: a counter of its samples, between two of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.results.evidence import Evidence


def risen(samples: Evidence, counter: str) -> int:
    """Return by how much a counter rose from the last sample before the load to the last one before the settled end."""
    timeline = samples.timeline
    before, after = (
        max((getattr(row, counter) for row in samples.fleet if row.time <= until), default=0)
        for until in (timeline.load_start, timeline.settled)
    )
    return int(after - before)
