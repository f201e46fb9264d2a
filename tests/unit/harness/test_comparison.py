"""Two runs side by side: ratios, what is worse, and whether they can be compared."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from harness import __main__ as cli
from harness.errors import SettingsError
from harness.results import comparison, result, runs
from harness.results.comparison import ALIKE, UNTOLD
from tests.unit.harness import repeated_run

RUN = Path(__file__).parent / "data" / "run"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Return the folder of an earlier run."""
    return _run(tmp_path, "20260101T000000Z-two")


@pytest.fixture
def now(tmp_path: Path) -> Path:
    """Return the folder of a run, in which a CLI on the patched tree waited twice as long."""
    folder = _run(tmp_path, "20260102T030405Z-two")
    path = folder / "patched" / "samples" / "requests.csv"
    rows = path.read_text().splitlines()
    fields = rows[1].split(",")
    column = rows[0].split(",").index("finished")
    fields[column] = str(float(fields[column]) + 3)
    path.write_text("\n".join([rows[0], ",".join(fields), *rows[2:]]) + "\n")
    result.write(result.compute(folder), folder)
    return folder


def _run(parent: Path, name: str) -> Path:
    folder = Path(shutil.copytree(RUN, parent / name))
    path = folder / "run.json"
    path.write_text(path.read_text().replace("20260102T030405Z-two", name))
    result.write(result.compute(folder), folder)
    return folder


def _change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_same_run_is_alike(before: Path, tmp_path: Path) -> None:
    """A run compared to its like can be compared, and nothing is better or worse."""
    found = comparison.compare(_run(tmp_path, "20260103T000000Z-two"), before)
    assert found.comparable
    assert {line.change.text for line in found.lines if line.change} == {"alike"}
    assert {line.tree for line in found.lines} == {"stock", "patched"}


def test_what_became_worse(now: Path, before: Path) -> None:
    """A figure that became worse has its ratio."""
    found = comparison.compare(now, before)
    (line,) = (line for line in found.lines if (line.tree, line.name) == ("patched", "client_latency_s.p50"))
    assert line.before is not None
    assert line.now is not None
    assert line.ratio == pytest.approx(line.now / line.before, abs=1e-4)
    # twice the time in one run of each is no proof
    assert line.change == UNTOLD


def test_repeats_of_two_runs_are_one_pair(tmp_path: Path) -> None:
    """Five repeats at another time prove no slower tree: the machine may have changed. Counts of all are compared."""
    (tmp_path / "now").mkdir()
    earlier, later = repeated_run.repeated(tmp_path, 5), repeated_run.repeated(tmp_path / "now", 5)
    for places in runs.read(later).places(later):
        repeated_run.later(places["patched"], 2.0)
    for folder in (earlier, later):
        result.write(result.compute(folder), folder)
    found = {(line.tree, line.name): line for line in comparison.compare(later, earlier).lines}
    line = found["patched", "client_latency_s.p50"]
    assert line.ratio == pytest.approx(2.3, abs=0.05)
    assert line.change == UNTOLD
    assert found["stock", "client_errors"].change == ALIKE


def test_another_scenario_or_machine(now: Path, before: Path) -> None:
    """Runs of which something else was asked, or of another machine or bed, can't be compared; the reasons are told."""
    _change(now, "scenario.toml", "minions = 4", "minions = 4\nsettle_s = 5")
    result.write(result.compute(now), now)
    facts = json.loads((now / "environment.json").read_text())
    facts["machine"]["cores"] = 64
    facts["bed"] = {"made_of": "containers"}
    (now / "environment.json").write_text(json.dumps(facts))
    cores = json.loads((before / "environment.json").read_text())["machine"]["cores"]
    assert comparison.compare(now, before).differences == (
        "the scenario's `settle_s` differs",
        f"another machine: cores 64, not {cores}",
        "another bed: containers, not processes",
    )


def test_limits_and_words_do_not_matter(now: Path, before: Path) -> None:
    """What a run measured does not depend on its limits or its description."""
    _change(now, "scenario.toml", "client_errors = { max = 0", "client_errors = { max = 9")
    _change(now, "scenario.toml", "Two CLIs at once", "Two CLIs")
    result.write(result.compute(now), now)
    assert comparison.compare(now, before).comparable


def test_no_tree_in_common(now: Path, before: Path, tmp_path: Path) -> None:
    """Runs of two trees and of another one are refused."""
    _change(before, "result.json", '"stock"', '"other"')
    _change(before, "result.json", '"patched"', '"third"')
    with pytest.raises(SettingsError, match=r"^The runs have no tree in common"):
        comparison.compare(now, before)
    with pytest.raises(SettingsError, match="missing or broken"):
        comparison.compare(now, tmp_path)


@pytest.mark.slow
def test_command(now: Path, before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command shows both runs and writes the page."""
    words = ["report", str(now), "--against", str(before)]
    assert cli.main(words) == 0
    output = capsys.readouterr().out
    assert output.startswith("20260102T030405Z-two against 20260101T000000Z-two\n")
    assert re.search(r"patched  Client latency, median .* not told apart\n", output)
    page = (now / "report.html").read_text()
    assert "Against 20260101T000000Z-two" in page
    assert '<span class="pill ">not told apart</span>' in page
    assert "Two runs were not in turn, so times, CPU and memory count as one pair: " in page
    assert "can&#39;t be compared" not in page
    assert cli.main([*words, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["comparable"], values["format"]) == (True, 1)


@pytest.mark.slow
def test_command_says_what_cannot_be_compared(now: Path, before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that can't be compared are shown, with the reason."""
    _change(now, "run.json", '"minions": 4', '"minions": 8')
    result.write(result.compute(now), now)
    words = ["report", str(now), "--against", str(before)]
    assert cli.main(words) == 0
    assert "NOT COMPARABLE: the scenario's `minions` differs" in capsys.readouterr().out
    assert "These two runs can't be compared:" in (now / "report.html").read_text()
