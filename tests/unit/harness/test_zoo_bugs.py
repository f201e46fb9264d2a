"""The files of the zoo, and how what a check finds becomes an outcome."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.errors import HarnessError, ScenarioError, SettingsError
from harness.paths import ROOT
from harness.zoo import bugs, runs
from harness.zoo.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOUND = "import salt\n\n\ndef check(folder):\n    assert folder.is_dir()\n    return {found}\n"


@pytest.mark.parametrize("number", bugs.numbers())
def test_each_file_is_understood(number: str) -> None:
    """It says what goes wrong, and a topic that it names is one of ours."""
    bug = bugs.load(number)
    series = (ROOT / "patches" / "series").read_text(encoding="utf-8").split()
    assert bug.title
    assert bug.counts
    assert bug.mended_in or bug.topic
    assert bug.topic in {"", *series}


def test_each_check_has_a_description() -> None:
    """No check is left behind when its bug has gone."""
    checks = {path.stem.removeprefix("bug_") for path in bugs.CHECKS.glob("bug_*.py")}
    assert checks <= set(bugs.numbers())


def test_an_unknown_bug() -> None:
    """The error lists those that there are."""
    with pytest.raises(ScenarioError, match="61656"):
        bugs.load("1")


@dataclass(frozen=True)
class Installed:
    """A Salt whose Python is the one that runs the tests."""

    path: Path

    def python(self) -> str:
        """Return the Python."""
        return sys.executable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "state", "sentences"),
    [("[]", "right", ()), ("['two of three']", "wrong", ("two of three",)), ("None", "absent", ())],
)
def test_outcomes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str, state: str, sentences: tuple[str, ...]
) -> None:
    """A check's answer is right, wrong with sentences, or absent."""
    outcome = runs.run(_bug(tmp_path, FOUND.format(found=found), monkeypatch), "patched", {})
    assert (outcome.state, outcome.found) == (state, sentences)


@pytest.mark.slow
def test_a_check_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error of a check is no bug of Salt: it ends the run, with the traceback."""
    bug = _bug(tmp_path, FOUND.format(found="1 / 0"), monkeypatch)
    with pytest.raises(HarnessError, match="ZeroDivisionError"):
        runs.run(bug, "patched", {})


def _bug(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> bugs.Bug:
    """Return a bug with a check, which runs with a Salt of one empty module."""
    (folder / "salt").mkdir()
    (folder / "salt" / "__init__.py").touch()
    (folder / "bug_1.py").write_text(code)

    def place(salt: str, environment: Mapping[str, str]) -> tuple[Installed, dict[str, str]]:
        return Installed(folder), {**environment, "PYTHONPATH": str(folder), "SALT": salt}

    monkeypatch.setattr(runs, "place", place)
    monkeypatch.setattr(bugs, "CHECKS", folder)
    return bugs.Bug("1", "", "", "", "", (), folder / "1.toml")


def test_a_salt_that_is_none() -> None:
    """A word is neither a release nor the patched tree."""
    with pytest.raises(SettingsError, match=r"3006\.30"):
        runs.place("stock", {})


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The list runs nothing."""
    assert main(["--list", "61656"]) == 0
    assert capsys.readouterr().out.startswith("#61656: over tcp")
