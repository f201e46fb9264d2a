"""The phases of a minion's life: how far its start has come, or why it doesn't start."""

from __future__ import annotations

import enum


class Phase(enum.IntEnum):
    """How far a minion has come; below IDLE it isn't under way.

    GONE is outside a fleet that was scaled down, DEAD was killed, REFUSED was turned away by the master and waits to
    be started again.
    """

    GONE = -3
    DEAD = -2
    REFUSED = -1
    IDLE = 0
    PENDING = 1
    AUTHENTICATED = 2
    TUNED = 3
    READY = 4
