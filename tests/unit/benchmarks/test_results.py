"""The results' page: made of the evidence, the same each time, and of nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.benchmark import Aim, at_least, at_most, exactly
from benchmarks.registry import ALL, BENCHMARKS, subjects
from benchmarks.results import evidence, page
from benchmarks.results.__main__ import code, pages
from benchmarks.results.page import aim_text, change, number

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.benchmarks.conftest import Measured

TRIPS = "round trips of a fetch"


def without_older(text: str) -> str:
    """Return a page without the marks of older code, which change with every patch."""
    return text.replace(f" ({page.OLDER})", "").replace(f", {page.OLDER}", "")


def cells(measured: Measured, section: str, what: str) -> list[str]:
    """Write the page and return the cells of a figure: stock, ours, ratio, aim, met, n."""
    assert measured.write() == 0
    return measured.rows()[section, what]


def change_evidence(measured: Measured, file: str, replace: Callable[[str], str]) -> None:
    """Edit a file of evidence."""
    path = measured.evidence / file
    before = path.read_text()
    path.write_text(replace(before))
    assert path.read_text() != before


def test_twice_makes_no_difference(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """The same evidence gives the same bytes, and the second call says that nothing changed."""
    before = measured.page.read_bytes()
    assert measured.write() == 0
    assert measured.page.read_bytes() == before
    assert "as it was" in capsys.readouterr().out


def test_every_figure_has_a_row(measured: Measured) -> None:
    """One figure per row; nothing that was measured is missing."""
    rows = measured.rows()
    for benchmark in ALL:
        for figure in benchmark.figures:
            assert len(rows[benchmark.name, figure.title(benchmark.minions)]) == len(page.COLUMNS) - 1


def test_the_questions_name_figures() -> None:
    """Each line of the first two tables is about a figure that a benchmark or a scenario has."""
    known = {(one.name, figure.key) for one in subjects() for figure in one.figures}
    assert len(page.QUESTIONS) == 10
    for question in (*page.QUESTIONS, *page.COSTS):
        assert (question.name, question.key) in known
        assert not question.total or (question.name, question.total) in known


def test_reasons_are_of_figures_with_an_aim() -> None:
    """A reason for a missed aim names a figure that has one."""
    with_aim = {(one.name, figure.key) for one in subjects() for figure in one.figures if figure.aim is not None}
    assert page.WHY.keys() <= with_aim


def test_the_first_table_has_parts_and_changes(measured: Measured) -> None:
    """A part is told with its whole, a ratio in words, and the file is linked."""
    rows = measured.rows()
    answered = rows["In one minute", "Ten people press return at once: answered"]
    assert answered == ["20 of 20", "20 of 20", "0 more", "1", "[2026-11-22](evidence/load-default.json)"]
    fetch = rows["In one minute", "A pillar from PostgreSQL, 1,000 minions"]
    assert fetch == ["8 ms", "2 ms", "4 times less", "3", "[2026-11-22](evidence/pillar.json)"]


def test_evidence_has_no_samples(measured: Measured) -> None:
    """A copy has figures and environment; the samples stay in build."""
    for path in measured.evidence.iterdir():
        values = json.loads(path.read_text())
        assert {"machine", "versions", "git", "trees", "own", "command", "date"} <= set(values)
        assert all("samples" not in figure for figure in values["figures"])


def test_deleted_evidence_is_not_measured(measured: Measured) -> None:
    """Its rows go, its command stands in one line, the first table says so, and all others stay as they were."""
    before = measured.rows()
    for name in ("pillar.json", "load-burst.json"):
        (measured.evidence / name).unlink()
    assert measured.write() == 0
    after = measured.rows()
    gone = {section for section, _ in set(before) - set(after)}
    assert gone == {"pillar", "load/burst"}
    changed = {what for section, what in after if after[section, what] != before[section, what]}
    assert changed == {"A pillar from PostgreSQL, 1,000 minions", "20 commands to 1,000 minions at once: answered"}
    text = measured.page.read_text()
    assert "- `nox -s bench -- pillar`: Fetch of a pillar" in text
    assert "- `nox -s load -- --scenario burst --tree both`: Twenty people" in text


def test_a_changed_number_changes_the_page(measured: Measured) -> None:
    """The page follows the evidence."""
    change_evidence(measured, "pillar.json", lambda text: text.replace('"ours": 2.0', '"ours": 3.0'))
    assert cells(measured, "pillar", TRIPS)[1] == "3"


def test_nothing_at_all_is_a_page(empty: Measured) -> None:
    """Without any file every benchmark and scenario is listed."""
    assert empty.write() == 0
    text = empty.page.read_text()
    assert all(f"- `{one.command}`: " in text for one in subjects())


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"format": 3', '"format": 2'),
        lambda text: text.replace('"name": "pillar"', '"name": "query"'),
        lambda text: text.replace('"ours": 2.0', '"ours": "two"'),
        lambda text: text.replace('"unit": "ms"', '"unit": "s"'),
        lambda text: text.replace('"machine"', '"other"'),
        lambda text: text.replace('"cores": 2', '"cores": "two"'),
        lambda text: text.replace('"date": "2026', '"date": "x'),
        lambda text: text.replace('"own"', '"other"'),
        lambda _: "[]",
        lambda _: "",
    ],
)
def test_damaged_evidence_leaves_the_page(
    measured: Measured, capsys: pytest.CaptureFixture[str], damage: Callable[[str], str]
) -> None:
    """One sentence names the file and what to do; the page is as it was."""
    before = measured.page.read_bytes()
    change_evidence(measured, "pillar.json", damage)
    capsys.readouterr()
    assert measured.write() == 3
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "pillar.json is damaged or of another format: run `nox -s bench -- pillar` and" in printed.err
    assert measured.page.read_bytes() == before


def test_files_of_another_format_are_passed_over(measured: Measured) -> None:
    """What an older version left in build is no evidence, and no reason to stop either."""
    text = (measured.bench / "pillar.json").read_text()
    (measured.evidence / "pillar.json").unlink()
    (measured.bench / "pillar.json").write_text(text.replace('"format": 3', '"format": 2'))
    assert measured.collect() == 0
    assert not (measured.evidence / "pillar.json").exists()


def test_damaged_files_are_not_collected(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """What a benchmark left is checked before anything is copied."""
    (measured.bench / "pillar.json").write_text("{")
    assert measured.collect() == 3
    assert "run `nox -s bench -- pillar` again, or delete the file." in capsys.readouterr().err


def test_files_of_nothing_are_named(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody would ever show is not passed over silently."""
    (measured.evidence / "nosuch.json").write_text("{}")
    assert measured.write() == 3
    assert "nosuch.json belongs to no benchmark and no scenario: delete it." in capsys.readouterr().err


