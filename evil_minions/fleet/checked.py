"""What can be known of a fleet before it starts: that its options, and the files that they name, make sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evil_minions.behaviour import library
from evil_minions.errors import UsageError
from evil_minions.fleet import catalogue, keystates
from evil_minions.inventory.population import load_population
from evil_minions.recording.recording import load
from evil_minions.recording.replay import Pace, Replay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evil_minions.fleet.settings import FleetSettings


def check(settings: FleetSettings, asked: Iterable[str] = (), later: Iterable[str] = ()) -> None:
    """Check everything that needs no master.

    Args:
        settings: of the fleet.
        asked: names of functions that its minions have to know.
        later: names of behaviours that they get while they run.

    Raises:
        UsageError: for what can't work; for functions that are not known, a line for each.

    """
    settings.check()
    if settings.master.autosign:
        keystates.grains(settings.master.autosign)
    for each in settings.shares.behaviours:
        library.load(each.name)
    for name in later:
        library.load(library.find(name))
    if settings.looks.population:
        load_population(settings.looks.population)
    if wanted := list(asked):
        _check_functions(settings, wanted)


def _check_functions(settings: FleetSettings, asked: list[str]) -> None:
    path, pace = settings.replies.recording, Pace(settings.replies.slowdown, settings.replies.jitter)
    replay = Replay(load(path), settings.seed, pace) if path else None
    told = []
    for name, near in catalogue.unknown(asked, catalogue.names(replay)).items():
        advice = (
            f"did you mean {near}?"
            if near
            else "record it on a real minion, add it in evil_minions/functions/modules/, or correct its name."
        )
        told.append(f"The simulated minions do not know the function {name}: {advice}")
    if told:
        raise UsageError("\n".join(told))
