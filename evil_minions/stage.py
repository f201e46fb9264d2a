"""How far a minion has come in its start."""

from __future__ import annotations

import enum


class Stage(enum.IntEnum):
    """How far a minion has come."""

    IDLE = 0
    PENDING = 1
    AUTHENTICATED = 2
    TUNED = 3
    READY = 4
