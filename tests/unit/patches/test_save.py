"""`save` and `check`: edits become patches, and everything that is wrong is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches.series import read_series
from tests.unit.patches.conftest import LINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.patches.conftest import Project


def patch_bytes(project: Project) -> dict[str, bytes]:
    """Read all patches."""
    return {path.stem: path.read_bytes() for path in project.layout.patches.glob("*.patch")}


def rules(project: Project) -> set[tuple[str, str]]:
    """Run `check` and give each finding's rule and subject."""
    ended = project.run("check", "--json")
    assert ended.code == (1 if ended.data["findings"] else 0)
    return {(one["rule"], one["subject"]) for one in ended.data["findings"]}


def test_apply_then_save_writes_nothing(patched: Project, clone: Callable[[], Project]) -> None:
    """What a fresh tree exports is byte for byte what it was made from."""
    other = clone()
    assert other.run("apply").code == 0
    assert other.run("save").out == "nothing to save\n"
    assert patch_bytes(other) == patch_bytes(patched)
    assert other.git("status", "--porcelain") == ""


def test_patch_holds_no_noise(patched: Project) -> None:
    """No commit id, no version of git, no abbreviated blob ids: nothing that differs between machines."""
    text = patched.layout.patch("first").read_text()
    assert text.startswith(f"From {'0' * 40} ")
    assert text.splitlines()[1] == "From: Saltbed contributors <contributors@saltbed.invalid>"
    assert "-- \n" not in text
    assert len(text.split("\nindex ")[1].split("..")[0]) == 40


@pytest.mark.parametrize("user", ["Bob <bob@one.dev>", "root <root@localhost>", None])
def test_whoever_saves_makes_the_same_patches(patched: Project, user: str | None) -> None:
    """The user's git configuration, or that there is none, leaves no trace in a stored patch."""
    name, _, address = (user or "").rstrip(">").partition(" <")
    Path(os.environ["HOME"], ".gitconfig").write_text(f"[user]\n\tname = {name}\n\temail = {address}\n" if user else "")
    before = patch_bytes(patched)
    patched.edit("salt/one.py", 20, "more")
    patched.topic("third", two="changed by third")
    written = patch_bytes(patched)
    assert {one.author for one in read_series(patched.layout)} == {
        "Saltbed contributors <contributors@saltbed.invalid>"
    }
    assert written["second"] == before["second"]
    # nothing of the user is in the bytes, so the tree made of them has the same ids everywhere
    assert not [topic for topic, data in written.items() for word in (b"Bob", b"root", b"Ada") if word in data]


def test_foreign_author_is_found_and_saved_away(patched: Project) -> None:
    """A patch that came with another author is named by `check`, also a folded one; `save` makes it neutral."""
    before, path = patch_bytes(patched), patched.layout.patch("first")
    neutral = "From: Saltbed contributors <contributors@saltbed.invalid>\n"
    assert neutral in path.read_text()
    path.write_text(path.read_text().replace(neutral, "From: Seed 12 maintainers\n <noreply@seed.example>\n", 1))
    assert patched.run("apply").code == 0
    assert rules(patched) == {("author", "first")}
    assert patched.run("save").code == 0
    assert patch_bytes(patched) == before
    assert rules(patched) == set()


def test_edit_goes_to_the_topic_that_changes_the_file(patched: Project) -> None:
    """With two topics an edit finds its own, and only that patch changes."""
    before = patch_bytes(patched)
    patched.edit("salt/one.py", 20, "more")
    ended = patched.run("save", "--json")
    assert ended.data["edits"] == {"first": ["salt/one.py"]}
    after = patch_bytes(patched)
    assert (b"+more\n" in after["first"], after["second"]) == (True, before["second"])