def test_a_figure_younger_than_the_evidence_is_listed(measured: Measured) -> None:
    """A figure that the benchmark has got since is not measured; the others keep their values."""
    path = measured.evidence / "pillar.json"
    values = json.loads(path.read_text())
    values["figures"] = [figure for figure in values["figures"] if figure["key"] != "round-trips"]
    path.write_text(json.dumps(values))
    assert cells(measured, "pillar", "connections, 10,000 fetches in 4 processes")[1] == "2"
    assert ("pillar", TRIPS) not in measured.rows()
    lacking = f"- `nox -s bench -- pillar`: 1 of {len(BENCHMARKS['pillar'].figures)} figures. "
    assert lacking in measured.page.read_text()


def test_verdicts_are_of_the_numbers(measured: Measured) -> None:
    """An aim of the ratio is held against the ratio, one of the value against the value; missed ones are listed."""
    slow = cells(measured, "pillar", "one fetch, 1,000 minions, sql/pillar.sql")
    assert slow == ["8 ms", "2 ms", "0.25", "at most 0.125 of stock", "**no**", "3"]
    assert cells(measured, "pillar", TRIPS)[3:5] == ["at most 2", "yes"]
    line = "- [pillar](#pillar): one fetch, 1,000 minions, sql/pillar.sql: 0.25, the aim is at most 0.125 of stock."
    assert line in measured.page.read_text()


