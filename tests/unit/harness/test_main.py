"""The command line, without a bed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from harness import __main__ as cli
from harness.commands import campaign, parser, serve
from harness.errors import HarnessError, SettingsError
from harness.results import result as results
from harness.scenarios import scenario

if TYPE_CHECKING:
    from harness.bed.settings import BedSettings

RUN = Path(__file__).parent / "data" / "run"


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every scenario is listed with its description."""
    assert cli.main(["scenarios"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == scenario.names()


def test_wrong_scenario_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong scenario file ends with exit code 2 and one sentence, before anything is started."""
    path = tmp_path / "mine.toml"
    path.write_text('description = "x"\nminoins = 3\n')
    assert cli.main(["load", "--scenario", str(path), "--folder", str(tmp_path / "runs")]) == 2
    expected = "mine.toml: `minoins` is no key here; the nearest one is `minions`.\n"
    assert capsys.readouterr().err == expected
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_all_that_the_fleet_can_not_do_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown functions, files and targets, of several scenarios: a line for each."""
    block = '[[clients]]\nkind = "cli"\nfunction = "{}"\ntgt = "{}"\nburst = 1\n'
    head = 'description = "x"\nminions = 3\n'
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(head + block.format("test.pnig", "*") + block.format("test.ehco", "nobody"))
    second.write_text("minions = 3\n")
    assert cli.main(["scenarios", str(first), str(second)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [re.findall(r"function ([a-z.]+):|`([a-z]+)` is missing|`(clients)`", line)[0] for line in lines] == [
        ("test.ehco", "", ""),
        ("test.pnig", "", ""),
        ("", "description", ""),
        ("", "", "clients"),
    ]
    assert all('unknown_functions = "allow"' in line for line in lines[:2])
    assert cli.main(["load", "--scenario", str(first), "--folder", str(tmp_path / "runs")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "target none of the 3 minions" in lines[2]


def test_scenario_is_described_with_its_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario's description tells what the fleet is, and what happens to it."""
    assert cli.main(["scenarios", "wan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  the fleet: network rtt_ms=5 share=0.4" in lines
    assert "  after 45 s: every fifth line gets worse" in lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("test.ping", "test.pnig", r"know the function test\.pnig: did you mean test\.ping\? .*unknown_functions"),
        ("", '[fleet]\nbehaviours = "slowtail"\n', r"no behaviour slowtail: the nearest preset is slow-tail\.$"),
        (
            "",
            '[[timeline]]\nat_s = 1\ndo = "behaviour"\nbehaviour = "slowtail"\n',
            r"no behaviour slowtail: the nearest preset is slow-tail\.$",
        ),
    ],
)
@pytest.mark.parametrize("command", ["scenarios", "load"])
def test_scenario_that_the_fleet_can_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, old: str, new: str, message: str
) -> None:
    """What simulated minions do not know is told before anything is started, with exit code 2."""
    path = tmp_path / "mine.toml"
    text = scenario.find("quick").read_text()
    path.write_text(text.replace(old, new) if old else text + new)
    words = ["scenarios", str(path)] if command == "scenarios" else ["load", "--scenario", str(path)]
    words += ["--folder", str(tmp_path / "runs")] if command == "load" else []
    assert cli.main(words) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("both", ("stock", "patched")),
        ("stock,stock", ("stock", "stock")),
        ("both,patched", ("stock", "patched", "patched")),
        ("a,b", ("a,b",)),
        ("a,c", ("a", "c")),
    ],
)
def test_trees(text: str, expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several trees have commas between them, and a folder may have one in its name."""
    (tmp_path / "a,b").mkdir()
    monkeypatch.chdir(tmp_path)
    seen: list[campaign.RunRequest] = []

    def refuse(request: campaign.RunRequest, *_: object) -> NoReturn:
        seen.append(request)
        raise SettingsError("no.")

    monkeypatch.setattr(campaign, "run", refuse)
    assert cli.main(["load", "--tree", text, "--repeat", "3"]) == 2
    assert (seen[0].trees, seen[0].repeats) == (expected, 3)
    assert seen[0].command.endswith(" --repeat 3")


def test_result_of_a_missed_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missed threshold is exit code 1, and the figures are printed."""
    folder = shutil.copytree(RUN, tmp_path / "run")
    assert cli.main(["result", str(folder)]) == 1
    output = capsys.readouterr().out
    assert "MISSED: stock acknowledged_ratio is 0.7, has to be at least 0.9" in output
    assert "met: patched client_errors is 0, has to be at most 0" in output


def test_report_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Result and report are steps of their own."""
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    cli.main(["result", str(folder), "--json"])
    assert json.loads(capsys.readouterr().out)["format"] == results.FORMAT
    assert cli.main(["report", str(folder)]) == 0
    assert Path(capsys.readouterr().out.strip()) == folder / "report.html"
    assert (folder / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("command", ["load", "result", "report", "scenarios", "up"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself with an example and its exit codes."""
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert f"python -m harness {command}" in output
    assert "130 interrupted" in output


def test_no_minions(capsys: pytest.CaptureFixture[str]) -> None:
    """A number of minions below one is wrong use."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["load", "--minions", "0"])
    assert ended.value.code == 2
    assert "has to be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["abc", "0", "-1", "1.5", ""])
def test_number_that_is_none_is_told(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names what was typed and what is wanted, not a function of ours."""
    with pytest.raises(SystemExit):
        parser().parse_args(["load", f"--minions={number}"])
    assert (
        f"argument --minions: '{number}' has to be a whole number, and has to be at least 1" in capsys.readouterr().err
    )


def finished(folder: Path) -> Path:
    """Return the folder of runs with one run in it, which is the latest."""
    shutil.copytree(RUN, folder / "20260102T030405Z-quick")
    (folder / "latest").symlink_to("20260102T030405Z-quick")
    return folder


@pytest.mark.parametrize("words", [["report"], ["report", "latest"], ["report", "latest", "--against", "latest"]])
def test_latest_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Latest means the latest run wherever a run is asked for, and so does nothing at all."""
    folder = finished(tmp_path)
    cli.main(["result", "latest", "--json", "--folder", str(folder)])
    capsys.readouterr()
    assert cli.main([*words, "--folder", str(folder)]) == 0
    assert capsys.readouterr().out.strip().endswith("20260102T030405Z-quick/report.html")


def test_latest_run_of_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no run yet, latest says how to make one."""
    for words in (["report"], ["report", "latest"], ["result", "latest"]):
        assert cli.main([*words, "--folder", str(tmp_path)]) == 2
        expected = f"There is no finished run in {tmp_path} yet: start one with `nox -s load`.\n"
        assert capsys.readouterr().err == expected


def errors(kind: type[HarnessError]) -> list[type[HarnessError]]:
    """Return a kind of error and all kinds of it."""
    return [kind, *(found for below in kind.__subclasses__() for found in errors(below))]


@pytest.mark.parametrize("kind", errors(HarnessError))
def test_errors_exit_code(
    kind: type[HarnessError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error ends the command with the exit code that it says, and with one that is documented."""

    def fail(_: str) -> NoReturn:
        raise kind("what to do next")

    monkeypatch.setattr(scenario, "find", fail)
    assert cli.main(["scenarios", "x"]) == kind.exit_code
    assert kind.exit_code == (2 if issubclass(kind, SettingsError) else 3)
    assert capsys.readouterr().err == "what to do next\n"


def test_up_keeps_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a bed leaves goes below the folder that was named."""
    seen: list[BedSettings] = []
    monkeypatch.setattr(campaign, "find", lambda _: ("stock", tmp_path / "stock"))
    monkeypatch.setattr(serve, "serve", lambda settings, **_: seen.append(settings))
    folder = tmp_path / "a" / "b"
    assert cli.main(["up", "--tree", "stock", "--folder", str(folder)]) == 0
    assert seen[0].folder.parent == folder
    assert cli.main(["up", "--tree", "stock"]) == 0
    assert seen[1].folder.parent == Path("build/beds")
