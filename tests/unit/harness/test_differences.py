"""Which figures of two trees differ by more than chance, of one run each and of repeats."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness import __main__ as cli
from harness import choices, figures
from harness import verify as verification
from harness.errors import SettingsError
from harness.report import verdict
from harness.results import comparison, differences, result, runs, trees
from harness.results.comparison import ALIKE, UNTOLD, Change
from harness.scenarios import scenario
from harness.verify.store import WRONG
from tests import oracle
from tests.unit.harness import repeated_run

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE: dict[str, Any] = {
    "client_requests": 50,
    "client_errors": 0,
    "jobs_requested": 50,
    "jobs_accepted": 50,
    "jobs_unpublished": 0,
    "logins": 0,
    "login_errors": 0,
    "never_reached": 0,
    "publications": 50,
    "publications_per_job": 1.0,
    "returns_expected": 50_000,
    "returns_lost": 0,
    "acknowledged_ratio": 1.0,
    "duplicate_ratio": 0.0,
    "find_jobs": 0,
    "find_jobs_per_execution": 0.0,
    "client_latency_s": {"p95": 1.0},
    "master_cpu_ms_per_return": 3.0,
    "returns_per_s": 100.0,
    "settle_s": 3.0,
    "fleet_cpu_ms_per_return": 1.0,
    "minions": 1000,
}


def _change(name: str, here: Sequence[dict[str, Any]], there: Sequence[dict[str, Any]]) -> Change | None:
    """Return how a figure differs between results that are all `ONE` but for what is given."""
    sides = [[{**ONE, **values} for values in side] for side in (here, there)]
    return comparison.change(differences.judge(figures.BY_NAME[name], *sides))


@pytest.mark.parametrize(
    ("name", "here", "there", "expected"),
    [
        ("client_errors", {"client_errors": 0}, {"client_errors": 0}, ALIKE),
        ("client_errors", {"client_errors": 0}, {"client_errors": 4}, UNTOLD),
        ("client_errors", {"client_errors": 0}, {"client_errors": 20}, Change("bad", "up from none")),
        ("client_errors", {"client_errors": 40}, {"client_errors": 8}, Change("good", "5.0× better")),  # noqa: RUF001 - a multiplication sign
        # those of one job are lost together
        ("returns_lost", {"returns_lost": 0}, {"returns_lost": 3000}, UNTOLD),
        ("returns_lost", {"returns_lost": 20_000}, {"returns_lost": 0}, Change("good", "down to none")),
        # fewer of less is no clear case
        (
            "returns_lost",
            {"returns_lost": 25_000},
            {"returns_lost": 24_000, "returns_expected": 25_000},
            UNTOLD,
        ),
        ("acknowledged_ratio", {"acknowledged_ratio": 0.2}, {}, Change("good", "+80.0 points, better")),
        ("acknowledged_ratio", {"acknowledged_ratio": 0.95}, {}, UNTOLD),
        (
            "publications_per_job",
            {"publications": 150, "publications_per_job": 3.0},
            {},
            Change("good", "3.0× better"),  # noqa: RUF001 - a multiplication sign
        ),
        # fewer than were requested is no better
        ("publications_per_job", {}, {"publications": 10, "publications_per_job": 0.2}, Change("bad", "below 1")),
        ("publications_per_job", {}, {"publications": 49, "publications_per_job": 0.98}, UNTOLD),
        ("jobs_unpublished", {}, {"jobs_unpublished": 30}, Change("bad", "up from none")),
        ("never_reached", {}, {"never_reached": 900}, UNTOLD),
        ("never_reached", {}, {"never_reached": 30_000}, Change("bad", "up from none")),
        ("sent_late_s.late", {"sent_late_s": {"late": 0}}, {"sent_late_s": {"late": 50}}, None),
        ("duplicate_ratio", {}, {"duplicate_ratio": 0.1}, UNTOLD),
        ("duplicate_ratio", {}, {"duplicate_ratio": 0.9}, Change("bad", "+90.0 points, worse")),
        ("find_jobs", {"find_jobs": 3000}, {}, UNTOLD),
        ("find_jobs", {"find_jobs": 30_000}, {}, Change("good", "down to none")),
        ("find_jobs_per_execution", {"find_jobs_per_execution": 0.8}, {}, Change("good", "down to none")),
        ("master_cpu_ms_per_return", {}, {"master_cpu_ms_per_return": 5.0}, UNTOLD),
        ("master_cpu_ms_per_return", {}, {"master_cpu_ms_per_return": 9.0}, Change("", "differs 3.0×")),  # noqa: RUF001 - a multiplication sign
        ("returns_per_s", {}, {"returns_per_s": 40.0}, UNTOLD),
        ("settle_s", {"settle_s": 0.1}, {"settle_s": 1.9}, UNTOLD),
        ("fleet_cpu_ms_per_return", {}, {"fleet_cpu_ms_per_return": 9.0}, None),
        ("minions", {}, {"minions": 9}, None),
        ("acknowledged_ratio", {}, {"acknowledged_ratio": None}, None),
    ],
)
def test_one_pair(name: str, here: dict[str, Any], there: dict[str, Any], expected: Change | None) -> None:
    """Of one pair counts are tested, and measured figures are called different only far apart, without a colour."""
    assert _change(name, [here], [there]) == expected


def test_repeats_tell_small_differences() -> None:
    """Five repeats whose ranges are apart tell a third; where one run is among the others', nothing is told."""
    slow, fast = ([{"master_cpu_ms_per_return": base + n / 10} for n in range(5)] for base in (4.0, 3.0))
    assert _change("master_cpu_ms_per_return", slow, fast) == Change("good", "1.3× better")  # noqa: RUF001 - a multiplication sign
    fast[2] = {"master_cpu_ms_per_return": 4.05}
    assert _change("master_cpu_ms_per_return", slow, fast) == UNTOLD


