"""How long something takes: constant, evenly spread, lognormal, or as measured.

A measured distribution is a list of samples; values between two samples are as likely as the samples are close.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

    from evil_minions.tables import Table

_LONGEST: Final = 1_000_000.0
_KINDS: Final = ("seconds", "median", "samples")


@dataclass(frozen=True, slots=True)
class Delay:
    """Seconds from `seconds` to `seconds + jitter`, each as likely."""

    seconds: float = 0.0
    jitter: float = 0.0

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one case."""
        return self.seconds + self.jitter * rng.random() if self.jitter else self.seconds

    def __str__(self) -> str:
        """Return it as a person reads it."""
        if self.jitter:
            return f"{self.seconds:g} to {self.seconds + self.jitter:g} s"
        return f"{self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Lognormal(Delay):
    """Seconds whose logarithm is normal: half of the cases are below `median`, `sigma` says how long the tail is."""

    median: float = 1.0
    sigma: float = 0.5
    most: float = _LONGEST

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one case."""
        return min(self.most, rng.lognormvariate(math.log(self.median), self.sigma))

    def __str__(self) -> str:
        """Return it as a person reads it."""
        return f"about {self.median:g} s (lognormal, sigma {self.sigma:g})"


@dataclass(frozen=True, slots=True)
class Measured(Delay):
    """Seconds as in a list of samples, which is sorted."""

    samples: tuple[float, ...] = (0.0,)

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one case: a point between two neighbouring samples."""
        place = rng.random() * (len(self.samples) - 1)
        low = int(place)
        high = min(low + 1, len(self.samples) - 1)
        return self.samples[low] + (self.samples[high] - self.samples[low]) * (place - low)

    def __str__(self) -> str:
        """Return it as a person reads it."""
        return f"{self.samples[0]:g} to {self.samples[-1]:g} s (as measured, {len(self.samples)} samples)"


def delay_of(table: Table, key: str) -> Delay | None:
    """Return the delay under a key of a rule, None where there is none.

    Raises:
        UsageError: if it is none of the kinds.

    """
    value = table.values.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        return Delay(table.number(key, high=_LONGEST))
    inner = table.table(key)
    match inner.one(*_KINDS):
        case "seconds":
            inner.allow("seconds", "jitter")
            return Delay(inner.number("seconds", high=_LONGEST), inner.number("jitter", 0.0, high=_LONGEST))
        case "median":
            inner.allow("median", "sigma", "most")
            median, sigma = inner.number("median", low=1e-6, high=_LONGEST), inner.number("sigma", 0.5, high=10.0)
            return Lognormal(median=median, sigma=sigma, most=inner.number("most", _LONGEST, high=_LONGEST))
        case "samples":
            inner.allow("samples")
            return Measured(samples=_samples(inner))
    raise table.error(key, "needs one of `seconds`, `median`, `samples`")


def _samples(table: Table) -> tuple[float, ...]:
    """Return the sorted samples."""
    values = table.take("samples", list)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST:
            raise table.error("samples", f"holds {value!r}, but may hold seconds only")
    if not values:
        raise table.error("samples", "is empty: give at least one number of seconds")
    return tuple(sorted(float(value) for value in values))
