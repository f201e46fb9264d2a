"""What a run records of the trees of Salt that it ran."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.results import trees

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _tree(folder: Path) -> Path:
    for name in ("salt/master.py", "scripts/salt-master", "tests/test_master.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_hash_follows_what_runs(tmp_path: Path) -> None:
    """An edit of a file that runs changes the hash; tests and compiled modules do not."""
    before = trees.content_hash(_tree(tmp_path))
    (tmp_path / "tests" / "test_master.py").write_text("changed")
    (tmp_path / "salt" / "__pycache__").mkdir()
    (tmp_path / "salt" / "__pycache__" / "master.pyc").write_text("changed")
    assert trees.content_hash(tmp_path) == before
    (tmp_path / "salt" / "master.py").write_text("changed")
    assert trees.content_hash(tmp_path) != before


def test_environment_is_hashed_by_its_package(tmp_path: Path) -> None:
    """Of an environment with Salt in it, Salt counts."""
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "salt"
    package.mkdir(parents=True)
    assert not trees.content_hash(tmp_path)
    (package / "master.py").write_text("one")
    assert len(trees.content_hash(tmp_path)) == 64


def test_edits_come_from_the_keeper_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of upstream's files are asked for, those of our own come from git; of other trees nothing is known."""
    answers = {
        trees.STATUS[0]: json.dumps({"edits": ["salt/master.py"], "new_files": ["salt/new.py"], "tree": "x"}),
        "git": " M salt/salt/ours.py\n",
    }
    monkeypatch.setattr(trees, "_run", lambda *command: answers[command[0]])
    assert trees.edits() == ["salt/master.py", "salt/new.py", "salt/ours.py"]


def test_edits_that_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed question is no clean tree."""
    monkeypatch.setattr(trees, "_run", lambda *_: None)
    assert trees.edits() is None
    assert trees.describe("patched", {"hash": "", "edited": None}) == "patched: tree unknown, edits unknown"


def test_other_trees_have_a_hash_only(tmp_path: Path) -> None:
    """Nobody keeps count of the edits of somebody else's tree."""
    found = trees.facts({"other": _tree(tmp_path)})["other"]
    assert (len(found["hash"]), found["edited"]) == (64, None)