def test_saved_edit_survives_a_fresh_clone(patched: Project, clone: Callable[[], Project]) -> None:
    """After a save the tree's ids are what a clone makes of the patches."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save").code == 0
    patched.git("commit", "--quiet", "-a", "-m", "more")
    assert clone().ids() == patched.ids()


def test_saved_tree_is_left_alone(patched: Project) -> None:
    """Saving does not rewrite the file that was edited."""
    patched.edit("salt/one.py", 20, "more")
    stamp = (patched.layout.salt / "salt/one.py").stat().st_mtime_ns
    patched.run("save")
    assert (patched.layout.salt / "salt/one.py").stat().st_mtime_ns == stamp
    assert patched.run("apply", "--json").data["changed"] is False


def test_unclear_edit_is_asked_about(patched: Project) -> None:
    """A file that no topic changes yet needs --topic, and nothing is written before that."""
    before = patch_bytes(patched)
    patched.write("salt/__init__.py", "new = True\n")
    ended = patched.run("save")
    assert ended.code == 2
    assert "salt/__init__.py" in ended.err
    assert "--topic" in ended.err
    assert patch_bytes(patched) == before


def test_topic_can_be_named(patched: Project) -> None:
    """--topic decides, for the named files only."""
    patched.write("salt/__init__.py", "new = True\n")
    patched.edit("salt/two.py", 20, "more")
    ended = patched.run("save", "--json", "--topic", "first", "salt/salt/__init__.py")
    assert ended.data["edits"] == {"first": ["salt/__init__.py"], "second": ["salt/two.py"]}


def test_unknown_topic_is_refused(patched: Project) -> None:
    """A name that is not in the series is told with those that are."""
    patched.edit("salt/one.py", 20, "more")
    ended = patched.run("save", "--topic", "frist")
    assert ended.code == 2
    assert "first, second" in ended.err


@pytest.mark.parametrize("name", ["First", "a b", "../x", "first"])
def test_bad_name_of_a_new_topic_is_refused(patched: Project, name: str) -> None:
    """A new topic's name must make a file's name, and be new."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save", "--new", name).code == 2


def test_edit_on_top_of_a_later_topic_is_moved_below_it(patched: Project) -> None:
    """An edit of the first topic's lines goes below a later topic that changes the same file."""
    patched.edit("salt/one.py", 30, "third")
    assert patched.run("save", "--new", "third").code == 0
    patched.edit("salt/one.py", 6, "more of first")
    ended = patched.run("save")
    assert ended.code == 2
    assert "first, third" in ended.err
    assert patched.run("save", "--topic", "first").code == 0
    assert b"+more of first" in patched.layout.patch("first").read_bytes()
    assert b"more of first" not in patched.layout.patch("third").read_bytes().replace(b" more of first", b"")
    assert not {one for one in rules(patched) if one[0] == "drift"}


def test_edit_that_a_later_topic_overwrites_is_refused(patched: Project) -> None:
    """When a later topic changes the same lines nothing is written and nothing lost."""
    patched.edit("salt/one.py", 5, "third")
    assert patched.run("save", "--new", "third").code == 0
    before = patch_bytes(patched)
    patched.edit("salt/one.py", 5, "more of first")
    assert patched.run("save", "--topic", "first").code == 4
    assert patch_bytes(patched) == before
    assert patched.read("salt/one.py").splitlines()[5] == "more of first"


def test_topic_may_have_new_files_only(made: Project, clone: Callable[[], Project]) -> None:
    """A topic that changes nothing of upstream's is a patch with a message alone."""
    made.topic("alone")
    assert made.run("check").code == 0
    made.git("add", ".")
    made.git("commit", "--quiet", "-m", "alone")
    assert clone().ids() == made.ids()


def test_deleted_upstream_file_is_a_change(patched: Project, clone: Callable[[], Project]) -> None:
    """A topic may take a file of upstream's away."""
    (patched.layout.salt / "doc/crlf.txt").unlink()
    assert patched.run("save", "--topic", "first").code == 0
    patched.git("commit", "--quiet", "-a", "-m", "less")
    other = clone()
    assert other.ids() == patched.ids()
    assert not (other.layout.salt / "doc/crlf.txt").exists()


