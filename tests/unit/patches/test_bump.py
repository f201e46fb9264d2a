"""`bump`: the patches move to another release and back, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches import bump, carry
from patches.base import read_base
from patches.series import read_series
from tests.unit.patches.conftest import LINES

if TYPE_CHECKING:
    from patches.state import Applied
    from tests.unit.patches.conftest import Project

NEWER = {"salt/one.py": "line -1\n" + "".join(f"line {number}\n" for number in range(40)), "salt/new.py": "new\n"}
CLASHING = {"salt/one.py": "".join(f"their line {number}\n" for number in range(40))}


def snapshot(project: Project) -> dict[str, bytes]:
    """Read the committed patches and the tree."""
    files = [*project.layout.patches.iterdir(), *(path for path in project.layout.salt.rglob("*") if path.is_file())]
    return {str(path): path.read_bytes() for path in files}


def test_bump_there_and_back(patched: Project) -> None:
    """A clean bump shows the range-diff, and the way back gives the same patches, files and ids."""
    before, ids = snapshot(patched), patched.ids()
    base = patched.release("1.1", NEWER)
    there = patched.run("bump", "1.1")
    assert there.code == 0
    assert "Change first" in there.out
    assert read_base(patched.layout) == base
    assert patched.read("salt/one.py").splitlines()[6] == "changed by first"
    assert patched.read("salt/new.py") == "new\n"
    assert (patched.layout.stock / "salt/new.py").exists()
    assert patched.run("check").code == 0
    assert patched.run("bump", "1.0").code == 0
    assert (snapshot(patched), patched.ids()) == (before, ids)


def test_bump_that_conflicts_changes_nothing(patched: Project) -> None:
    """A conflict names the topic and the file, and leaves everything as it was."""
    before = snapshot(patched)
    patched.release("1.1", CLASHING)
    ended = patched.run("bump", "1.1")
    assert ended.code == 4
    assert "Salt 1.1 conflicts with first (salt/one.py)" in ended.err
    assert "--keep-conflict" in ended.err
    assert snapshot(patched) == before
    assert not patched.layout.carrying("bump").exists()


def test_conflict_can_be_resolved(patched: Project) -> None:
    """A kept conflict is edited in build/bump and continued."""
    patched.release("1.1", CLASHING)
    assert patched.run("bump", "1.1", "--keep-conflict").code == 4
    assert "conflict marker" in patched.run("bump", "--continue").err
    path = patched.layout.carrying("bump") / "salt/one.py"
    path.write_text(CLASHING["salt/one.py"].replace("their line 5\n", "changed by first\n"))
    assert patched.run("bump", "--continue").code == 0
    assert patched.read("salt/one.py") == CLASHING["salt/one.py"].replace("their line 5\n", "changed by first\n")
    assert patched.run("check").code == 0
    assert not patched.layout.carrying("bump").exists()


def test_conflict_can_be_given_up(patched: Project) -> None:
    """--abort leaves everything as it was before the bump."""
    before = snapshot(patched)
    patched.release("1.1", CLASHING)
    patched.run("bump", "1.1", "--keep-conflict")
    assert patched.run("bump", "1.1").code == 2
    assert patched.run("bump", "--abort").code == 0
    assert snapshot(patched) == before
    assert patched.run("bump", "--abort").code == 2


def test_topic_that_upstream_took_is_named(patched: Project) -> None:
    """A patch that the new release already has becomes empty, and is named for removal."""
    taken = "".join(f"line {number}\n" for number in range(40)).replace("line 5\n", "changed by first\n")
    patched.release("1.1", {"salt/one.py": taken})
    ended = patched.run("bump", "1.1", "--json")
    assert (ended.code, ended.data["emptied"]) == (0, ["first"])


def test_new_file_that_upstream_brings_too_is_a_conflict(patched: Project) -> None:
    """When the release has a file that we listed as new the bump stops and says what to do."""
    before = snapshot(patched)
    name = read_series(patched.layout).get("first").files[0]
    patched.release("1.1", {name: "theirs\n"})
    ended = patched.run("bump", "1.1")
    assert ended.code == 4
    assert name in ended.err
    assert snapshot(patched) == before


def test_bump_with_edits_is_refused(patched: Project) -> None:
    """Unsaved edits are not rebased silently."""
    patched.release("1.1", NEWER)
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("bump", "1.1").code == 3


def test_bump_with_another_hash_is_refused(patched: Project) -> None:
    """A hash given by the user is verified."""
    patched.release("1.1", NEWER)
    patched.layout.python.parent.mkdir(parents=True)
    patched.layout.python.write_text("#!/bin/sh\nexit 1\n")
    patched.layout.python.chmod(0o755)
    assert patched.run("bump", "1.1", "--hash", "0" * 64).code == 5


@pytest.mark.parametrize("arguments", [(), ("1.1", "--abort"), ("1.0",), ("--continue",)])
def test_bump_asked_wrongly_is_refused(patched: Project, arguments: tuple[str, ...]) -> None:
    """No version, two wishes at once, the base itself, nothing to continue."""
    assert patched.run("bump", *arguments).code == 2


# both topics conflict, and the second one's other file is gone
BOTH = {**CLASHING, "salt/two.py": "".join(f"other line {number}\n" for number in range(40))}


def resolve(project: Project, module: str, text: str) -> None:
    """Write a conflicting file as somebody resolves it."""
    path = project.layout.carrying("bump") / f"salt/{module}.py"
    assert "<<<<<<<" in path.read_text()
    path.write_text(BOTH[f"salt/{module}.py"].replace("line 5\n", f"line 5, {text}\n"))


def test_all_conflicts_are_named_at_once(patched: Project) -> None:
    """Nobody has to resolve one conflict to learn of the next one."""
    before = snapshot(patched)
    patched.release("1.1", BOTH)
    ended = patched.run("bump", "1.1")
    assert ended.code == 4
    assert "Salt 1.1 conflicts with first (salt/one.py); second (salt/two.py); nothing was changed" in ended.err
    assert snapshot(patched) == before


def test_conflict_that_only_follows_from_another_is_not_named(patched: Project) -> None:
    """A topic on another one's lines conflicts only if it would do so alone."""
    patched.topic("third", one="changed by third")
    patched.release("1.1", CLASHING)
    ended = patched.run("bump", "1.1")
    assert "conflicts with first (salt/one.py); nothing was changed" in ended.err


