"""Results: known samples give known figures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.errors import SettingsError
from harness.figures import percentiles
from harness.results import figures, result
from harness.samples import ProcessSample
from harness.scenarios import thresholds
from harness.scenarios.thresholds import Threshold, Verdict

RUN = Path(__file__).parent / "data" / "run"
NOTHING = {"p50": None, "p95": None, "p99": None, "n": 0}


def few(n: int, p50: float | None = None) -> dict[str, float | None]:
    """Return the percentiles of so few times that there is a median at most."""
    return {"p50": p50, "p95": None, "p99": None, "n": n}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the folder of a finished run of two trees with four minions."""
    return Path(shutil.copytree(RUN, tmp_path / "run"))


def test_figures_of_a_tree(run: Path) -> None:
    """Every figure is what the definition makes of the samples.

    Two CLIs became three jobs of four minions; one return was given up after three attempts, two took more than one,
    and the master asked once whether a job was still running, to which one answer was never sent. The job before the
    load phase counts nowhere.
    """
    assert result.compute(run).trees["stock"] == {
        "minions": 4,
        "ramp_up_s": 2.0,
        "kb_per_minion": 7.0,
        "fleet_cpu_ms_per_return": 16.6667,
        "master_cpu_ms_per_return": 158.3333,
        "fleet_cpu_ms_per_any_return": 13.3333,
        "master_cpu_ms_per_any_return": 126.6667,
        "jobs_requested": 2,
        "jobs_accepted": 3,
        "jobs_unpublished": 0,
        "publications": 3,
        "publications_per_job": 1.5,
        "returns_expected": 12,
        "returns_kept": 11,
        "never_reached": 0,
        "returns_unfinished": 0,
        "returns_lost": 1,
        "returns_per_s": 1.2222,
        "acknowledged_ratio": 0.7,
        "duplicate_ratio": 0.3333,
        "heard_mb": 0.008,
        "heard_per_execution": 1.3333,
        "find_jobs": 4,
        "find_jobs_per_execution": 0.3333,
        "client_requests": 2,
        "client_errors": 1,
        "longest_wait_s": 8.0,
        "client_latency_s": few(2, 5.0),
        "complete_latency_s": few(1),
        "sent_late_s": {"p95": None, "max": 0.01, "n": 2, "late": 0},
        "logins": 0,
        "login_errors": 0,
        "login_s": few(0),
        "acknowledgement_s": few(14, 0.75),
        "settle_s": 2.0,
        "settled_in_time": True,
        "peak_memory_mb": {"MWorker": 110.0, "PubServerChannel": 30.0, "api": 100.0},
        "cpu_s": {"MWorker": 1.5, "PubServerChannel": 0.4, "api": 0.2},
        "per_function": {
            "saltutil.find_job": {
                "jobs_requested": 0,
                "publications": 1,
                "executions": 4,
                "returns": 3,
                "return_sends": 3,
                "returns_acknowledged": 3,
                "returns_unacknowledged": 0,
                "client_errors": 0,
                "client_latency_s": NOTHING,
                "complete_latency_s": NOTHING,
                "acknowledgement_s": few(3, 0.5),
            },
            "test.ping": {
                "jobs_requested": 2,
                "publications": 3,
                "executions": 12,
                "returns": 12,
                "return_sends": 17,
                "returns_acknowledged": 11,
                "returns_unacknowledged": 1,
                "client_errors": 1,
                "client_latency_s": few(2, 5.0),
                "complete_latency_s": few(1),
                "acknowledgement_s": few(11, 0.75),
            },
        },
        "time": {"ramp_up_s": 2.0, "load_s": 8.0, "settle_s": 2.0},
        "left_out": {"jobs": 2, "returns": 4},
        "clocks": {},
        "gaps": (),
        "others_cores": None,
    }


def test_verdicts(run: Path) -> None:
    """Thresholds are applied to the trees that they name, and one missed is enough."""
    found = result.compute(run)
    assert found.verdicts == (
        Verdict("patched", "client_errors", None, 0.0, 0.0, passed=True),
        Verdict("stock", "acknowledged_ratio", 0.9, None, 0.7, passed=False),
        Verdict("patched", "acknowledged_ratio", 0.9, None, 1.0, passed=True),
    )
    assert not found.passed


