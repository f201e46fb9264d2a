"""The benchmark of the same tree against itself counts what a report would call different."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from benchmarks import control
from benchmarks.errors import BenchmarkError
from harness import figures

TREE: dict[str, Any] = {
    "client_requests": 20,
    "client_errors": 0,
    "jobs_requested": 20,
    "publications": 20,
    "master_cpu_ms_per_return": 3.0,
    "client_latency_s": {"p50": 1.0},
    "cpu_s": {"MWorker": 1.0},
    "per_function": {"test.ping": {"returns": 100, "jobs_requested": 20}},
}


def _pair(**changes: object) -> dict[str, dict[str, Any]]:
    return {"stock": copy.deepcopy(TREE), "stock-2": {**copy.deepcopy(TREE), **changes}}


def test_pairs_without_a_difference() -> None:
    """Equal trees: each pair has its figures compared, and none is called different."""
    found = control.count([_pair() for _ in range(10)], 2)
    # client errors, CPU and latency, beside the CPU of one role and of all
    assert list(found[control.COMPARED].ours) == [50]
    assert list(found[control.CALLED].ours) == [0]
    # five groups of two, three of three, two of five, and all ten
    assert list(found[control.REPEATED].ours) == [5 * 11]
    assert list(found[control.REPEATED_SHARE].ours) == [0.0]
    assert set(found) == set(control.CONTROL.figures)


def test_what_is_called_different_is_counted() -> None:
    """A pair in which one run failed altogether counts, and so does the CPU of a role."""
    bad = _pair(client_errors=20, cpu_s={"MWorker": 9.0}, master_cpu_ms_per_return=3.9)
    found = control.count([_pair(), bad], 2)
    assert list(found[control.CALLED].ours) == [3]
    assert list(found[control.SHARE].ours) == [0.3]
    assert list(found[control.CPU].ours) == [1.0, 1.3]
    # one run of two is no tree
    assert list(found[control.REPEATED_CALLED].ours) == [0]


def test_a_busy_machine_tells_nothing() -> None:
    """A pair beside other work is counted apart, and calls nothing different."""
    bad = _pair(client_errors=20, others_cores=1.0)
    found = control.count([_pair(), bad], 2)
    assert list(found[control.COMPARED].ours) == [5]
    assert (list(found[control.BLIND].ours), list(found[control.CALLED].ours)) == ([1], [0])
    # half a core of sixteen is nothing
    found = control.count([_pair(), bad], 16)
    assert (list(found[control.BLIND].ours), list(found[control.CALLED].ours)) == ([0], [1])


def test_nothing_compared_is_no_verdict() -> None:
    """Where every pair was blind, or there is one round only, no share meets an aim."""
    with pytest.raises(BenchmarkError, match="There were no figures compared in single pairs"):
        control.count([_pair(others_cores=1.0)] * 2, 2)
    with pytest.raises(BenchmarkError, match="There were no figures compared in repeats"):
        control.count([_pair()], 2)


def test_the_noise_of_the_tests_is_that_of_figures() -> None:
    """The figures whose ratios stand on the page are figures of a result."""
    assert {"master_cpu_ms_per_return", "client_latency_s.p50"} <= figures.BY_NAME.keys()
