"""Figures: from samples to a value, a ratio, a spread and a verdict."""

from __future__ import annotations

import random

import pytest

from benchmarks.benchmark import Aim, BenchmarkError, Figure, Samples, at_least, at_most, condense, document, exactly


def test_turns_are_divided_in_pairs() -> None:
    """A ratio is the median of each turn's own ratio, not the ratio of the medians."""
    found = document(Figure("key", "what", "ms"), Samples([1.0, 2.0, 30.0], [1.0, 4.0, 10.0]), 1)
    assert (found["ours"], found["stock"], found["ratio"]) == (2.0, 4.0, 1.0)
    assert found["spread"]["ratio"] == {"n": 3, "min": 0.5, "median": 1.0, "max": 3.0}
    assert found["spread"]["ours"] == {"n": 3, "min": 1.0, "median": 2.0, "max": 30.0}


def test_series_of_different_lengths_have_a_ratio_of_their_values() -> None:
    """Where turns can't be paired, the two values are divided, and no spread of ratios is claimed."""
    found = document(Figure("key", "what"), Samples([1.0, 2.0, 3.0], [4.0]), 1)
    assert found["ratio"] == 0.5
    assert set(found["spread"]) == {"ours", "stock"}


@pytest.mark.parametrize("stock", [(), (0.0, 0.0)])
def test_nothing_to_divide_by_gives_no_ratio(stock: tuple[float, ...]) -> None:
    """Without stock's samples, or with zeros, there is no ratio, and an aim of it is not met."""
    found = document(Figure("key", "what", aim=at_most(1, of="ratio")), Samples([1.0, 2.0], stock), 1)
    assert (found["ratio"], found["met"]) == (None, False)


def test_no_samples_are_an_error() -> None:
    """A figure that was promised and not measured is not written down as nothing."""
    with pytest.raises(BenchmarkError, match="key has no samples"):
        document(Figure("key", "what"), Samples([]), 1)


@pytest.mark.parametrize(
    ("aim", "value", "met"),
    [
        (at_most(5), 5, True),
        (at_most(5), 5.01, False),
        (at_least(3), 3, True),
        (at_least(3), 2.9, False),
        (exactly(0), 0, True),
        (exactly(0), 1, False),
        (Aim(0.9, 1.1), 1.0, True),
        (Aim(0.9, 1.1), 1.2, False),
    ],
)
def test_aims(aim: Aim, value: float, met: bool) -> None:  # noqa: FBT001 - a verdict
    """Limits are inclusive, on both sides."""
    assert document(Figure("key", "what", aim=aim), Samples([value]), 1)["met"] is met


def test_the_statistic_decides_what_is_judged() -> None:
    """With p99 as the statistic one outlier in ten misses the aim that the median meets."""
    samples = Samples([1.0] * 9 + [100.0])
    verdicts = {name: document(Figure("k", "w", "", name, at_most(5)), samples, 1)["met"] for name in ("median", "p99")}
    assert verdicts == {"median": True, "p99": False}


def test_percentiles_are_samples() -> None:
    """Each statistic is within the series and in order, for any series."""
    rng = random.Random(1)  # noqa: S311 - nothing secret
    for size in (1, 2, 3, 100, 101):
        series = [rng.random() for _ in range(size)]
        found = [condense(name, series) for name in ("min", "median", "p95", "p99", "max")]
        assert found == sorted(found, key=lambda value: value or 0.0)
        assert (found[0], found[-1]) == (min(series), max(series))


def test_the_size_stands_in_the_words() -> None:
    """A run with other minions does not claim the usual number of them."""
    assert Figure("key", "fetch, {minions} minions").title(20_000) == "fetch, 20,000 minions"
