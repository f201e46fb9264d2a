"""The check of commit subjects: which commits it looks at, and what is too long."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import subjects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = "Queue: " + "x" * 66
FITS = "Queue: " + "x" * 65


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give a function that runs git in a new repository, which the check looks at."""
    monkeypatch.setattr(subjects, "ROOT", tmp_path)

    def run(*words: str) -> None:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True)

    run("init", "--quiet")
    return run


def commit(git: Callable[..., None], subject: str) -> None:
    """Make a commit without a change."""
    git("commit", "--quiet", "--allow-empty", "-m", f"{subject}\n\n{'a long line of the body ' * 5}")


def test_a_long_subject_is_found(git: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """73 characters are too many, 72 are not; the body is not looked at."""
    commit(git, FITS)
    assert subjects.main([]) == 0
    commit(git, LONG)
    assert subjects.main([]) == 1
    assert capsys.readouterr().out.endswith(f": the subject has 73 characters; shorten it to 72: {LONG}\n")


def test_only_commits_after_the_base_count(git: Callable[..., None]) -> None:
    """Whatever a release has stays as it is: commits after its tag count, or those after a named base."""
    commit(git, LONG)
    git("tag", "3008.5-1")
    commit(git, FITS)
    assert subjects.main([]) == 0
    commit(git, LONG)
    assert subjects.main([]) == 1
    assert subjects.main(["HEAD"]) == 0


def test_without_a_release_the_check_itself_is_the_base(git: Callable[..., None], tmp_path: Path) -> None:
    """Commits from before the check existed do not count."""
    commit(git, LONG)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "subjects.py").write_text("")
    git("add", ".")
    commit(git, FITS)
    assert subjects.main([]) == 0
    commit(git, LONG)
    assert subjects.main([]) == 1


def test_a_wrong_base_is_one_sentence(git: Callable[..., None]) -> None:
    """A base that git does not know is git's own message."""
    commit(git, FITS)
    with pytest.raises(SystemExit, match=r"^git log failed: .*no-such-tag"):
        subjects.main(["no-such-tag"])
