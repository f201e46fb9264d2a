"""The files of the zoo, and how what a check finds becomes an outcome."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness import zoo
from harness.errors import HarnessError, ScenarioError, SettingsError
from harness.paths import ROOT
from harness.zoo import main

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOUND = """\
import json, pathlib, salt, sys
assert sys.argv[1] == "1" and pathlib.Path(sys.argv[2]).is_dir()
print(json.dumps({{"wrong": {found}, "salt": salt.__file__}}))
"""


@pytest.mark.parametrize("number", zoo.numbers())
def test_each_file_is_understood(number: str) -> None:
    """It says what goes wrong, and a topic that it names is one of ours."""
    bug = zoo.load(number)
    series = (ROOT / "patches" / "series").read_text(encoding="utf-8").split()
    assert bug.title
    assert bug.counts
    assert bug.mended_in or bug.topic
    assert bug.topic in {"", *series}


def test_each_bug_has_a_check() -> None:
    """None lacks its check, and no check is left behind when its bug has gone."""
    checks = re.findall(r"^def bug_(\d+)", zoo.CHECKS.read_text(), re.MULTILINE)
    assert sorted(checks, key=int) == zoo.numbers()


def test_an_unknown_bug() -> None:
    """The error lists those that there are."""
    with pytest.raises(ScenarioError, match="61656"):
        zoo.load("1")


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
    outcome = zoo.run(_bug(tmp_path, FOUND.format(found=found), monkeypatch), "patched", {})
    assert (outcome.state, outcome.found) == (state, sentences)


@pytest.mark.slow
def test_a_check_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error of a check is no bug of Salt: it ends the run, with the traceback."""
    bug = _bug(tmp_path, FOUND.format(found="1 / 0"), monkeypatch)
    with pytest.raises(HarnessError, match="ZeroDivisionError"):
        zoo.run(bug, "patched", {})


def _bug(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> zoo.Bug:
    """Return a bug with a check, which runs with a Salt of one empty module."""
    (folder / "salt").mkdir()
    (folder / "salt" / "__init__.py").touch()
    (folder / "checks.py").write_text(code)

    def place(salt: str, environment: Mapping[str, str]) -> tuple[Installed, dict[str, str]]:
        return Installed(folder), {**environment, "PYTHONPATH": str(folder), "SALT": salt}

    monkeypatch.setattr(zoo, "place", place)
    monkeypatch.setattr(zoo, "CHECKS", folder / "checks.py")
    return zoo.Bug("1", "", "")


def test_a_salt_that_is_none() -> None:
    """A word is neither a release nor the patched tree."""
    with pytest.raises(SettingsError, match=r"3006\.30"):
        zoo.place("stock", {})


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The list runs nothing."""
    assert main(["--list", "61656"]) == 0
    assert capsys.readouterr().out.startswith("#61656: over tcp")
