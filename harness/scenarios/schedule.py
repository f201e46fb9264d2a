"""The arrival schedule: which request is due when.

It is computed before the load begins and never looks at an answer, which is what makes the model an open one: a master
that slows down gets the same requests as one that doesn't. The same scenario and seed always give the same schedule.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scenarios.clients import Arrival, Clients
    from harness.scenarios.scenario import Scenario


@dataclass(frozen=True)
class Request:
    """One request: the clients that send it, its number among theirs, and when it is due, in seconds from the start."""

    clients: str
    number: int
    due_s: float


def requests(scenario: Scenario) -> list[Request]:
    """Return every request of the scenario, in the order in which they are due."""
    every = [request for clients in scenario.clients for request in requests_of(clients, scenario.seed)]
    return sorted(every, key=lambda request: request.due_s)


def requests_of(clients: Clients, seed: int) -> list[Request]:
    """Return the requests of one block of clients, in order.

    Each block draws from a generator of its own, seeded with its name, so that adding a block leaves the others as
    they were.
    """
    source = random.Random(f"{seed}/{clients.name}")  # noqa: S311  # a repeatable schedule is no secret
    return [Request(clients.name, number, due) for number, due in enumerate(_times(clients.arrival, source))]


def _times(arrival: Arrival, source: random.Random) -> Iterator[float]:
    if arrival.kind == "burst":
        yield from [arrival.start_s] * arrival.burst
        return
    now = 0.0 if arrival.kind == "constant" else source.expovariate(arrival.rate)
    while now < arrival.duration_s:
        yield round(arrival.start_s + now, 6)
        now += 1 / arrival.rate if arrival.kind == "constant" else source.expovariate(arrival.rate)
