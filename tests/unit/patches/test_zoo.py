"""The scripts that pull requests show bugs with: each is whole, and runs where only Salt is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness import zoo
from patches.zoo import bugs_of, script

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = sorted({zoo.load(number).topic for number in zoo.numbers()} - {""})


@pytest.mark.parametrize("topic", TOPICS)
def test_script_has_all_that_it_names(root: Path, topic: str) -> None:
    """What was cut away is not called, and no checker of ours is mentioned."""
    for bug in bugs_of(root, topic):
        assert f"def bug_{bug.number}(" in bug.script
        assert bug.script.count("def bug_") == 1
        assert "noqa" not in bug.script
        command = [sys.executable, "-m", "ruff", "check", "--quiet", "--isolated", "--select", "F821,E9", "-"]
        done = subprocess.run(command, input=bug.script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_script_runs_alone(root: Path, tmp_path: Path) -> None:
    """The Salt of this Python has the topic, so nothing is wrong."""
    path = tmp_path / "check.py"
    path.write_text(script(zoo.CHECKS.read_text(), "60955"))
    done = subprocess.run(
        [sys.executable, str(path), "60955", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["wrong"] == []
    assert bugs_of(root, "netapi-permissions")[0].script == path.read_text()
    assert bugs_of(root, "no-such-topic") == ()