def test_the_change_is_that_of_the_numbers_shown(measured: Measured) -> None:
    """The ratio of single turns is in its column; in words stands what the two numbers of the line say."""
    file = measured.evidence / "pillar.json"
    text = json.loads(file.read_text(encoding="utf-8"))
    (fetch,) = [one for one in text["figures"] if one["key"] == "fetch"]
    fetch.update(stock=10.0, ours=8.0, ratio=0.9)
    file.write_text(json.dumps(text), encoding="utf-8")
    assert "20 % less" in cells(measured, "In one minute", "A pillar from PostgreSQL, 1,000 minions")
    assert "0.9" in cells(measured, "pillar", fetch["what"])


def test_another_size_is_in_row_and_command(measured: Measured) -> None:
    """A smaller run does not stand there as the usual one."""
    (measured.evidence / "pillar.json").unlink()
    measured.measurement(BENCHMARKS["pillar"], minions=20)
    assert measured.collect() == 0
    assert ("pillar", "one fetch, 20 minions, sql/pillar.sql") in measured.rows()
    assert "`nox -s bench -- pillar --minions 20`, [2026-11-22]" in measured.page.read_text()


def test_one_machine_stands_on_top(measured: Measured) -> None:
    """The machine is named once, and no row repeats it."""
    text = measured.page.read_text()
    assert "Machine: Some Processor, 2 cores, 23.5 GB, Some Linux 12, Python 3.12.0." in text
    assert text.count("Some Processor") == 1
    assert "Salt 3008.5 with the patches of commit `0000000000`, 2026-11-22." in text


def test_another_machine_is_told_by_table(measured: Measured) -> None:
    """With two machines each has a number, the one with most files first, and each table says which."""
    change_evidence(measured, "pillar.json", lambda text: text.replace('"cores": 2', '"cores": 64'))
    assert measured.write() == 0
    text = measured.page.read_text()
    assert "[2026-11-22](evidence/pillar.json), machine 2." in text
    assert "[2026-11-22](evidence/density.json), machine 1." in text
    assert text.index("Machine 1: Some Processor, 2 cores") < text.index("Machine 2: Some Processor, 64 cores")


@pytest.mark.parametrize(
    ("edit", "mark"),
    [
        (('"load_average_at_start": 0.1', '"load_average_at_start": 7.5'), "busy"),
        (('"edited": []', '"edited": ["salt/master.py"]'), "edited"),
        (("hash of patched", "hash of yesterday"), "older code"),
        (("hash of stock", "hash of yesterday"), "older code"),
        ((f'"own": "{BENCHMARKS["pillar"].own()}"', '"own": "other"'), "older code"),
    ],
)
def test_what_to_read_with_care_says_so(measured: Measured, edit: tuple[str, str], mark: str) -> None:
    """A busy machine, unsaved edits, and code that has changed since stand behind the date."""
    # on one line, so that an empty list is a text to replace too
    change_evidence(measured, "pillar.json", lambda text: json.dumps(json.loads(text)).replace(*edit))
    assert measured.write() == 0
    text = measured.page.read_text()
    assert text.count(f"(evidence/pillar.json), {mark}") == 2
    assert "(evidence/density.json)." in text


@pytest.mark.parametrize(("part", "older"), [("extension query", ["query"]), ("hash of all patched", [])])
def test_an_extension_ages_what_measures_it(measured: Measured, part: str, older: list[str]) -> None:
    """Evidence of Salt itself, and of other extensions, stays that of the present code."""
    for path in measured.evidence.iterdir():
        path.write_text(path.read_text().replace(part, "yesterday"))
    assert measured.write() == 0
    text = measured.page.read_text()
    found = {name for name in ("query", "pillar", "package-states") if f"(evidence/{name}.json), older code" in text}
    assert found == {*older}
    for path in measured.evidence.iterdir():
        values = json.loads(path.read_text())
        del values["trees"]["patched"]["core"]
        path.write_text(json.dumps(values))
    assert measured.write() == 0
    # of a file that knows no parts, the whole tree counts
    assert ("older code" in measured.page.read_text().split("## ", 1)[1]) is (part == "hash of all patched")


