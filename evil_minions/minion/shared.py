"""What all minions of a worker share: a value for each part of the package that they use.

A minion holds one reference to all of them rather than one to each, as there are thousands of minions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evil_minions.behaviour.director import Director
    from evil_minions.functions.tree import State
    from evil_minions.inventory.inventory import Inventory
    from evil_minions.minion.draws import Draws
    from evil_minions.minion.keyring import KeyRing
    from evil_minions.minion.lifecycle import Lifecycle
    from evil_minions.minion.publication import Publications
    from evil_minions.minion.runtime import Runtime
    from evil_minions.minion.traffic import Traffic
    from evil_minions.network.ports import Ports
    from evil_minions.recording.replay import Replay
    from evil_minions.samples.journal import Journal
    from evil_minions.states.planner import Planner

_FIRST_PID: Final = 2000
_PIDS: Final = 30000


@dataclass(frozen=True, slots=True)
class Answers:
    """Where the answers to jobs come from, beside the simulated functions.

    `replay` is a recording, None without one. `states` are made-up states; where they are None `planner` runs the
    master's own.
    """

    replay: Replay | None
    states: Sequence[State] | None
    planner: Planner


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared values; the docstring of each class says what it is for."""

    runtime: Runtime
    ports: Ports
    inventory: Inventory
    keys: KeyRing
    journal: Journal
    publications: Publications
    answers: Answers
    director: Director
    # Lifecycle[Minion], but Minion imports this module
    lifecycle: Lifecycle[Any]
    traffic: Traffic
    draws: Draws
    pids: Iterator[int] = field(default_factory=lambda: cycle(range(_FIRST_PID, _PIDS)))
