"""What is called different: exact tests against plain enumeration, and how often chance alone is called different."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

import pytest

from harness import figures
from harness.results import differences

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.figures import Figure

# figures of each kind of noise, and how often at most one of them may be called different
FIGURES = 4000
ALLOWED = 0.01
CPU, TIME = figures.BY_NAME["master_cpu_ms_per_return"], figures.BY_NAME["client_latency_s.p95"]
# standard deviations of the logarithm, as pairs of the same tree have on a busy machine
CPU_NOISE, TIME_NOISE = 0.12, 0.35


@pytest.mark.parametrize(("one", "other"), itertools.product(range(1, 6), repeat=2))
def test_chance_is_that_of_all_orders(one: int, other: int) -> None:
    """The probability that all runs of one are beyond all of the other is what counting the orders gives."""
    orders = list(itertools.combinations(range(one + other), one))
    extreme = [order for order in orders if max(order) == one - 1 or min(order) == other]
    expected = 1.0 if one == other == 1 else len(set(extreme)) / len(orders)
    assert differences.probability(one, other) == pytest.approx(expected)


def test_five_repeats_are_enough() -> None:
    """From five repeats on nothing but order is asked for; below, the margin shrinks with each repeat."""
    assert [differences.rare(n, n) for n in (1, 2, 3, 4, 5, 6)] == [False, False, False, False, True, True]
    margins = [differences.margin(5.0, n, n) for n in (1, 2, 3, 4, 5)]
    assert margins[0] == pytest.approx(5.0)
    assert margins == sorted(margins, reverse=True)
    assert margins[-1] == 1.0


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 2.0], [4.0, 9.0], 2.0),
        ([4.0, 9.0], [1.0, 2.0], 2.0),
        ([1.0, 5.0], [4.0, 9.0], 1.0),
        ([1.0, 4.0], [4.0, 9.0], 1.0),
        ([0.0, 0.0], [4.0, 9.0], math.inf),
        ([0.0], [0.0], 1.0),
    ],
)
def test_apart(one: list[float], other: list[float], expected: float) -> None:
    """Ranges that touch are not apart."""
    assert differences.apart(one, other) == expected


def test_shares_agree_with_enumeration() -> None:
    """Fisher's exact test is twice the smaller tail of the hypergeometric distribution, counted out."""
    rng = _rng(3)
    for _ in range(200):
        here, there = rng.randint(1, 12), rng.randint(1, 12)
        bad, other = rng.randint(0, here), rng.randint(0, there)
        marked = bad + other
        weights = [math.comb(here, k) * math.comb(there, marked - k) for k in range(min(here, marked) + 1)]
        low, high = sum(weights[: bad + 1]), sum(weights[bad:])
        expected = min(1.0, 2 * min(low, high) / sum(weights)) if 0 < marked < here + there else 1.0
        found = differences.same_share(bad, here, other, there)
        # at the very middle either tail may be taken
        assert found == pytest.approx(expected) or (expected == 1.0 and found > 0.99)


def test_rates_agree_with_enumeration() -> None:
    """So does the test of rates with the binomial distribution of their sum."""
    rng = _rng(4)
    for _ in range(200):
        here, there, exposure, other = rng.randint(0, 15), rng.randint(0, 15), rng.randint(1, 9), rng.randint(1, 9)
        total, share = here + there, exposure / (exposure + other)
        weights = [math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(total + 1)]
        expected = min(1.0, 2 * min(sum(weights[: here + 1]), sum(weights[here:])))
        found = differences.same_rate(here, exposure, there, other)
        assert found == pytest.approx(expected) or (expected == 1.0 and found > 0.99)


@pytest.mark.parametrize(
    ("counts", "differ"),
    [
        ((42, 49, 0, 49), True),
        ((9, 17, 0, 17), True),
        ((3, 17, 0, 17), False),
        ((1, 20_000, 0, 20_000), False),
        ((12, 20, 19, 20), False),
        ((500, 10_000, 800, 10_000), True),
    ],
)
def test_counts_of_one_pair(counts: tuple[int, int, int, int], differ: bool) -> None:  # noqa: FBT001 - a case of the test
    """A bad minute in which most requests fail is a difference in one pair of runs; some failures more are not."""
    assert (differences.same_share(*counts) < differences.COUNTS_LEVEL) is differ


