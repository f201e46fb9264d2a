"""`apply`: the tree is made once, brought up to date, and never at the cost of an edit."""

from __future__ import annotations

import fcntl
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patches.errors import BusyError, ToolError
from patches.git import OLDEST, require_git
from patches.layout import locked
from patches.series import read_series
from patches.state import Move, read_state, write_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.patches.conftest import Project


def test_tree_holds_the_release(made: Project) -> None:
    """Upstream's files lie in salt/ and in build/stock, byte for byte."""
    for folder in (made.layout.salt, made.layout.stock):
        assert (folder / "doc/crlf.txt").read_bytes() == b"a\r\nb\r\n"
        assert (folder / "doc/питон.txt").read_text() == "snake\n"
        assert (folder / "doc/we*ird [x].txt").read_text() == "odd\n"
        assert (folder / "doc/!last ").read_text() == "odd as well\n"
        assert (folder / "pkg/macos/.gitignore").exists()
        assert (folder / "tests/empty").is_dir()


def test_tree_is_no_repository_of_its_own(made: Project) -> None:
    """There is no .git in salt/, which the project's git would take for another repository."""
    assert not (made.layout.salt / ".git").exists()


def test_nothing_of_the_release_shows_in_git_status(made: Project) -> None:
    """The project's git sees none of upstream's files, whatever their names."""
    assert made.git("status", "--porcelain", "--untracked-files=all") == ""


def test_new_file_shows_in_git_status(made: Project) -> None:
    """A file that we add to Salt shows by itself."""
    made.write("salt/modules/ours.py", "")
    assert made.git("status", "--porcelain", "--untracked-files=all") == "?? salt/salt/modules/ours.py\n"


def test_second_apply_changes_nothing(patched: Project) -> None:
    """On a made tree apply gives the same ids and touches no file."""
    before = patched.ids()
    stamps = {path: path.stat().st_mtime_ns for path in patched.layout.salt.rglob("*")}
    again = patched.run("apply", "--json")
    assert (again.code, again.data["changed"]) == (0, False)
    assert (again.data["head"], again.data["tree"]) == before
    assert {path: path.stat().st_mtime_ns for path in patched.layout.salt.rglob("*")} == stamps


def test_fresh_clone_gives_the_same_ids(patched: Project, clone: Callable[[], Project]) -> None:
    """A clone that knows only patches/ and our new files makes the same commit and the same tree."""
    assert clone().ids() == patched.ids()