def test_line_ends_and_modes_are_kept(patched: Project, clone: Callable[[], Project]) -> None:
    """CR LF, a file without a last line end, an odd name, and an executable bit survive the round trip."""
    patched.write("doc/crlf.txt", "a\r\nb changed\r\nlast")
    patched.write("doc/we*ird [x].txt", "odder\n")
    patched.write("doc/питон.txt", "змея\n")
    (patched.layout.salt / "salt/two.py").chmod(0o755)
    assert patched.run("save", "--topic", "first").code == 0
    patched.git("commit", "--quiet", "-a", "-m", "odd")
    other = clone()
    assert other.ids() == patched.ids()
    assert other.read("doc/crlf.txt") == "a\r\nb changed\r\nlast"
    # what others may do is the umask's
    assert (other.layout.salt / "salt/two.py").stat().st_mode & 0o111


def test_new_file_is_claimed_by_its_topic(patched: Project) -> None:
    """A new file joins the trailers of the topic that it was saved to."""
    patched.write("salt/ours.py", "")
    assert patched.run("save", "--topic", "second").code == 0
    assert "salt/ours.py" in read_series(patched.layout).get("second").files


@pytest.mark.parametrize("topics", [0, 1, 2])
def test_new_file_of_no_topic_is_asked_about(made: Project, topics: int) -> None:
    """Not even the only topic takes a file that nobody gave it; the error names both ways out."""
    for name in ("first", "second")[:topics]:
        made.topic(name)
    before = patch_bytes(made)
    made.write("salt/ours.py", "")
    ended = made.run("save")
    assert ended.code == 2
    for word in ("salt/ours.py", "--topic", "--new"):
        assert word in ended.err
    assert patch_bytes(made) == before


def test_named_new_file_moves_from_its_topic(patched: Project) -> None:
    """A new file that is named with --topic leaves the trailers of the topic that had it."""
    name, kept = read_series(patched.layout).get("first").files
    ended = patched.run("save", "--json", "--topic", "second", name)
    assert ended.data["new_files"] == {"second": [name]}
    series = read_series(patched.layout)
    assert series.get("first").files == (kept,)
    assert name in series.get("second").files


def test_new_topic_may_start_with_a_moved_file(patched: Project) -> None:
    """--new takes a named file from its topic as well."""
    name = read_series(patched.layout).get("first").files[0]
    assert patched.run("save", "--new", "third", name).code == 0
    assert read_series(patched.layout).get("third").files == (name,)
    assert name not in read_series(patched.layout).get("first").files


def test_new_files_that_are_not_named_are_left(patched: Project) -> None:
    """With named files the others stay without a topic, and save says so."""
    patched.write("salt/ours.py", "")
    patched.write("salt/theirs.py", "")
    ended = patched.run("save", "--topic", "second", "salt/ours.py")
    assert ended.code == 0
    assert "left: new file salt/theirs.py belongs to no topic yet" in ended.out
    assert "salt/theirs.py" not in read_series(patched.layout).files


def test_file_without_an_edit_is_refused(patched: Project) -> None:
    """Naming a file of upstream's that nobody edited is a mistake, not a save of nothing."""
    ended = patched.run("save", "--topic", "first", "salt/two.py")
    assert ended.code == 2
    assert "salt/two.py is neither an edited nor a new file" in ended.err


def test_new_topic_without_an_edit_is_refused(patched: Project) -> None:
    """A topic that would change nothing is not started."""
    before = patch_bytes(patched)
    ended = patched.run("save", "--new", "third")
    assert ended.code == 2
    assert "nothing to save to 'third'" in ended.err
    assert patch_bytes(patched) == before


def test_message_that_cannot_be_read_is_told(patched: Project, tmp_path: Path) -> None:
    """A message file that is missing, a folder, or no text is one sentence."""
    patched.edit("salt/one.py", 20, "more")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "no-such-file", tmp_path, tmp_path / "binary"):
        ended = patched.run("save", "--new", "third", "--message", str(path))
        assert ended.code == 2
        assert f"The message file {path} cannot be read" in ended.err