def _rng(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # figures, no secrets


def _gauss(rng: random.Random, spread: float) -> float:
    return math.exp(rng.gauss(0, spread))


def _heavy(rng: random.Random, spread: float) -> float:
    """Return a factor of which one in ten has twice the noise: somebody else's job ran beside it."""
    return math.exp(rng.gauss(0, spread * (2 if rng.random() < 0.1 else 0.85)))


def _one_sided(rng: random.Random, spread: float) -> float:
    """Return a factor that makes a run slower than it should be, never faster."""
    return math.exp(rng.expovariate(1 / spread))


def _called(figure: Figure, runs: Callable[[float], list[float]], factor: float = 1.0) -> float:
    """Return the share of synthetic figures that are called different, where the other tree's are `factor` times."""
    called = 0
    for _ in range(FIGURES):
        found = differences.between(figure, runs(1.0), runs(factor))
        called += found is not None and found.differs
    return called / FIGURES


@pytest.mark.parametrize("kind", [_gauss, _heavy, _one_sided], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("repeats", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize(("figure", "spread"), [(CPU, CPU_NOISE), (TIME, TIME_NOISE)], ids=["cpu", "time"])
def test_the_same_tree_is_not_called_different(
    figure: Figure, spread: float, repeats: int, kind: Callable[[random.Random, float], float]
) -> None:
    """Of a hundred figures of the same tree at most one is called different, with any number of repeats."""
    rng = _rng(repeats)
    assert _called(figure, lambda factor: [10 * factor * kind(rng, spread) for _ in range(repeats)]) <= ALLOWED


@pytest.mark.parametrize("repeats", [3, 4])
def test_few_repeats_measure_their_noise(repeats: int) -> None:
    """Where figures have far more noise than is usual, the ranges of three repeats tell so."""
    rng = _rng(repeats)
    assert _called(TIME, lambda factor: [10 * factor * _gauss(rng, 0.8) for _ in range(repeats)]) <= ALLOWED


@pytest.mark.parametrize(("repeats", "least"), [(3, 0.8), (4, 0.97), (5, 0.99)])
def test_a_factor_of_two_is_called_different(repeats: int, least: float) -> None:
    """A master that takes twice the CPU is seen with three repeats, whatever the machine does beside."""
    rng = _rng(repeats)
    assert _called(CPU, lambda factor: [10 * factor * _gauss(rng, CPU_NOISE) for _ in range(repeats)], 2.0) >= least


def test_a_factor_of_two_in_a_time() -> None:
    """Times have more noise than CPU; where it is small, as on a quiet machine, five repeats tell twice as much."""
    rng = _rng(1)
    assert _called(TIME, lambda factor: [10 * factor * _gauss(rng, 0.15) for _ in range(5)], 2.0) >= 0.95


def test_machines_drift_is_not_called_different() -> None:
    """Where the machine gets steadily slower, trees that take turns still are not called different."""
    rng, called = _rng(7), 0
    for _ in range(FIGURES):
        runs = [1.1**place * _gauss(rng, 0.03) for place in range(10)]
        order = [0, 1, 1, 0, 1, 0, 0, 1, 0, 1]
        sides = [[10 * run for run, side in zip(runs, order, strict=True) if side == wanted] for wanted in (0, 1)]
        found = differences.between(CPU, *sides)
        called += found is not None and found.differs
    assert called / FIGURES <= ALLOWED


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("requests", [17, 49, 150])
def test_failures_by_chance_are_not_called_different(rate: float, requests: int) -> None:
    """Requests that fail with the same probability on both trees are called different in one of a thousand figures."""
    rng, called = _rng(requests), 0
    for _ in range(FIGURES):
        here, there = (sum(rng.random() < rate for _ in range(requests)) for _ in range(2))
        called += differences.same_share(here, requests, there, requests) < differences.COUNTS_LEVEL
    assert called / FIGURES <= 0.002
