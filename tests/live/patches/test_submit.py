"""Every topic as a branch that somebody else checks out: its tests pass there, on the base and what it requires."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patches import suite
from patches.git import Git
from patches.layout import Layout
from patches.series import read_series

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(1800)]
ADA = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@analytical.engineer"}


def test_tests_pass_on_each_branch(root: Path, tmp_path: Path) -> None:
    """A fresh clone of the project submits all topics; a fresh clone of each branch runs the topic's tests."""
    project = tmp_path / "project"
    subprocess.run(["git", "clone", "--quiet", str(root), str(project)], check=True)
    (project / "build").mkdir()
    (project / "build/sdists").symlink_to(root / "build/sdists")
    command = [sys.executable, "-m", "patches"]
    subprocess.run([*command, "apply"], cwd=project, check=True, capture_output=True)
    topics = read_series(Layout(project)).topics
    numbers = [f"--number={topic}={number}" for number, topic in enumerate(topics, 1)]
    done = subprocess.run(
        [*command, "submit", *topics, *numbers, "--json"],
        cwd=project,
        env={**os.environ, **ADA},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    checkout = tmp_path / "salt"
    layout = Layout(root)
    failed: dict[str, str] = {}
    passed = 0
    for one in json.loads(done.stdout)["submissions"]:
        if not checkout.exists():
            clone = ["git", "clone", "--quiet", "--branch", one["branch"], one["repository"], str(checkout)]
            subprocess.run(clone, check=True, capture_output=True)
        git = Git(checkout / ".git", checkout)
        git.run("checkout", "--quiet", "--force", f"origin/{one['branch']}")
        git.run("clean", "--quiet", "-ffdx", "--exclude=__pycache__")
        for folder in sorted(checkout.rglob("*"), reverse=True):
            # what held only what Python compiled of another topic's files is a package no more
            if (
                folder.is_dir()
                and folder.name != "__pycache__"
                and {path.name for path in folder.iterdir()} == {"__pycache__"}
            ):
                git.run("clean", "--quiet", "-ffdx", "--", str(folder))
        changed = git.text("diff", "--name-only", "HEAD^", "HEAD").splitlines()
        tests = [name for name in changed if suite.is_test(name)]
        assert tests, one["topic"]
        counts = suite.counts(layout, checkout, tests, tmp_path / "report.xml")
        passed += sum(count.passed for count in counts.values())
        failed |= {f"{one['topic']} {name}": str(count) for name, count in counts.items() if count.code}
        text = Path(one["cover"]).read_text()
        assert all(name in text for name in tests)
    print(f"{len(topics)} branches, {passed} tests passed")
    assert failed == {}
