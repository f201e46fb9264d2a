"""The results' page: made of files, the same each time, and of nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.figure import Aim, at_least, at_most, exactly
from benchmarks.registry import ALL, BENCHMARKS
from benchmarks.results import page
from benchmarks.results.page import aim_text, number
from tests.unit.benchmarks.conftest import Measured

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 60
NOT_MEASURED = "not measured"


def cells(measured: Measured, section: str, what: str) -> list[str]:
    """Write the page and return the cells of a figure: stock, ours, aim, met, command, date."""
    assert measured.write() == 0
    return measured.rows()[section, what]


def test_twice_makes_no_difference(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """The same files give the same bytes, and the second call says that nothing changed."""
    assert measured.write() == 0
    before = measured.page.read_bytes()
    assert measured.write() == 0
    assert measured.page.read_bytes() == before
    assert "as it was" in capsys.readouterr().out


def test_every_figure_has_a_row(measured: Measured) -> None:
    """One figure per row, seven columns, short cells; nothing that was measured is missing."""
    assert measured.write() == 0
    rows = measured.rows()
    for benchmark in ALL:
        for figure in benchmark.figures:
            found = rows[benchmark.name, figure.title(benchmark.minions)]
            assert len(found) == len(page.COLUMNS) - 1
            assert found[1] != NOT_MEASURED
            assert found[-1] == "2026-11-22"
    long = [cell for cells in rows.values() for cell in (*cells[:4], cells[5]) if len(cell) > LONGEST]
    assert long == []


def test_a_deleted_file_leaves_its_figures(measured: Measured) -> None:
    """What was measured stays with its date, marked as kept, however often; all others stay as they were."""
    assert measured.write() == 0
    before = measured.rows()
    (measured.bench / "pillar.json").unlink()
    for _ in range(2):
        assert measured.write() == 0
    after = measured.rows()
    changed = {section for section, what in after if after[section, what] != before[section, what]}
    assert changed == {"pillar"}
    place = "pillar", "round trips of a fetch"
    assert after[place] == [*before[place][:5], f"{before[place][5]}, kept"]


def test_without_the_page_a_deleted_file_is_not_measured(measured: Measured) -> None:
    """A new page has the command that measures them; a figure that somebody wrote into the page isn't kept either."""
    assert measured.write() == 0
    (measured.bench / "pillar.json").unlink()
    text = measured.page.read_text()
    for edited in ("", text.replace("| 8 |", "| 9 |")):
        measured.page.write_text(edited)
        stock, ours, aim, met, command, date = cells(measured, "pillar", "round trips of a fetch")
        assert (stock, ours, met, date) == ("", NOT_MEASURED, "", "")
        assert (aim, command) == ("at most 2", "`nox -s bench -- pillar`")


def test_nothing_at_all_is_a_page(tmp_path: Path) -> None:
    """Without any file every figure is marked."""
    empty = Measured(tmp_path)
    assert empty.write() == 0
    assert {found[1] for found in empty.rows().values()} == {NOT_MEASURED}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: text.replace('"format": 2', '"format": 1'), "has format 1 instead of 2"),
        (lambda text: text.replace('"format": 2', '"format": 3'), "has format 3 instead of 2"),
        (lambda text: text.replace('"name": "pillar"', '"name": "query"'), "is not of the benchmark pillar"),
        (lambda text: text.replace('"ours": 2.0', '"ours": "two"'), "is damaged"),
        (lambda text: text.replace('"unit": "ms"', '"unit": "s"'), "is damaged"),
        (lambda text: text.replace('"machine"', '"other"'), "is damaged"),
        (lambda text: text.replace('"cores": 2', '"cores": "two"'), "is damaged"),
        (lambda text: text.replace('"date": "2026', '"date": "x'), "is damaged"),
        (lambda _: "[]", "is not of the benchmark pillar"),
        (lambda _: "", "is damaged"),
    ],
)
def test_a_damaged_file_leaves_the_page(
    measured: Measured, capsys: pytest.CaptureFixture[str], damage: object, said: str
) -> None:
    """One sentence names the file and what to do; the page is as it was."""
    assert measured.write() == 0
    before = measured.page.read_bytes()
    path = measured.bench / "pillar.json"
    assert callable(damage)
    path.write_text(damage(path.read_text()))
    capsys.readouterr()
    assert measured.write() == 3
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert f"{path} {said}: run `nox -s bench -- pillar` again, or delete the file." in told.err
    assert measured.page.read_bytes() == before


