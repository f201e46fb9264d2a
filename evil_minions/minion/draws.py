"""The random numbers of a worker's minions."""

from __future__ import annotations

from evil_minions.rng import SeededRandom, stream


class Draws:
    """Random numbers that can be repeated: one generator for all minions, and the streams that they draw from."""

    def __init__(self, seed: int) -> None:
        """Take the fleet's seed."""
        self.seed = seed
        self.rng = SeededRandom()
        self.own = stream(seed, "minion")