def test_same_samples_same_result(run: Path) -> None:
    """A result computed again is the same, byte by byte, and has its format's number."""
    result.write(result.compute(run), run)
    first = (run / result.FILE).read_bytes()
    result.write(result.compute(run), run)
    assert (run / result.FILE).read_bytes() == first
    assert json.loads(first)["format"] == result.FORMAT == 3
    assert json.loads(first)["trees"].keys() == {"stock", "patched"}


def test_unfinished_run_has_no_result(run: Path) -> None:
    """A run without its timeline is refused in a sentence."""
    (run / "stock" / "samples" / "timeline.json").unlink()
    with pytest.raises(SettingsError, match="this run was not finished, so it has no result"):
        result.compute(run)


def test_unknown_column_is_refused(run: Path) -> None:
    """Samples of another version are refused in a sentence that names the file and the column."""
    path = run / "stock" / "samples" / "kept.csv"
    path.write_text(path.read_text().replace("minion\n", "host\n", 1))
    with pytest.raises(SettingsError, match=r"kept.csv has no column minion"):
        result.compute(run)


def test_half_a_line_is_skipped(run: Path) -> None:
    """A last line that a killed process left unfinished does not count."""
    path = run / "stock" / "samples" / "processes.csv"
    path.write_text(path.read_text() + "1021,MWor")
    assert result.compute(run).trees["stock"]["cpu_s"]["MWorker"] == 1.5


def test_percentiles() -> None:
    """Percentiles are interpolated between the two nearest of the raw samples."""
    assert percentiles(range(101)) == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "n": 101}


@pytest.mark.parametrize(
    ("n", "expected"),
    [(0, "---"), (1, "---"), (2, "50"), (19, "50"), (20, "50 95"), (99, "50 95"), (100, "50 95 99")],
)
def test_few_times_have_no_percentile(n: int, expected: str) -> None:
    """A percentile is given where one of the times lies beyond it: the 95th of one request is no figure."""
    found = percentiles(float(number) for number in range(n))
    given = [name[1:] for name in ("p50", "p95", "p99") if found[name] is not None]
    assert (" ".join(given) or "---", found["n"]) == (expected, n)


@pytest.mark.parametrize(
    ("value", "passed"), [(0.2, False), (0.99, False), (1.0, True), (1.2, True), (1.3, False), (None, False)]
)
def test_lower_is_better_ends_at_one(*, value: float | None, passed: bool) -> None:
    """Fewer publications than jobs are no good figure: a limit from above does not let them pass."""
    limit = Threshold("publications_per_job", maximum=1.2)
    (verdict,) = thresholds.judge([limit], {"stock": {"publications_per_job": value}})
    assert verdict.passed is passed
    assert verdict.text.endswith("has to be at least 1 and at most 1.2")


def test_threshold_of_nothing_is_missed() -> None:
    """A limit of a figure that the result lacks is missed: nothing was measured."""
    trees = {"stock": {"returns_per_s": None}}
    verdict = Verdict("stock", "returns_per_s", 1.0, None, None, passed=False)
    assert thresholds.judge([Threshold("returns_per_s", minimum=1.0)], trees) == [verdict]


def test_cpu_of_a_process_that_got_its_name_late() -> None:
    """What a process used belongs to the last role it had: Salt names its processes a moment after their start."""
    rows = [ProcessSample(1.0, "master", 7, 1.0, 0), ProcessSample(2.0, "MWorker", 7, 2.0, 0)]
    assert figures.seconds(rows, 0.0, 3.0) == {"MWorker": 2.0}


def test_cpu_of_two_processes_with_the_same_id() -> None:
    """A counter that falls is that of another process."""
    rows = [ProcessSample(1.0, "api", 7, 5.0, 0), ProcessSample(2.0, "MWorker", 7, 0.5, 0)]
    assert figures.seconds(rows, 0.0, 3.0) == {"api": 5.0, "MWorker": 0.5}


def test_cpu_between_samples() -> None:
    """Between two samples the CPU time is interpolated; a process that starts in between used nothing before.

    In a curve what it had used at its first sample is spread over the time since the sampling before.
    """
    rows = [
        ProcessSample(0.0, "a", 1, 0.0, 0),
        ProcessSample(10.0, "a", 1, 5.0, 0),
        ProcessSample(10.0, "b", 2, 1.0, 0),
    ]
    assert figures.seconds(rows, 2.0, 12.0) == {"a": 4.0, "b": 1.0}
    assert figures.rates(rows, [0.0, 5.0, 10.0]) == {"a": [0.5, 0.5], "b": [0.1, 0.1]}
