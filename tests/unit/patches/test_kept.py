"""`keep`, `check --base` and `export --base`: series for other releases, with nothing kept twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patches.base import unpack
from patches.git import Git
from patches.kept import read_kept
from tests.unit.patches.conftest import LINES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.patches.conftest import Project

pytestmark = pytest.mark.slow

# `first` conflicts there, `second` does not
OLDER = {"salt/one.py": LINES.replace("line 5\n", "older 5\n")}


def kept(project: Project, release: str) -> dict[str, bytes]:
    """Read what is kept for a release."""
    folder = project.layout.releases / release
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def applying(project: Project, release: str) -> list[str]:
    """Try what is kept for a release; return the topics that apply. The project stays as it is."""
    before = project.git("status", "--porcelain"), project.ids()
    ended = project.run("check", "--base", release, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert (project.git("status", "--porcelain"), project.ids()) == before
    return [one["topic"] for one in ended.data["fits"] if one["commit"] and not one["conflict"]]


def resolve(project: Project, text: str) -> None:
    """Resolve the conflict of `first`."""
    path = project.layout.carrying("keep") / "salt/one.py"
    assert "<<<<<<<" in path.read_text()
    path.write_text(OLDER["salt/one.py"].replace("older 5\n", f"{text}\n"))


def test_topic_that_is_the_same_is_kept_once(patched: Project) -> None:
    """The base's patch serves both releases: only a line of the series is new."""
    patched.release("0.9", {"salt/one.py": f"older\n{LINES}"})
    ended = patched.run("keep", "0.9", "first")
    assert (ended.code, ended.out) == (0, "Salt 0.9: first: the base's patch\n")
    assert set(kept(patched, "0.9")) == {"series", "base.txt"}
    assert applying(patched, "0.9") == ["first"]
    assert patched.run("check").code == 0


def test_topic_that_differs_has_a_patch_of_its_own(patched: Project, tmp_path: Path) -> None:
    """It is resolved once, and makes with its new files what was written."""
    patched.release("0.8", OLDER)
    assert "conflicts with first (salt/one.py)" in patched.run("keep", "0.8", "first", "second").err
    assert "conflict marker" in patched.run("keep", "--continue").err
    resolve(patched, "changed by first, older")
    # a test may differ there as well
    (patched.layout.carrying("keep") / "tests/pytests/unit/test_first.py").write_text(
        "def test_it():\n    assert 'older'\n"
    )
    ended = patched.run("keep", "--continue")
    assert ended.out == "Salt 0.8: first: a patch of its own\nSalt 0.8: second: the base's patch\n"
    assert set(kept(patched, "0.8")) == {"series", "base.txt", "first.patch"}
    assert applying(patched, "0.8") == ["first", "second"]
    assert not patched.layout.carrying("keep").exists()
    made = patched.run("export", "--base", "0.8", "--output", str(tmp_path / "patches"), "--json").data
    assert made["topics"] == ["first", "second"]
    base = read_kept(patched.layout, "0.8")
    assert base is not None
    unpack(patched.layout, base.base, tmp_path / "salt")
    git = Git(tmp_path / "salt/.git", tmp_path / "salt")
    git.run("init", "--quiet", "--template=")
    git.run("add", "--force", "salt", "doc", "tests", "pkg")
    git.run("commit", "--quiet", "-m", "pristine")
    git.run("quiltimport", "--patches", str(tmp_path / "patches"))
    assert "changed by first, older" in (tmp_path / "salt/salt/one.py").read_text()
    assert "older" in (tmp_path / "salt/tests/pytests/unit/test_first.py").read_text()
    assert "changed by second" in (tmp_path / "salt/salt/two.py").read_text()


def test_one_more_later(patched: Project) -> None:
    """What is kept stays, byte for byte, and the new one comes after it."""
    patched.release("0.8", OLDER)
    patched.run("keep", "0.8", "first")
    resolve(patched, "changed by first, older")
    assert patched.run("keep", "--continue").code == 0
    before = kept(patched, "0.8")
    assert patched.run("keep", "0.8", "second").code == 0
    after = kept(patched, "0.8")
    assert (after.pop("series"), before.pop("series")) == (b"first\nsecond\n", b"first\n")
    assert after == before


def test_resolution_is_known_when_the_topic_changes(patched: Project) -> None:
    """A topic that is saved again is carried again, without asking again."""
    patched.release("0.8", OLDER)
    patched.run("keep", "0.8", "first")
    resolve(patched, "changed by first, older")
    assert patched.run("keep", "--continue").code == 0
    patched.edit("salt/one.py", 30, "more")
    assert patched.run("save").code == 0
    ended = patched.run("keep", "0.8", "first")
    assert (ended.code, ended.err) == (0, "")
    text = kept(patched, "0.8")["first.patch"].decode()
    assert "+changed by first, older" in text
    assert "+more" in text


