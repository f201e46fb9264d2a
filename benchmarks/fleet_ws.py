"""A fleet over ws: see `benchmarks.transports`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import transports

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.outcome import Outcome


def run(options: Options) -> Outcome:
    """Measure ws."""
    return transports.measure("ws", options)