def test_a_page_differs_by_more_than_older_code(measured: Measured) -> None:
    """After a change of a patch the pages still pass; with another number they do not."""
    before = measured.page.read_text()
    for path in measured.evidence.iterdir():
        path.write_text(path.read_text().replace("hash of patched", "hash of yesterday"))
    assert measured.write() == 0
    after = measured.page.read_text()
    assert before != after
    # the words that explain the mark are in both
    assert without_older(after) == without_older(before)
    assert without_older(after.replace("8 ms", "9 ms", 1)) != without_older(before)


def test_the_newest_run_counts(measured: Measured) -> None:
    """Of two runs of a scenario the newer one is collected; an older file does not replace newer evidence."""
    measured.run("burst", hour=11, longest_wait_s=20.0)
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[:3] == ["40 s", "20 s", "0.5"]
    for path in measured.runs.glob("*T11*"):
        path.rename(path.with_name(f"gone-{path.name}").with_suffix(".old"))
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[:3] == ["40 s", "20 s", "0.5"]


def test_a_run_of_one_tree_is_passed_over(measured: Measured) -> None:
    """It compares nothing; where stock is not asked for, it counts."""
    for name in ("burst", "ten-thousand"):
        measured.run(name, hour=11, trees=("patched",), longest_wait_s=20.0)
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[1] == "40 s"
    assert cells(measured, "load/ten-thousand", "Longest wait")[:2] == ["", "20 s"]


def test_a_run_that_did_not_finish_is_passed_over(measured: Measured) -> None:
    """What was interrupted has no figures to show."""
    folder = measured.run("burst", hour=11, longest_wait_s=20.0)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"finished"', '"interrupted"'))
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[1] == "40 s"


@pytest.mark.parametrize("verdict", [["The sources contradict each other."], None])
def test_a_run_that_is_not_to_be_believed_is_passed_over(measured: Measured, verdict: list[str] | None) -> None:
    """What does not agree with its samples proves nothing, and neither does what nobody has verified."""
    folder = measured.run("burst", hour=11, longest_wait_s=20.0)
    values = json.loads((folder / "result.json").read_text())
    values["disagrees"] = verdict
    if verdict is None:
        del values["disagrees"]
    (folder / "result.json").write_text(json.dumps(values))
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[1] == "40 s"


def test_a_run_of_another_load_is_passed_over(measured: Measured) -> None:
    """A run with other minions, or of the scenario as it was, measured something else; another seed is the same."""
    folder = measured.run("burst", hour=11, longest_wait_s=20.0)
    values = json.loads((folder / "result.json").read_text())
    values["scenario"]["minions"] = 50
    (folder / "result.json").write_text(json.dumps(values))
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[1] == "40 s"
    values["scenario"]["minions"] = 1000
    values["scenario"]["seed"] += 1
    (folder / "result.json").write_text(json.dumps(values))
    assert measured.collect() == 0
    assert cells(measured, "load/burst", "Longest wait")[1] == "20 s"