@pytest.mark.slow
def test_hostile_git_configuration_changes_no_id(
    patched: Project, clone: Callable[[], Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing, hooks, templates, line ends, ignore files, diff settings and GIT_* of the user have no say."""
    expected = patched.ids()
    other = clone()
    hooks, template = tmp_path / "hooks", tmp_path / "template/hooks"
    for folder in (hooks, template):
        folder.mkdir(parents=True)
        for name in (
            "pre-commit",
            "commit-msg",
            "applypatch-msg",
            "pre-applypatch",
            "post-checkout",
            "reference-transaction",
        ):
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
    (tmp_path / "ignored").write_text("*\n")
    (tmp_path / "attributes").write_text("* text eol=crlf diff=none\n")
    (tmp_path / "home/.gitconfig").write_text(
        f"""[user]
name = Mallory
email = m@example.org
signingKey = none
[commit]
gpgSign = true
template = {tmp_path}/nowhere
[gpg]
program = false
[core]
autocrlf = true
hooksPath = {hooks}
excludesFile = {tmp_path}/ignored
attributesFile = {tmp_path}/attributes
fileMode = false
[init]
templateDir = {tmp_path}/template
defaultObjectFormat = sha256
[diff]
noprefix = true
external = false
context = 0
renames = copies
[format]
signature = hostile
attach = true
numbered = true
[am]
messageid = true
[color]
ui = always
[rebase]
autoSquash = false
[core]
quotePath = true
"""
    )
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no-index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "1999-01-01T00:00:00Z")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert other.ids() == expected
    other.edit("salt/one.py", 20, "hostile edit")
    assert other.run("save").code == 0
    assert b"\n@@ -18,7 +18,7 @@" in (other.layout.patch("first").read_bytes())


def test_edit_is_refused_named_and_kept(patched: Project) -> None:
    """An unsaved edit stops apply, which names the file and both ways on."""
    patched.edit("salt/two.py", 20, "mine")
    ended = patched.run("apply")
    assert ended.code == 3
    assert "salt/two.py" in ended.err
    assert "nox -s save" in ended.err
    assert "--discard" in ended.err
    assert "mine" in patched.read("salt/two.py")


def test_edit_is_named_for_machines(patched: Project) -> None:
    """With --json the refusal lists the files."""
    patched.edit("salt/two.py", 20, "mine")
    assert patched.run("apply", "--json").data["files"] == ["salt/two.py"]


def test_deleted_file_is_an_edit(patched: Project) -> None:
    """A deleted file of upstream's is not brought back behind the user's back."""
    (patched.layout.salt / "salt/two.py").unlink()
    assert patched.run("apply").code == 3


def test_deleted_tree_is_made_again(patched: Project) -> None:
    """When the whole folder was deleted its files are no edits."""
    before = patched.ids()
    subprocess.run(["rm", "-r", str(patched.layout.salt)], check=True)
    patched.git("checkout", "--quiet", "--", "salt")
    assert patched.ids() == before


def test_edits_can_be_gone_on_with(patched: Project) -> None:
    """--keep-edits leaves edits where they are and succeeds."""
    patched.edit("salt/two.py", 20, "mine")
    ended = patched.run("apply", "--keep-edits", "--json")
    assert (ended.code, ended.data["edits"]) == (0, ["salt/two.py"])
    assert "mine" in patched.read("salt/two.py")


def test_discarded_edits_leave_a_copy(patched: Project) -> None:
    """--discard restores the files, and the copy applies again."""
    before = patched.read("salt/two.py")
    patched.edit("salt/two.py", 20, "mine")
    edited = patched.read("salt/two.py")
    ended = patched.run("apply", "--discard", "--json")
    assert patched.read("salt/two.py") == before
    patched.git("apply", "--directory=salt", ended.data["discarded"])
    assert patched.read("salt/two.py") == edited


def pull(project: Project, clone: Callable[[], Project], line: int, text: str) -> None:
    """Let someone else save an edit of `first`, and take their patches."""
    other = clone()
    assert other.run("apply").code == 0
    other.edit("salt/one.py", line, text)
    assert other.run("save").code == 0
    project.layout.patch("first").write_bytes(other.layout.patch("first").read_bytes())


@pytest.mark.slow
def test_pulled_patch_updates_the_tree(patched: Project, clone: Callable[[], Project]) -> None:
    """When a patch changed on disk apply brings the tree up to date."""
    pull(patched, clone, 20, "theirs")
    assert patched.run("apply").code == 0
    assert patched.read("salt/one.py").splitlines()[20] == "theirs"


def test_pulled_patch_with_edits_is_refused(patched: Project, clone: Callable[[], Project]) -> None:
    """A changed patch and an unsaved edit: nothing happens without a word of the user."""
    pull(patched, clone, 20, "theirs")
    patched.edit("salt/one.py", 30, "mine")
    ended = patched.run("apply")
    assert ended.code == 3
    assert "--keep-edits" in ended.err
    assert "theirs" not in patched.read("salt/one.py")


@pytest.mark.slow
def test_edits_are_carried_over_a_pulled_patch(patched: Project, clone: Callable[[], Project]) -> None:
    """--keep-edits merges the edits into the new tree, where they can be saved."""
    pull(patched, clone, 20, "theirs")
    patched.edit("salt/one.py", 30, "mine")
    assert patched.run("apply", "--keep-edits").code == 0
    lines = patched.read("salt/one.py").splitlines()
    assert (lines[20], lines[30]) == ("theirs", "mine")
    assert patched.run("save").code == 0
    assert patched.run("check").code == 0


def test_edits_that_clash_with_a_pulled_patch_stay(patched: Project, clone: Callable[[], Project]) -> None:
    """When both changed the same lines nothing is touched."""
    pull(patched, clone, 20, "theirs")
    patched.edit("salt/one.py", 20, "mine")
    assert patched.run("apply", "--keep-edits").code == 4
    assert patched.read("salt/one.py").splitlines()[20] == "mine"


def test_broken_patch_leaves_the_tree(patched: Project) -> None:
    """A patch that does not apply is named, and the tree stays as it was."""
    before = patched.read("salt/one.py")
    path = patched.layout.patch("first")
    path.write_bytes(path.read_bytes().replace(b"-line 5\n", b"-line five\n"))
    ended = patched.run("apply")
    assert ended.code == 4
    assert "first.patch does not apply" in ended.err
    assert patched.read("salt/one.py") == before


def test_interrupted_move_is_finished(patched: Project) -> None:
    """A tree whose files were being written when the power went is completed, edits elsewhere kept."""
    before = patched.ids()
    state = read_state(patched.layout)
    assert state is not None
    whole = patched.read("salt/one.py")
    patched.write("salt/one.py", whole[: len(whole) // 2])
    (patched.layout.salt / "salt/two.py").unlink()
    patched.write("doc/питон.txt", "an edit\n")
    write_state(patched.layout, replace(state, move=Move(state.head, (state.base_commit, state.head))))
    assert patched.run("apply", "--json").data["files"] == ["doc/питон.txt"]
    assert patched.read("salt/one.py") == whole
    patched.write("doc/питон.txt", "snake\n")
    assert patched.ids() == before


@pytest.mark.slow
def test_interrupt_at_any_git_command_is_recovered(
    patched: Project, clone: Callable[[], Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before any of its git commands, apply makes the same tree the next time."""
    expected = patched.ids()
    other = clone()
    run = subprocess.run
    for victim in range(200):
        left = victim

        def counted(*args: object, **options: object) -> object:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return run(*args, **options)  # type: ignore[call-overload]  # whatever `run` was given

        monkeypatch.setattr(subprocess, "run", counted)
        try:
            code = other.run("apply").code
        except KeyboardInterrupt:
            continue
        finally:
            monkeypatch.setattr(subprocess, "run", run)
        assert code == 0
        break
    assert other.ids() == expected
    assert other.git("status", "--porcelain") == ""


def test_left_behind_lock_files_are_cleared(patched: Project) -> None:
    """Lock files and a half-done am that a killed run left behind have no owner any more."""
    before = patched.ids()
    (patched.layout.git_dir / "index.lock").touch()
    (patched.layout.git_dir / "rebase-apply").mkdir()
    patched.edit("salt/one.py", 20, "mine")
    assert patched.run("save").code == 0
    assert patched.ids() != before


def test_lost_build_folder_keeps_edits(patched: Project) -> None:
    """Without build/ the tree is adopted as it lies, and an edit in it is still an edit."""
    patched.edit("salt/two.py", 20, "mine")
    subprocess.run(["rm", "-r", str(patched.layout.git_dir), str(patched.layout.stock)], check=True)
    assert patched.run("apply", "--json").data["files"] == ["salt/two.py"]
    assert patched.read("salt/two.py").splitlines()[20] == "mine"
    assert patched.read("salt/one.py").splitlines()[5] == "changed by first"


def test_stock_is_pristine_again(made: Project) -> None:
    """An edit of the stock tree does not survive, and is told."""
    (made.layout.stock / "salt/one.py").write_text("changed\n")
    ended = made.run("apply")
    assert ended.code == 0
    assert "salt/one.py" in ended.out
    assert (made.layout.stock / "salt/one.py").read_text().startswith("line 0\n")


def test_commits_made_inside_the_tree_are_edits(patched: Project) -> None:
    """A commit in the second git directory blocks nothing: it is an edit until it is saved, and dropped like one."""
    patched.edit("salt/one.py", 20, "mine")
    patched.repository.git.run("commit", "--quiet", "-a", "-m", "by hand")
    status = patched.run("status")
    assert "commits made inside the tree, not saved: 1" in status.out
    assert patched.run("apply").code == 3
    assert "edited, not saved: salt/one.py" in patched.run("status").out
    assert patched.run("apply", "--discard").code == 0
    assert "mine" not in patched.read("salt/one.py")
    assert "not saved" not in patched.run("status").out
    (copy,) = patched.layout.discarded.glob("*.patch")
    assert "+mine" in copy.read_text()


@pytest.mark.parametrize("how", ["commit", "amend", "two"])
def test_commits_made_inside_the_tree_are_saved(patched: Project, how: str) -> None:
    """Whatever somebody commits, `save` takes it into the topics whose files it changes."""
    git = patched.repository.git
    patched.edit("salt/two.py", 20, "mine")
    git.run("commit", "--quiet", "-a", *(("--amend", "--no-edit") if how == "amend" else ("-m", "by hand")))
    if how == "two":
        patched.edit("salt/one.py", 20, "mine as well")
        git.run("commit", "--quiet", "-a", "-m", "again")
    assert patched.run("save").code == 0
    assert "+mine" in patched.layout.patch("second").read_text()
    assert ("+mine as well" in patched.layout.patch("first").read_text()) is (how == "two")
    assert (patched.run("check").code, patched.run("save").out) == (0, "nothing to save\n")


def test_message_of_a_commit_made_inside_the_tree(patched: Project) -> None:
    """A new topic takes the message that its author has written already."""
    patched.edit("salt/two.py", 20, "mine")
    patched.repository.git.run("commit", "--quiet", "-a", "-m", "Say mine\n\nNobody said it.")
    assert patched.run("check").code == 1
    assert patched.run("save", "--new", "third").code == 0
    third = read_series(patched.layout).get("third")
    assert (third.subject, third.reason) == ("Say mine", "Nobody said it.")
    assert third.values("Remove-When") == ("upstream merges it",)


def test_saved_and_never_committed_is_kept(patched: Project) -> None:
    """What was saved and then taken back with git is in build/discarded when the tree goes without it."""
    patched.edit("salt/one.py", 20, "mine")
    assert patched.run("save").code == 0
    saved = patched.layout.patch("first").read_bytes()
    patched.git("restore", "patches")
    ended = patched.run("apply")
    assert ended.code == 0
    (copy,) = patched.layout.discarded.iterdir()
    assert copy.read_bytes() == saved
    assert str(copy) in ended.out
    assert "mine" not in patched.read("salt/one.py")


def test_what_git_has_is_not_kept_again(patched: Project) -> None:
    """A patch that was committed, staged or stashed needs no copy."""
    patched.edit("salt/one.py", 20, "mine")
    assert patched.run("save").code == 0
    patched.git("stash")
    assert patched.run("apply").code == 0
    assert not patched.layout.discarded.exists()


def test_damaged_download_is_not_unpacked(project: Project) -> None:
    """A cached archive with another hash is downloaded again; when that fails the reason is pip's."""
    path = project.layout.sdists / "salt-1.0.tar.gz"
    path.write_bytes(path.read_bytes() + b"x")
    project.layout.python.parent.mkdir(parents=True)
    project.layout.python.write_text("#!/bin/sh\necho 'ERROR: no index today' >&2\nexit 1\n")
    project.layout.python.chmod(0o755)
    ended = project.run("apply")
    assert ended.code == 5
    assert "in 3 attempts: ERROR: no index today" in ended.err


def test_failed_download_is_repeated(project: Project, tmp_path: Path) -> None:
    """An index that fails twice and then answers is good enough."""
    path = project.layout.sdists / "salt-1.0.tar.gz"
    saved = path.rename(tmp_path / path.name)
    project.layout.python.parent.mkdir(parents=True)
    project.layout.python.write_text(
        f"""#!/bin/sh
echo >> {tmp_path}/tries
[ $(wc -l < {tmp_path}/tries) -lt 3 ] && exit 1
while [ $# -gt 0 ]; do [ "$1" = --dest ] && cp {saved} "$2"; shift; done
"""
    )
    project.layout.python.chmod(0o755)
    assert project.run("apply").code == 0


@pytest.mark.parametrize("text", ["", "salt==1.0\n", "salt==1.0 --hash=sha256:12\n"])
def test_pin_must_be_whole(project: Project, text: str) -> None:
    """A pin without a full hash is refused with an example."""
    project.layout.pin.write_text(text)
    ended = project.run("apply")
    assert ended.code == 2
    assert "--hash=sha256:" in ended.err


def test_second_command_waits_for_the_first(project: Project) -> None:
    """While another process holds the lock a command waits, and gives up with a sentence at its deadline."""
    project.layout.build.mkdir(exist_ok=True)
    times = iter([0.0, 1.0, 3.0])
    pauses: list[float] = []
    with (project.layout.build / "patches.state").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with (
            pytest.raises(BusyError, match="let it end"),
            locked(project.layout, patience=2.0, clock=lambda: next(times), pause=pauses.append),
        ):
            pass
    assert len(pauses) == 1


def test_wheels_do_not_wait_for_the_tree(project: Project) -> None:
    """What builds extensions leaves the tree alone, so a check of it that takes minutes does not stop it."""
    project.layout.build.mkdir(exist_ok=True)
    with (project.layout.build / "patches.state").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        ended = project.run("wheels")
    assert ended.code != 7
    assert "another patches command" not in ended.err.lower()


def test_tests_of_topics_leave_the_tree_to_others(project: Project) -> None:
    """A command does not wait for tests that take minutes, and lets their work trees be until they have ended."""
    assert project.run("apply").code == 0
    work = project.layout.build / ".proof.1"
    work.mkdir()
    with (project.layout.build / "proofs.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert project.run("check").code == 0
        assert work.exists()
    assert project.run("check").code == 0
    assert not work.exists()


def test_old_git_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that lacks what we need is named with the version that is needed."""
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.20.1\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    require_git.cache_clear()
    with pytest.raises(ToolError, match=".".join(map(str, OLDEST))):
        require_git()
    require_git.cache_clear()


def test_quiet_apply_says_only_what_changed(project: Project) -> None:
    """Other commands apply first: what they print must stay theirs when there is nothing to do."""
    assert "made" in project.run("apply", "--quiet").out
    assert project.run("apply", "--quiet").out == ""
    project.edit("salt/one.py", 5, "edited")
    ended = project.run("apply", "--quiet", "--keep-edits")
    assert ended.out == "edits kept, not saved to patches/: salt/one.py\n"
