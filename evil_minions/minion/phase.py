"""How far a minion has come in its start, or why it doesn't."""

from __future__ import annotations

import enum


class Stage(enum.IntEnum):
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
