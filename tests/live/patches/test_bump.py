"""The real patches from the base to an older feature release and back, with the conflicts that this has."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from patches.base import read_base
from patches.layout import Layout
from patches.series import read_series

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]
OLDER = "3007.17"
ROUNDS = 60
CONFLICT = re.compile(r"<<<<<<< [^\n]*\n.*?=======\n(.*?)>>>>>>> [^\n]*\n", re.DOTALL)


@pytest.fixture
def clone(root: Path, tmp_path: Path) -> Path:
    """Make a clone of the project, as it is committed, with the downloads at hand."""
    made = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(root), str(made)], check=True)
    (made / "build").mkdir()
    (made / "build/sdists").symlink_to(root / "build/sdists")
    (made / "build/venv").symlink_to(root / "build/venv")
    assert run(made, "apply").returncode == 0
    return made


def run(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of the commands in the clone."""
    command = [sys.executable, "-m", "patches", *arguments]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


def resolve(clone: Path) -> int:
    """Take the topic's side of each conflict in build/bump; return how many there were."""
    folder = clone / "build/bump"
    unmerged = ["git", "diff", "--name-only", "--diff-filter=U"]
    listed = subprocess.run(unmerged, cwd=folder, capture_output=True, text=True, check=True)
    count = 0
    for name in listed.stdout.split():
        text, found = CONFLICT.subn(r"\1", (folder / name).read_text())
        (folder / name).write_text(text)
        count += found
    return count


def killed(clone: Path, seconds: float) -> bool:
    """Start to continue, and kill it; return whether it was still at work."""
    command = [sys.executable, "-m", "patches", "bump", "--continue"]
    process = subprocess.Popen(command, cwd=clone, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    return process.wait() == -9


def carried(clone: Path, release: str, dice: random.Random) -> tuple[int, int]:
    """Move to a release, resolving what conflicts, killed again and again; return the conflicts and the kills."""
    named = run(clone, "bump", release)
    ended = run(clone, "bump", release, "--keep-conflict")
    conflicts = kills = 0
    for number in range(ROUNDS):
        if not ended.returncode:
            break
        assert ended.returncode == 4, ended.stderr
        topic = re.search(r"conflicts with ([\w-]+) \(", ended.stderr)
        assert topic is not None, ended.stderr
        # whatever stops a bump later was named before anything was begun
        assert f"{topic[1]} (" in named.stderr
        conflicts += resolve(clone)
        if number == 2:
            assert run(clone, "bump", "--abort").returncode == 0
            ended = run(clone, "bump", release, "--keep-conflict")
            again = re.search(r"conflicts with ([\w-]+) \(", ended.stderr)
            # all that was resolved is known, also what was not continued yet
            assert again is None or again[1] != topic[1]
            continue
        kills += killed(clone, dice.uniform(0.2, 1.2))
        ended = run(clone, "bump", "--continue")
        if "No bump waits" in ended.stderr:
            # it had come to its end: what is left is to make the tree
            ended = run(clone, "apply")
    assert ended.returncode == 0, ended.stderr
    return conflicts, kills


def test_there_and_back(clone: Path) -> None:
    """All conflicts are named at once and resolved; kills and an abort lose nothing; each topic is there at the end."""
    layout, dice = Layout(clone), random.Random(19)  # noqa: S311 - no secret
    start, before = read_base(layout).version, read_series(layout)
    there = carried(clone, OLDER, dice)
    assert read_base(layout).version == OLDER
    assert read_series(layout).topics == before.topics
    back = carried(clone, start, dice)
    after = read_series(layout)
    assert (read_base(layout).version, after.topics) == (start, before.topics)
    same = sum(one.data == other.data for one, other in zip(before, after, strict=True))
    print(f"conflicts and kills there {there}, back {back}; {same} of {len(before.patches)} patches are as they were")
    assert there[0] > 10
    assert there[1] + back[1] > 0
    for patch in after:
        assert (patch.files, patch.message) == (before.get(patch.topic).files, before.get(patch.topic).message)
    # nothing of ours but the patches and the pin was touched
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert {line[3:].partition("/")[0] for line in changed.stdout.splitlines()} <= {"patches"}