def test_what_is_small_is_not_called_different() -> None:
    """However sure it is, two hundredths are nothing to act on."""
    slow, fast = ([{"master_cpu_ms_per_return": base + n / 1000} for n in range(5)] for base in (4.0, 3.92))
    assert _change("master_cpu_ms_per_return", slow, fast) == UNTOLD


def test_counts_of_repeats() -> None:
    """One bad run among repeats is no bad tree: counts have to be apart in all of them."""
    none, once = [{"client_errors": 0}] * 3, [{"client_errors": n} for n in (0, 0, 40)]
    assert _change("client_errors", none, once) == UNTOLD
    assert _change("client_errors", none, [{"client_errors": 15}] * 3) == Change("bad", "up from none")


def test_a_repeat_without_a_figure_counts_on_neither_side() -> None:
    """Where no return was sent there is no share of those acknowledged; the other repeats are compared."""
    all_of_them: list[dict[str, Any]] = [{"acknowledged_ratio": 1.0, "publications": 20}] * 2
    few: list[dict[str, Any]] = [
        {"acknowledged_ratio": 0.2, "publications": 20},
        {"acknowledged_ratio": None, "publications": 20},
    ]
    assert _change("acknowledged_ratio", all_of_them, few) == Change("bad", "-80.0 points, worse")


def test_every_count_can_be_judged() -> None:
    """A count that is better or worse has a rule of what it is of; a new one needs a line in SHARES or RATES."""
    judged = [figure for figure in figures.FIGURES if figure.better and figure.name not in differences.OF_BED]
    counted = {figure.name for figure in judged if not figure.measured}
    assert counted == differences.SHARES.keys() | differences.RATES.keys()
    measured = {figure.unit for figure in judged if figure.measured}
    assert measured <= differences.WIDE.keys()


def test_labels() -> None:
    """The same tree twice has two labels, which know what they stand for."""
    found = choices.labels(["stock", "patched", "stock", "other", "stock", "other"])
    assert found == ("stock", "patched", "stock-2", "other", "stock-3", "other-2")
    assert [choices.kind(label) for label in found] == ["stock", "patched", "stock", "other", "stock", "other"]


