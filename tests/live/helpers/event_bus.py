"""The processes that are a master's event bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from harness.bed import Bed

NAME = "EventPublisher"


def buses(bed: Bed) -> list[int]:
    """Return the ids of the processes that are the bus of a bed's master: one, or none while it is started again."""
    return [one.pid for one in psutil.Process(bed.master_pid).children(recursive=True) if _is_bus(one)]


def _is_bus(process: psutil.Process) -> bool:
    try:
        return NAME in " ".join(process.cmdline())
    except psutil.Error:
        # it has just ended
        return False