@pytest.mark.parametrize(("requires", "code"), [("none", 2), ("first, fourth", 2), ("first, second", 0)])
def test_message_requires_topics(patched: Project, tmp_path: Path, requires: str, code: int) -> None:
    """A new topic that requires what is no topic is refused before anything is written, and can be saved otherwise."""
    patched.edit("salt/one.py", 20, "more")
    path = tmp_path / "message.txt"
    path.write_text(
        f"Subject\n\nWhy.\n\nUpstream-PR: none yet\nRequires: {requires}\nRemove-When: upstream merges it\n"
    )
    ended = patched.run("save", "--new", "third", "--message", str(path))
    assert ended.code == code
    wrong = requires.rpartition(", ")[2]
    assert (f"requires '{wrong}', which is no topic of patches/series" in ended.err) == (code == 2)
    assert (patched.root / "patches" / "third.patch").exists() == (code == 0)


@pytest.mark.parametrize("text", ["", "Subject\n\nWhy.\n", "Upstream-PR: none yet\n"])
def test_message_without_trailers_is_named(patched: Project, tmp_path: Path, text: str) -> None:
    """What lacks the trailers is the message file; there is no patch file yet."""
    patched.edit("salt/one.py", 20, "more")
    path = tmp_path / "message.txt"
    path.write_text(text)
    ended = patched.run("save", "--new", "third", "--message", str(path))
    assert ended.code == 2
    assert f"The message file {path} does not end with trailers" in ended.err


def test_deleted_new_file_leaves_the_trailers(patched: Project) -> None:
    """A new file that is gone is no longer listed after a save."""
    name = read_series(patched.layout).get("first").files[0]
    (patched.layout.salt / name).unlink()
    assert ("tracked", name) in rules(patched)
    assert patched.run("save").code == 0
    assert name not in read_series(patched.layout).get("first").files


def test_message_edited_by_hand_is_taken(patched: Project) -> None:
    """The message is edited in the patch file; apply takes it, and keeps the tree."""
    path = patched.layout.patch("first")
    tree = patched.ids()[1]
    path.write_text(path.read_text().replace("Because.", "For a better reason."))
    assert patched.ids()[1] == tree
    assert patched.run("check").code == 0


def test_save_over_changed_patches_is_refused(patched: Project) -> None:
    """Patches that changed on disk are not overwritten by an export of the old tree."""
    path = patched.layout.patch("first")
    path.write_text(path.read_text().replace("Because.", "For a better reason."))
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save").code == 2
    assert "For a better reason." in path.read_text()


def test_save_without_a_tree_is_refused(project: Project) -> None:
    """Without a tree save says to make it."""
    assert "nox -s apply" in project.run("save").err


def test_good_patch_set_has_no_findings(patched: Project) -> None:
    """Two complete topics are in order."""
    assert rules(patched) == set()


def test_unsaved_edit_is_drift(patched: Project) -> None:
    """The tree says more than the patches."""
    patched.edit("salt/one.py", 20, "more")
    assert rules(patched) == {("drift", "salt/one.py")}


def test_changed_patch_is_drift(patched: Project) -> None:
    """The patches say something else than the tree."""
    path = patched.layout.patch("first")
    path.write_text(path.read_text().replace("Because.", "For a better reason."))
    assert ("drift", "patches") in rules(patched)


def test_unlike_git_is_drift(patched: Project) -> None:
    """A patch that git would write otherwise is found after apply, and save mends it."""
    path = patched.layout.patch("first")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"@@ -3,7 +3,7 @@ line 1", b"@@ -3,7 +3,7 @@"))
    assert path.read_bytes() != whole
    assert patched.run("apply").code == 0
    assert rules(patched) == {("drift", "first")}
    assert patched.run("save").code == 0
    assert path.read_bytes() == whole


def test_tracked_upstream_file_is_found(patched: Project) -> None:
    """The hard rule: a file of upstream's that the project's git tracks is a finding."""
    patched.git("add", "--force", "salt/salt/one.py")
    assert rules(patched) == {("tracked", "salt/one.py")}


def test_tracked_ignore_file_is_found(patched: Project) -> None:
    """The generated ignore file is no file of ours either."""
    patched.git("add", "--force", "salt/.gitignore")
    assert rules(patched) == {("tracked", ".gitignore")}