def test_labels_have_the_options_and_limits_of_their_tree(tmp_path: Path) -> None:
    """A second patched tree is patched: the master's options and the limits of the scenario apply to it."""
    path = tmp_path / "one.toml"
    path.write_text(
        'description = "x"\nminions = 1\n[trees.patched.master]\nworker_threads = 3\n'
        '[[clients]]\nkind = "api"\nfunction = "test.ping"\ntgt = "*"\nburst = 1\n'
    )
    found = scenario.load(path)
    assert found.master_options("patched-2") == {"worker_threads": 3}
    assert found.master_options("stock-2") == {}
    facts = {"patched": {"hash": "a"}, "patched-2": {"hash": "a"}, "other": {"hash": "a"}, "stock": {"hash": "b"}}
    # the same files with other options are another tree
    assert trees.same([*facts], facts, found) == [("patched", "patched-2"), ("other",), ("stock",)]
    assert trees.same(["stock", "stock-2", "other", "other-2"], {}, found) == [
        ("stock", "stock-2"),
        ("other",),
        ("other-2",),
    ]


def test_pairs_of_a_run() -> None:
    """Stock is the base with all of its runs, and what ran twice is its own control."""
    each = [dict.fromkeys(("patched", "stock", "stock-2"), ONE)] * 2
    found = differences.pairs(each, [("patched",), ("stock", "stock-2")])
    assert [(pair.base, pair.other, pair.control, pair.runs) for pair in found] == [
        (("stock", "stock-2"), ("patched",), False, (4, 2)),
        (("stock",), ("stock-2",), True, (2, 2)),
    ]
    assert [differences.from_dict(json.loads(json.dumps(pair.to_dict()))) for pair in found] == found


def test_one_pair_on_a_busy_machine_tells_nothing() -> None:
    """Where others used the processor, a pair tells nothing, whatever its figures are; five repeats still do."""
    good, bad = ONE, {**ONE, "client_errors": 45, "master_cpu_ms_per_return": 30.0}
    each = [{"stock": bad, "patched": {**good, "others_cores": 0.7}}]
    groups = [("stock",), ("patched",)]
    (pair,) = differences.pairs(each, groups, 4)
    assert (pair.blind, pair.different) == (True, ())
    assert verdict.grounds([pair]).startswith("Others used the processor meanwhile: ")
    (pair,) = differences.pairs(each * 5, groups, 4)
    assert (pair.busy, pair.blind, len(pair.different)) == (True, False, 2)
    (pair,) = differences.pairs([{"stock": bad, "patched": {**good, "others_cores": 0.5}}], groups, 4)
    assert (pair.busy, len(pair.different)) == (False, 2)


def test_cores_used_by_others(tmp_path: Path) -> None:
    """What the machine did beyond the bed and its harness in the load phase; without samples nobody knows."""
    folder = repeated_run.repeated(tmp_path, 1)
    before = result.compute(folder)
    assert before.trees["stock"]["others_cores"] is None
    bed_s = sum(before.trees["stock"]["cpu_s"].values())
    timeline = json.loads((folder / "stock" / "samples" / "timeline.json").read_text())
    start, seconds = timeline["load_start"], timeline["settled"] - timeline["load_start"]
    # before the load there may be anything; half a core is stolen, the harness takes a second
    rows = [(start - 5, 0, 0, 0), (start, 1000, 0, 7), (start + seconds, 1001 + bed_s + seconds, seconds / 2, 8)]
    lines = ["time,monotonic,busy_s,stolen_s,harness_s,available_mb,swapped_mb,load_average"]
    lines += [f"{when},{when},{busy},{stolen},{harness},9000,0,1.0" for when, busy, stolen, harness in rows]
    (folder / "stock" / "samples" / "machine.csv").write_text("\n".join(lines) + "\n")
    assert result.compute(folder).trees["stock"]["others_cores"] == pytest.approx(1.5, abs=1e-3)