def test_a_file_of_no_benchmark_is_named(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody would ever show is not passed over silently."""
    (measured.bench / "nosuch.json").write_text("{}")
    assert measured.write() == 3
    assert "nosuch.json belongs to no benchmark: delete it." in capsys.readouterr().err


def test_a_figure_younger_than_the_file_is_not_measured(measured: Measured) -> None:
    """A figure that the benchmark has got since is marked; the others keep their values."""
    path = measured.bench / "pillar.json"
    values = json.loads(path.read_text())
    values["figures"] = [figure for figure in values["figures"] if figure["key"] != "round-trips"]
    path.write_text(json.dumps(values))
    assert cells(measured, "pillar", "round trips of a fetch")[1] == NOT_MEASURED
    assert cells(measured, "pillar", "connections, 10,000 fetches in 4 processes")[1] == "2 (0.25)"


def test_verdicts_are_of_the_numbers(measured: Measured) -> None:
    """An aim of the ratio is held against the ratio, one of the value against the value."""
    stock, ours, aim, met, *_ = cells(measured, "pillar", "one fetch, 1,000 minions, sql/pillar.sql")
    assert (stock, ours, aim, met) == ("8 ms", "2 ms (0.25)", "at most 0.125 of stock", "**no**")
    assert cells(measured, "pillar", "round trips of a fetch")[2:4] == ["at most 2", "yes"]
    slow = cells(measured, "pillar", "one fetch, 1,000 minions, sql/pillar.sql")
    assert slow[2:4] == ["at most 0.125 of stock", "**no**"]
    assert cells(measured, "pillar", "connections, 10,000 fetches in 4 processes")[2:4] == ["at most 4", "yes"]


def test_another_size_is_in_row_and_command(measured: Measured) -> None:
    """A smaller run does not stand there as the usual one."""
    measured.measurement(BENCHMARKS["pillar"], minions=20)
    found = cells(measured, "pillar", "one fetch, 20 minions, sql/pillar.sql")
    assert found[4] == "`nox -s bench -- pillar --minions 20`"
    assert ("pillar", "one fetch, 1,000 minions, sql/pillar.sql") not in measured.rows()


def test_one_machine_stands_on_top(measured: Measured) -> None:
    """The machine is named once, and no row repeats it."""
    assert measured.write() == 0
    text = measured.page.read_text()
    assert text.count("Some Processor") == 1
    assert "Machine: Some Processor, 2 cores, 23.5 GB, Some Linux 12, Python 3.12.0." in text


def test_another_machine_is_told_by_row(measured: Measured) -> None:
    """With two machines each has a letter, the one with most figures first, and each date says which."""
    measured.measurement(BENCHMARKS["pillar"], cores=64)
    assert cells(measured, "pillar", "round trips of a fetch")[-1] == "2026-11-22, B"
    assert cells(measured, "density", "descriptors of a minion, raw sockets / pyzmq's")[-1] == "2026-11-22, A"
    text = measured.page.read_text()
    assert text.index("Machine A: Some Processor, 2 cores") < text.index("Machine B: Some Processor, 64 cores")


def test_a_busy_machine_is_told_by_row(measured: Measured) -> None:
    """A figure that was measured beside other work says so."""
    measured.measurement(BENCHMARKS["pillar"], load_average_at_start=7.5)
    assert cells(measured, "pillar", "round trips of a fetch")[-1] == "2026-11-22, busy"


def test_an_edited_tree_is_told_by_row(measured: Measured) -> None:
    """Figures of a tree that is not what the patches make can't be had again, and say so."""
    path = measured.bench / "pillar.json"
    path.write_text(path.read_text().replace('"edited": []', '"edited": ["salt/master.py"]'))
    assert cells(measured, "pillar", "round trips of a fetch")[-1] == "2026-11-22, edited"


def test_the_newest_run_of_a_scenario_is_shown(measured: Measured) -> None:
    """Of two finished runs the later one counts; its command is the one that people type."""
    measured.run("burst", hour=9, longest_wait_s=99.0)
    assert cells(measured, "load: burst", "Longest wait")[1] == "40 s (1)"
    measured.run("burst", hour=11, longest_wait_s=20.0)
    assert cells(measured, "load: burst", "Longest wait")[:2] == ["40 s", "20 s (0.5)"]
    assert cells(measured, "load: burst", "Longest wait")[4] == "`nox -s load -- burst`"


def test_a_run_of_one_tree_is_passed_over(measured: Measured) -> None:
    """It compares nothing; where stock is not asked for, it counts."""
    measured.run("burst", hour=11, trees=("patched",), longest_wait_s=20.0)
    assert cells(measured, "load: burst", "Longest wait")[1] == "40 s (1)"
    measured.run("ten-thousand", hour=11, trees=("patched",), longest_wait_s=20.0)
    assert cells(measured, "load: ten-thousand", "Longest wait")[:2] == ["", "20 s"]


def test_a_run_that_did_not_finish_is_passed_over(measured: Measured) -> None:
    """What was interrupted has no figures to show."""
    folder = measured.run("burst", hour=11, longest_wait_s=20.0)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"finished"', '"interrupted"'))
    assert cells(measured, "load: burst", "Longest wait")[1] == "40 s (1)"


@pytest.mark.parametrize("verdict", [["The sources contradict each other."], None])
def test_a_run_that_is_not_to_be_believed_is_passed_over(measured: Measured, verdict: list[str] | None) -> None:
    """What does not agree with its samples proves nothing, and neither does what nobody has verified."""
    folder = measured.run("burst", hour=11, longest_wait_s=20.0)
    values = json.loads((folder / "result.json").read_text())
    values["disagrees"] = verdict
    if verdict is None:
        del values["disagrees"]
    (folder / "result.json").write_text(json.dumps(values))
    assert cells(measured, "load: burst", "Longest wait")[1] == "40 s (1)"


def test_a_run_of_another_load_is_passed_over(measured: Measured) -> None:
    """A run with other minions, or of the scenario as it was, measured something else; another seed is the same."""
    folder = measured.run("burst", hour=11, longest_wait_s=20.0)
    values = json.loads((folder / "result.json").read_text())
    values["scenario"]["seed"] += 1
    (folder / "result.json").write_text(json.dumps(values))
    assert cells(measured, "load: burst", "Longest wait")[1] == "20 s (0.5)"
    values["scenario"]["minions"] = 50
    (folder / "result.json").write_text(json.dumps(values))
    assert cells(measured, "load: burst", "Longest wait")[1] == "40 s (1)"


def test_a_deleted_run_is_not_measured(measured: Measured) -> None:
    """Without its result a scenario's figures are marked; its aims are those of the scenario."""
    for path in measured.runs.glob("*-burst/result.json"):
        path.unlink()
    found = cells(measured, "load: burst", "Lost after execution")
    assert found[:4] == ["", NOT_MEASURED, "0", ""]
    assert found[4] == "`nox -s load -- --scenario burst --tree both`"


@pytest.mark.parametrize("name", ["result.json", "environment.json"])
def test_a_damaged_run_leaves_the_page(measured: Measured, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """One sentence names the run and what to do."""
    assert measured.write() == 0
    before = measured.page.read_bytes()
    (folder,) = measured.runs.glob("*-burst")
    (folder / name).write_text("{")
    capsys.readouterr()
    assert measured.write() == 3
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"python -m harness result {folder}" in told
    assert measured.page.read_bytes() == before


def test_check_writes_nothing(measured: Measured) -> None:
    """--check says with its exit code whether the page is as it should be."""
    assert measured.write("--check") == 1
    assert not measured.page.exists()
    assert measured.write() == 0
    assert measured.write("--check") == 0
    (measured.bench / "pillar.json").unlink()
    assert measured.write("--check") == 1


def test_json_has_every_figure(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine reads the same figures with their verdicts."""
    assert measured.write("--json") == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {section["section"]: section["figures"] for section in found["sections"]}
    (trips,) = [figure for figure in by_name["pillar"] if figure["what"] == "round trips of a fetch"]
    assert (trips["ours"], trips["stock"], trips["met"]) == (2.0, 8.0, True)


def test_help_has_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--help shows how it is used and what its exit codes mean."""
    with pytest.raises(SystemExit):
        Measured(tmp_path).write("--help")
    said = capsys.readouterr().out
    assert "example: nox -s bench -- pillar && nox -s results" in said
    assert "exit codes" in said


def test_writing_into_the_page_is_found(measured: Measured) -> None:
    """A number, a row or a sentence that somebody types shows in the digest."""
    assert measured.write() == 0
    text = measured.page.read_text()
    assert page.untouched(text)
    assert not page.untouched(text.replace("2 ms", "1 ms", 1))
    assert not page.untouched(text.replace("## pillar\n", "## pillar\n\n| mine | 1 | 2 | | | | |\n", 1))
    assert not page.untouched(text + "More.\n")
    assert not page.untouched("# Results\n")


def test_nobody_wrote_into_the_page(root: Path) -> None:
    """The page of this project is as the command wrote it; CI has no files to make it again."""
    text = (root / "docs" / "results.md").read_text()
    assert page.untouched(text), "docs/results.md was edited by hand: run `nox -s results` instead"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123456, "s", "0.0123 s"),
        (1.756, "ms", "1.76 ms"),
        (12.24, "ms", "12.2 ms"),
        (1060.4, "s", "1,060 s"),
        (400244, "", "400,244"),
        (2.0, "", "2"),
        (0.973, "%", "97.3 %"),
        (1.0, "%", "100 %"),
        (0.0, "%", "0 %"),
        (0.125, "x", "0.125"),
    ],
)
def test_numbers_are_short(value: float, unit: str, text: str) -> None:
    """Three digits are enough for a measurement; counts are whole."""
    assert number(value, unit) == text


@pytest.mark.parametrize(
    ("aim", "unit", "text"),
    [
        (at_most(5), "ms", "at most 5 ms"),
        (at_most(0), "", "0"),
        (exactly(0), "", "0"),
        (at_least(0.97), "%", "at least 97 %"),
        (at_most(0.125, of="ratio"), "ms", "at most 0.125 of stock"),
        (Aim(0.9, 1.1), "x", "0.9 to 1.1"),
    ],
)
def test_aims_are_words(aim: Aim, unit: str, text: str) -> None:
    """The aim itself stands there, with its unit."""
    assert aim_text(aim, unit) == text
