"""The names of the functions that the minions of a fleet answer.

A real minion answers a misspelt function after four seconds with an error. Whoever starts a load asks here first, so
that he does not measure errors.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from evil_minions.functions.table import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from evil_minions.recording.replay import Replay


def names(replay: Replay | None) -> frozenset[str]:
    """Return the names of all functions, those of the recording included."""
    return frozenset(FUNCTIONS) | (replay.functions if replay else frozenset())


def unknown(asked: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return those of the functions `asked` for that nobody knows, each with the nearest known one, "" if none is."""
    found = {}
    for name in asked:
        if name not in known:
            found[name] = next(iter(difflib.get_close_matches(name, sorted(known), n=1)), "")
    return found