def test_topic_in_the_middle_is_carried_in_its_place(patched: Project) -> None:
    """Topics that are kept after it are made again on top of it, with what was resolved for them."""
    patched.edit("salt/one.py", 6, "beside it")
    assert patched.run("save", "--new", "third", "salt/one.py").code == 0
    patched.release("0.8", OLDER)
    patched.run("keep", "0.8", "third")
    resolve(patched, "changed by first, older")
    assert "conflicts with third (salt/one.py)" in patched.run("keep", "--continue").err
    path = patched.layout.carrying("keep") / "salt/one.py"
    path.write_text(OLDER["salt/one.py"].replace("older 5\nline 6\n", "changed by first, older\nbeside third\n"))
    assert patched.run("keep", "--continue").code == 0
    assert kept(patched, "0.8")["series"] == b"first\nthird\n"
    before = kept(patched, "0.8")["third.patch"]
    patched.edit("salt/one.py", 8, "more of first")
    assert patched.run("save", "--topic", "first", "salt/one.py").code == 0
    ended = patched.run("keep", "0.8", "first")
    assert (ended.code, ended.err) == (0, "")
    after = kept(patched, "0.8")
    assert after["series"] == b"first\nthird\n"
    assert b"+more of first" in after["first.patch"]
    assert b"+beside third" in after["third.patch"]
    assert after["third.patch"] != before
    assert applying(patched, "0.8") == ["first", "third"]


def test_topic_in_the_middle_that_no_longer_applies(patched: Project) -> None:
    """What is kept after a shared patch that now conflicts is carried from the base again, once that is resolved."""
    patched.release("0.9", {"salt/one.py": LINES.replace("line 30\n", "older 30\n")})
    assert patched.run("keep", "0.9", "first", "second").code == 0
    patched.edit("salt/one.py", 30, "more of first")
    assert patched.run("save").code == 0
    assert "conflicts with first (salt/one.py)" in patched.run("keep", "0.9", "first").err
    path = patched.layout.carrying("keep") / "salt/one.py"
    path.write_text(LINES.replace("line 5\n", "changed by first\n").replace("line 30\n", "more, older\n"))
    ended = patched.run("keep", "--continue")
    assert ended.out == "Salt 0.9: first: a patch of its own\nSalt 0.9: second: the base's patch\n"


def test_required_topics_come_along(patched: Project) -> None:
    """A topic is nothing without them."""
    path = patched.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: first\nRemove-When: merged\n"))
    patched.run("apply")
    patched.release("0.9")
    assert patched.run("keep", "0.9", "second").code == 0
    assert kept(patched, "0.9")["series"] == b"first\nsecond\n"


def test_given_up(patched: Project) -> None:
    """Nothing is written, and what was resolved is known to the next try."""
    patched.release("0.8", OLDER)
    patched.run("keep", "0.8", "first")
    assert "An earlier keep waits" in patched.run("keep", "0.8", "first").err
    resolve(patched, "changed by first, older")
    assert patched.run("keep", "--abort").code == 0
    assert kept(patched, "0.8") == {}
    assert patched.run("keep", "0.8", "first").code == 0


def test_kept_topic_that_no_longer_applies(patched: Project) -> None:
    """It is named, and the check fails; so is a patch that nobody lists."""
    patched.release("0.9")
    assert patched.run("keep", "0.9", "first").code == 0
    base = patched.release("0.9", OLDER)
    (patched.layout.releases / "0.9/base.txt").write_text(f"{base.requirement}\n")
    ended = patched.run("check", "--base", "0.9")
    assert ended.code == 1
    assert "not in order: 0.9 first" in ended.out
    (patched.layout.releases / "0.9/other.patch").write_text("x")
    assert "is not listed" in patched.run("check").err


@pytest.mark.parametrize(
    "arguments",
    [("keep",), ("keep", "0.9"), ("keep", "--continue"), ("keep", "0.9", "x"), ("keep", "0.9", "first", "--abort")],
)
def test_wrong_use(patched: Project, arguments: tuple[str, ...]) -> None:
    """What is not clear is refused."""
    assert patched.run(*arguments).code == 2
    assert patched.run("export", "--base", "0.9").code == 2
    assert patched.run("check", "--base", "0.9").code == 2


def test_check_of_a_release_wants_topics_and_a_tree(patched: Project) -> None:
    """A topic that is not kept is refused, and so is a tree that is not what the patches say."""
    patched.release("0.9")
    assert patched.run("keep", "0.9", "first").code == 0
    assert patched.run("check", "--base", "0.9", "--topic", "second").code == 2
    (patched.layout.git_dir / "saltbed.json").unlink()
    ended = patched.run("check", "--base", "0.9")
    assert (ended.code, "run 'nox -s apply' first" in ended.err) == (2, True)