@pytest.mark.slow
def test_conflicts_are_resolved_one_after_the_other(patched: Project) -> None:
    """Each is continued to the next; the result is what was written, there and back."""
    before, ids = snapshot(patched), patched.ids()
    patched.release("1.1", BOTH)
    ended = patched.run("bump", "1.1", "--keep-conflict")
    assert "conflicts with first (salt/one.py) (then second (salt/two.py))" in ended.err
    resolve(patched, "one", "first")
    assert "conflicts with second (salt/two.py)" in patched.run("bump", "--continue").err
    resolve(patched, "two", "second")
    assert patched.run("bump", "--continue").code == 0
    assert "line 5, first" in patched.read("salt/one.py")
    assert "line 5, second" in patched.read("salt/two.py")
    assert patched.run("check").code == 0
    assert patched.run("bump", "1.0", "--keep-conflict").code == 4
    for module, topic in (("one", "first"), ("two", "second")):
        (patched.layout.carrying("bump") / f"salt/{module}.py").write_text(
            LINES.replace("line 5\n", f"changed by {topic}\n")
        )
        patched.run("bump", "--continue")
    assert (snapshot(patched), patched.ids()) == (before, ids)


def test_resolutions_outlive_an_abort(patched: Project) -> None:
    """Who gives up and tries again resolves each conflict once, also one that was not continued yet."""
    patched.release("1.1", BOTH)
    patched.run("bump", "1.1", "--keep-conflict")
    resolve(patched, "one", "first")
    assert "conflicts with second" in patched.run("bump", "--continue").err
    resolve(patched, "two", "second")
    assert patched.run("bump", "--abort").code == 0
    assert patched.run("bump", "1.1").code == 0
    assert "line 5, first" in patched.read("salt/one.py")
    assert "line 5, second" in patched.read("salt/two.py")


def test_resolutions_can_be_forgotten(patched: Project) -> None:
    """A wrong one would come back for ever."""
    patched.release("1.1", CLASHING)
    patched.run("bump", "1.1", "--keep-conflict")
    resolve(patched, "one", "wrong")
    assert patched.run("bump", "--abort", "--forget").code == 0
    assert patched.run("bump", "1.1").code == 4
    assert patched.run("bump", "1.1", "--forget").code == 2


def test_files_that_the_release_deleted_are_left_out(patched: Project) -> None:
    """A topic goes on without them: they are named, and a copy of the change is kept."""
    patched.edit("salt/two.py", 30, "also changed by first")
    assert patched.run("save", "--topic", "first", "salt/two.py").code == 0
    patched.git("commit", "--quiet", "-a", "-m", "more")
    patched.release("1.1", {"salt/two.py": None})
    ended = patched.run("bump", "1.1", "--json")
    assert ended.code == 0, ended.out
    found = {(one["topic"], one["file"]): one["copy"] for one in ended.data["left_out"]}
    assert set(found) == {("first", "salt/two.py"), ("second", "salt/two.py")}
    assert "+also changed by first" in Path(found["first", "salt/two.py"]).read_text()
    assert ended.data["emptied"] == ["second"]
    assert not (patched.layout.salt / "salt/two.py").exists()
    assert "changed by first" in patched.read("salt/one.py")