def test_control_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of the same tree against itself says so on the page and in words, and calls nothing different."""
    folder = repeated_run.repeated(tmp_path, 5, (("stock", "stock"), ("stock-2", "stock")))
    assert cli.main(["result", str(folder)]) == 1
    said = "stock-2 is stock once more (5 runs each), and 0 of 20 figures are called different."
    output = capsys.readouterr().out
    assert f"{said}\n" in output
    assert "MISSED: stock-2 acknowledged_ratio is 0.7 in 5 of 5 repeats, has to be at least 0.9" in output
    assert re.search(r"Client latency, median +5.04 s \(n = 2\)  \(5 s to 5.08 s in 5 runs\)\n", output)
    assert cli.main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert said in page
    assert "var(--stock-2)" in page


def test_result_of_repeats(tmp_path: Path) -> None:
    """The result has medians as its figures, the range of each, every repeat, and what differs with its basis."""
    folder = repeated_run.repeated(tmp_path, 5)
    result.write(result.compute(folder), folder)
    values = result.load(folder)
    assert values["trees"]["stock"]["client_latency_s"]["p50"] == 5.04
    assert values["trees"]["stock"]["publications"] == 3
    assert values["ranges"]["stock"]["client_latency_s.p50"] == {"n": 5, "min": 5.0, "median": 5.04, "max": 5.08}
    assert [one["stock"]["client_latency_s"]["p50"] for one in values["repeats"]] == [5.0, 5.02, 5.04, 5.06, 5.08]
    (pair,) = values["differences"]
    (line,) = (line for line in pair["figures"] if line["name"] == "client_latency_s.p50")
    assert (line["differs"], line["basis"], line["ratio"]) == (True, "ranges", pytest.approx(1.54 / 5.04, abs=1e-3))


def test_repeats_are_verified(tmp_path: Path) -> None:
    """Each repeat is worked out a second time, and the figures that readers see have to be the medians of them."""
    folder = repeated_run.repeated(tmp_path, 2)
    result.write(result.compute(folder), folder)
    before = {finding.sentence for finding in verification.verify(folder).of(WRONG)}
    values = json.loads((folder / "result.json").read_text())
    values["trees"]["stock"]["settle_s"] += 1
    values["repeats"][1]["patched"]["find_jobs"] += 5
    (folder / "result.json").write_text(json.dumps(values))
    after = {finding.sentence for finding in verification.verify(folder).of(WRONG)} - before
    assert "stock: settle_s is 3.0 in the result; its samples give 2.0." in after
    told = [finding.text for finding in oracle.look(folder)]
    assert any(text.startswith("find_jobs is 5 in the result") for text in told)
    assert any(told.startswith("patched, repeat 2: find_jobs is 5 in the result") for told in after)


def test_medians_and_sums() -> None:
    """A figure that a repeat lacks does not count; counts are summed, and the longest wait is that of all."""
    found = [
        {
            "client_errors": 1,
            "longest_wait_s": 3.0,
            "settled_in_time": True,
            "cpu_s": {"a": 1.0},
            "gaps": ["x"],
            "settle_s": None,
        },
        {
            "client_errors": 2,
            "longest_wait_s": 5.0,
            "settled_in_time": False,
            "cpu_s": {},
            "gaps": ["x", "y"],
            "settle_s": 4.0,
        },
    ]
    assert differences.middle(found) == {
        "client_errors": 1.5,
        "longest_wait_s": 4.0,
        "settled_in_time": False,
        "cpu_s": {"a": 1.0},
        "gaps": ["x", "y"],
        "settle_s": 4.0,
    }
    assert differences.middle(found[:1]) == found[0]
    assert (differences.totals(found)["client_errors"], differences.totals(found)["longest_wait_s"]) == (3, 5.0)


def test_a_result_of_another_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result of before is refused in a sentence whose advice works."""
    folder = Path(shutil.copytree(repeated_run.RUN, tmp_path / "run"))
    (folder / "result.json").write_text('{"format": 1}')
    advice = "has format 1 instead of 3: run `build/venv/bin/python -m harness result "
    with pytest.raises(SettingsError, match=advice):
        result.load(folder)
    cli.main(["result", str(folder)])
    capsys.readouterr()
    assert cli.main(["report", str(folder)]) == 0


def test_places_of_repeats(tmp_path: Path) -> None:
    """The first repeat is where a run of one is; a run of before has one."""
    folder = repeated_run.repeated(tmp_path, 2)
    assert [{tree: str(path.relative_to(folder)) for tree, path in places.items()} for places in _places(folder)] == [
        {"stock": "stock", "patched": "patched"},
        {"stock": "repeat-2/stock", "patched": "repeat-2/patched"},
    ]
    assert runs.read(repeated_run.RUN).repeats == 1


def _places(folder: Path) -> list[dict[str, Path]]:
    return runs.read(folder).places(folder)