def test_unclaimed_file_is_found_though_ignored(patched: Project) -> None:
    """A new file that upstream's own ignore file hides from git status is found."""
    patched.write("pkg/macos/new_tool.py", "")
    assert patched.git("status", "--porcelain") == ""
    assert rules(patched) == {("tracked", "pkg/macos/new_tool.py")}


def test_droppings_are_no_findings(patched: Project) -> None:
    """What Python and setuptools leave in the tree is nobody's file."""
    patched.write("salt/__pycache__/one.cpython-311.pyc", "")
    patched.write("salt.egg-info/SOURCES.txt", "")
    patched.write("build/lib/salt/one.py", "")
    assert rules(patched) == set()


@pytest.mark.slow
def test_file_of_two_topics_is_found(patched: Project) -> None:
    """A new file belongs to one topic."""
    name = read_series(patched.layout).get("first").files[0]
    path = patched.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", f"Remove-When: merged\nFiles: {name}\n"))
    patched.run("apply")
    assert ("tracked", name) in rules(patched)


@pytest.mark.slow
def test_patch_that_needs_another_is_found(patched: Project) -> None:
    """A topic on top of another's lines applies only with a Requires trailer, which save proposes."""
    patched.topic("third", one="third again")
    assert read_series(patched.layout).get("third").requires == ("first",)
    assert rules(patched) == set()
    path = patched.layout.patch("third")
    path.write_text(path.read_text().replace("Requires: first\n", ""))
    assert patched.run("apply").code == 0
    assert rules(patched) == {("alone", "third")}


@pytest.mark.slow
def test_what_a_new_topic_needs_is_proposed(patched: Project) -> None:
    """Topics whose lines a new one changes are named and written into its trailers, and no others."""
    patched.edit("salt/one.py", 6, "beside first")
    patched.edit("salt/two.py", 30, "far from second")
    ended = patched.run("save", "--new", "third")
    assert "added to the message: 'Requires: first'" in ended.out
    third = read_series(patched.layout).get("third")
    assert third.trailers[:2] == (("Upstream-PR", "none yet"), ("Requires", "first"))
    patched.edit("salt/two.py", 5, "on second")
    patched.edit("salt/one.py", 7, "beside third")
    assert "'Requires: second, third'" in patched.run("save", "--new", "fourth").out
    # the third one brings the first one along, and its own lines are far away
    patched.edit("salt/one.py", 4, "on the other side of first")
    assert "'Requires: first'" in patched.run("save", "--new", "fifth").out
    assert {rule for rule, _ in rules(patched)} == {"message", "parts"}


@pytest.mark.slow
def test_topic_that_stands_alone_needs_nothing(patched: Project) -> None:
    """Far from all other topics' lines nothing is proposed."""
    patched.edit("salt/one.py", 30, "far away")
    assert "Requires" not in patched.run("save", "--new", "third").out
    assert read_series(patched.layout).get("third").requires == ()


@pytest.mark.slow
def test_required_topic_must_come_earlier(patched: Project) -> None:
    """A Requires that names a later or unknown topic is a finding."""
    path = patched.layout.patch("first")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: second\nRemove-When: merged\n"))
    assert patched.run("apply").code == 0
    assert rules(patched) == {("message", "first")}


@pytest.mark.slow
@pytest.mark.parametrize("trailer", ["Upstream-PR: none yet", "Remove-When: merged"])
def test_missing_trailer_is_found(patched: Project, trailer: str) -> None:
    """A patch without one of the trailers that all have is not complete."""
    path = patched.layout.patch("first")
    path.write_text(path.read_text().replace(f"{trailer}\n", ""))
    assert patched.run("apply").code == 0
    assert rules(patched) == {("message", "first")}


@pytest.mark.slow
def test_template_message_is_found(patched: Project) -> None:
    """A new topic whose message nobody wrote is a finding, and so are its missing parts."""
    patched.edit("salt/one.py", 20, "more")
    saved = patched.run("save", "--new", "third")
    assert saved.code == 0
    assert "write its message: the head of patches/third.patch" in saved.out
    assert rules(patched) == {("message", "third"), ("parts", "third")}