def test_deleted_file_and_conflict_at_once(patched: Project) -> None:
    """What is gone is no conflict of its own, and does not stop who resolves the others."""
    patched.release("1.1", {**CLASHING, "salt/two.py": None})
    ended = patched.run("bump", "1.1", "--keep-conflict")
    assert "conflicts with first (salt/one.py): edit" in ended.err
    resolve(patched, "one", "first")
    ended = patched.run("bump", "--continue")
    assert ended.code == 0
    assert "left out: second: salt/two.py, which Salt 1.1 does not have" in ended.out


@pytest.mark.parametrize("place", ["write_series", "write_base", "remove", "make"])
def test_killed_in_the_middle(patched: Project, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Wherever it ends, it can be continued, or applied when the patches are all written, and nothing is lost."""
    patched.release("1.1", BOTH)
    patched.run("bump", "1.1", "--keep-conflict")
    resolve(patched, "one", "first")
    patched.run("bump", "--continue")
    resolve(patched, "two", "second")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(bump, place, killed)
        with pytest.raises(KeyboardInterrupt):
            patched.run("bump", "--continue")
    command = ("apply",) if place == "make" else ("bump", "--continue")
    ended = patched.run(*command)
    assert ended.code == 0, ended.err
    assert "line 5, first" in patched.read("salt/one.py")
    assert "line 5, second" in patched.read("salt/two.py")
    assert patched.run("check").code == 0


@pytest.mark.slow
def test_killed_while_git_wrote(patched: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed git had written of a file that the release does not have is no obstacle; the user's files stay."""
    patched.release("1.1", {**CLASHING, "salt/two.py": None})
    patched.run("bump", "1.1", "--keep-conflict")
    resolve(patched, "one", "first")
    half, own = patched.layout.carrying("bump") / "salt/two.py", patched.layout.carrying("bump") / "notes.txt"

    def killed(*_: object) -> None:
        half.write_text("half of it")
        own.write_text("mine\n")
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(carry.Carrier, "_take", killed)
        with pytest.raises(KeyboardInterrupt):
            patched.run("bump", "--continue")
    with monkeypatch.context() as context:
        context.setattr(bump, "_finish", lambda *_: killed())
        with pytest.raises(KeyboardInterrupt):
            patched.run("bump", "--continue")
    assert own.read_text() == "mine\n"
    ended = patched.run("bump", "--continue")
    assert ended.code == 0, ended.err
    assert not (patched.layout.salt / "salt/two.py").exists()


@pytest.mark.slow
def test_killed_before_a_file_was_left_out(patched: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the release does not have is left out too when the bump ended before that."""
    patched.release("1.1", {**CLASHING, "salt/two.py": None})
    patched.run("bump", "1.1", "--keep-conflict")
    resolve(patched, "one", "first")
    leave_out = carry.Carrier._leave_out

    def killed(carrier: carry.Carrier, one: Applied) -> tuple[str, ...]:
        if one.topic == "second":
            raise KeyboardInterrupt
        return leave_out(carrier, one)

    with monkeypatch.context() as context:
        context.setattr(carry.Carrier, "_leave_out", killed)
        with pytest.raises(KeyboardInterrupt):
            patched.run("bump", "--continue")
    ended = patched.run("bump", "--continue")
    assert ended.code == 0, ended.err
    assert "left out: second: salt/two.py, which Salt 1.1 does not have" in ended.out
    assert not (patched.layout.salt / "salt/two.py").exists()


@pytest.mark.slow
def test_killed_between_two_topics(patched: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bump that was killed before it met any conflict is continued, or given up."""
    patched.release("1.1", NEWER)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(bump, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            patched.run("bump", "1.1")
    assert "An earlier bump waits" in patched.run("bump", "1.1").err
    assert patched.run("bump", "--continue").code == 0
    assert patched.read("salt/one.py").splitlines()[6] == "changed by first"


@pytest.mark.slow
def test_patches_that_changed_meanwhile(patched: Project) -> None:
    """A bump that waits does not overwrite what somebody did to the patches since."""
    patched.release("1.1", CLASHING)
    patched.run("bump", "1.1", "--keep-conflict")
    resolve(patched, "one", "first")
    path = patched.layout.patch("second")
    path.write_text(path.read_text().replace("Because.", "Because of something."))
    changed = path.read_bytes()
    assert "The patches changed since the bump stopped" in patched.run("bump", "--continue").err
    assert path.read_bytes() == changed


@pytest.mark.slow
def test_saved_and_never_committed_is_kept(patched: Project) -> None:
    """A bump rewrites the patches; a saved edit that nobody committed is in build/discarded as it was."""
    patched.edit("salt/one.py", 20, "mine")
    assert patched.run("save").code == 0
    saved = patched.layout.patch("first").read_bytes()
    patched.release("1.1", NEWER)
    ended = patched.run("bump", "1.1", "--json")
    (copy,) = ended.data["copies"]
    assert Path(copy).read_bytes() == saved
    assert "mine" in patched.read("salt/one.py")