@pytest.mark.parametrize("name", ["result.json", "environment.json"])
def test_a_damaged_run_leaves_the_page(measured: Measured, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """One sentence names the run and what to do."""
    before = measured.page.read_bytes()
    (folder,) = measured.runs.glob("*-burst")
    (folder / name).write_text("{")
    capsys.readouterr()
    assert measured.collect() == 3
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert f"python -m harness result {folder}" in printed
    assert measured.page.read_bytes() == before


def test_markers_are_filled(measured: Measured) -> None:
    """Figures of other pages come from the evidence, README.md included; without evidence they say so."""
    text = "".join(f"<!-- figure: pillar/fetch/{side} -->{{}}<!-- /figure -->" for side in ("ours", "change"))
    readme, other = measured.folder / "README.md", measured.docs / "pillar-storage.md"
    for path in (readme, other):
        path.write_text(text.format("9 ms", ""))
    assert measured.write() == 0
    assert readme.read_text() == other.read_text() == text.format("2 ms", "4 times less")
    (measured.evidence / "pillar.json").unlink()
    assert measured.write() == 0
    assert readme.read_text().count("(not measured)") == 2


def test_a_doubted_run_fills_no_marker(measured: Measured) -> None:
    """What the check of a run doubts stands on the page of results, marked, and on no other page."""
    place = "<!-- figure: load/burst/longest_wait_s/ours -->{}<!-- /figure -->"
    path = measured.docs / "page.md"
    path.write_text(place.format(""))
    assert measured.write() == 0
    assert path.read_text() == place.format("40 s")
    change_evidence(measured, "load-burst.json", lambda text: text.replace('"doubts": []', '"doubts": ["gaps"]'))
    assert measured.write() == 0
    assert path.read_text() == place.format("(not measured)")
    assert "(evidence/load-burst.json), not trustworthy" in measured.page.read_text()


def test_a_busy_machine_stands_beside_the_figure(measured: Measured) -> None:
    """A time that other work made longer does not pass for ours."""
    place = "<!-- figure: pillar/fetch/ours -->{}<!-- /figure -->"
    path = measured.docs / "page.md"
    path.write_text(place.format(""))
    change_evidence(measured, "pillar.json", lambda text: text.replace('_start": 0.1', '_start": 7.5'))
    assert measured.write() == 0
    assert path.read_text() == place.format("2 ms (on a busy machine)")


@pytest.mark.parametrize("place", ["pillar/nosuch/ours", "nosuch/fetch/ours", "pillar/fetch/theirs", "pillar"])
def test_markers_of_no_figure_are_named(measured: Measured, capsys: pytest.CaptureFixture[str], place: str) -> None:
    """A typing error changes no page."""
    (measured.docs / "page.md").write_text(f"<!-- figure: {place} -->9 ms<!-- /figure -->")
    before = measured.page.read_bytes()
    assert measured.write() == 3
    assert f"There is no figure '{place}': write NAME/KEY/SIDE" in capsys.readouterr().err
    assert measured.page.read_bytes() == before


def test_pages_are_those_of_the_evidence(root: Path) -> None:
    """All pages of this project are as the command writes them, but for the marks of code that is older."""
    docs = root / "docs"
    for path, text in pages(docs, evidence.sections(docs / "evidence", subjects(), code())).items():
        same = without_older(path.read_text()) == without_older(text)
        assert same, f"{path} differs from docs/evidence: run `nox -s results`"
        assert "Not known yet." not in text, "an aim is missed: write the reason into WHY"


def test_command_tells_what_is_missing(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the pages that changed and what is not measured."""
    (measured.evidence / "pillar.json").unlink()
    capsys.readouterr()
    assert measured.write() == 0
    assert capsys.readouterr().out == f"{measured.page}: written\nnot measured: pillar\n"


def test_help_has_an_example(empty: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """--help shows how it is used and what its exit codes mean."""
    with pytest.raises(SystemExit):
        empty.write("--help")
    said = capsys.readouterr().out
    assert "example: nox -s bench -- pillar && nox -s results -- --collect" in said
    assert "exit codes" in said


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "the same"),
        (0.96, "the same"),
        (0.9, "10 % less"),
        (1.2, "20 % more"),
        (0.25, "4 times less"),
        (0.0, "100 % less"),
        (2.0, "2 times as much"),
        (5.34, "5.3 times as much"),
        (0.001, "1,000 times less"),
    ],
)
def test_changes_are_words(ratio: float, text: str) -> None:
    """A ratio reads as people say it."""
    assert change(ratio) == text


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