def test_empty_topic_is_found(patched: Project) -> None:
    """A topic that changes nothing and brings nothing is a finding."""
    path = patched.layout.patch("first")
    lines = path.read_text().partition("\n---\n")[0].splitlines()
    path.write_text("".join(f"{line}\n" for line in lines if not line.startswith("Files: ")))
    assert patched.run("apply").code == 0
    assert ("parts", "first") in rules(patched)


def test_one_finding_is_told_in_the_singular(patched: Project) -> None:
    """The count agrees with its noun."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("check").out.endswith("\n1 finding\n")


def test_patch_that_adds_a_file_is_refused(patched: Project) -> None:
    """New files belong into salt/ itself, not into a patch."""
    path = patched.layout.patch("first")
    added = "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n"
    path.write_text(path.read_text() + added)
    ended = patched.run("apply")
    assert ended.code == 4
    assert "new.txt" in ended.err


def test_unlisted_patch_is_refused(patched: Project) -> None:
    """A patch file that the series does not list is not silently left out."""
    patched.layout.patch("stray").write_bytes(b"")
    assert "add 'stray' to patches/series" in patched.run("check").err


def test_status_tells_what_there_is(patched: Project) -> None:
    """Status names base, topics and edits, and changes nothing."""
    patched.edit("salt/one.py", 20, "more")
    data = patched.run("status", "--json").data
    assert data["base"]["version"] == "1.0"
    assert [one["topic"] for one in data["topics"]] == ["first", "second"]
    assert data["edits"] == ["salt/one.py"]
    assert data["tree"] == "made, with unsaved edits"


def test_status_lists_files_of_ours(patched: Project) -> None:
    """New files of no topic, missing ones, and those that differ from the last commit are told."""
    gone, kept = read_series(patched.layout).get("first").files
    patched.write("salt/ours.py", "")
    patched.write(kept, "changed\n")
    (patched.layout.salt / gone).unlink()
    data = patched.run("status", "--json").data
    assert data["new_files"] == ["salt/ours.py"]
    assert data["missing_files"] == [gone]
    assert data["changed_files"] == [kept]
    lines = patched.run("status").out.splitlines()
    assert "new, of no topic yet: salt/ours.py" in lines
    assert f"of a topic, but missing: {gone}" in lines
    assert f"of a topic, not as last committed: {kept}" in lines


def test_status_works_without_a_tree(project: Project) -> None:
    """Before the first apply status says how to make the tree."""
    assert project.run("status", "--json").data["tree"] == "not made: run 'nox -s apply'"


@pytest.mark.parametrize("where", ["upstream", "new"])
def test_what_is_new_is_new_in_the_next_feature_release(patched: Project, where: str) -> None:
    """Another release than the next one is a finding, whether upstream's file says it or ours."""
    said = "# .. versionadded:: 1.1"
    if where == "new":
        patched.write("salt/new.py", f"{said}\n")
        assert patched.run("save", "--topic", "first", "salt/new.py").code == 0
    else:
        patched.edit("salt/one.py", 20, said)
        assert patched.run("save").code == 0
    assert rules(patched) == {("versions", f"first salt/{'new' if where == 'new' else 'one'}.py")}
    if where == "upstream":
        patched.edit("salt/one.py", 20, "# .. versionchanged:: 2.0")
        assert patched.run("save").code == 0
        assert rules(patched) == set()


def test_topic_is_dropped_by_hand(patched: Project) -> None:
    """Without its patch, its line and its files, the later patches are applied, and saved with their new places."""
    patched.edit("salt/one.py", 30, "far away")
    assert patched.run("save", "--new", "third").code == 0
    layout = patched.layout
    for name in read_series(layout).get("first").files:
        (layout.salt / name).unlink()
    layout.patch("first").unlink()
    layout.series.write_text(layout.series.read_text().replace("first\n", ""))
    assert patched.run("apply").code == 0
    assert patched.read("salt/one.py") == LINES.replace("line 30\n", "far away\n")
    assert patched.run("save").out == "written: patches/third.patch\n"
    assert {rule for rule, _ in rules(patched)} & {"drift", "tracked", "alone"} == set()
