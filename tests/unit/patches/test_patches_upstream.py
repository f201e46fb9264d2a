"""`submit`, `bump` and `suite`: the way to upstream and back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches import suite
from patches.base import read_base
from patches.git import Git
from patches.layout import Layout
from patches.patch import Patch
from patches.repository import Repository
from patches.series import Series, read_series

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project

NEWER = {"salt/one.py": "line -1\n" + "".join(f"line {number}\n" for number in range(40)), "salt/new.py": "new\n"}
CLASHING = {"salt/one.py": "".join(f"their line {number}\n" for number in range(40))}


def snapshot(project: Project) -> dict[str, bytes]:
    """Read the committed patches and the tree."""
    files = [*project.layout.patches.iterdir(), *(path for path in project.layout.salt.rglob("*") if path.is_file())]
    return {str(path): path.read_bytes() for path in files}


def test_mails_make_the_same_tree(patched: Project, tmp_path: Path) -> None:
    """The mails of all topics, applied by git to the unpacked release, give the tree that apply names."""
    ended = patched.run("submit", "first", "second", "--json", "--output", str(tmp_path / "mails"))
    assert ended.code == 0
    pristine = tmp_path / "pristine"
    subprocess.run(["cp", "-r", str(patched.layout.stock), str(pristine)], check=True)
    subprocess.run(["rm", "-r", str(pristine / "salt.egg-info")], check=True)
    git = Git(pristine / ".git", pristine)
    git.run("init", "--quiet", "--template=")
    git.run("add", "--force", ".")
    git.run("commit", "--quiet", "-m", "pristine")
    for topic in ended.data["submissions"]:
        git.run("am", "--quiet", *topic["mails"])
    assert git.text("rev-parse", "HEAD^{tree}") == patched.ids()[1]


def test_mail_has_no_trailers_of_ours(patched: Project) -> None:
    """What upstream reads is the reason, not our bookkeeping."""
    mail = Path(patched.run("submit", "first", "--json").data["submissions"][0]["mails"][0]).read_text()
    assert "Subject: [PATCH] Change first" in mail
    assert "Because." in mail
    assert not [line for line in mail.splitlines() if line.startswith(("Files:", "Remove-When:", "Upstream-PR:"))]


def test_mail_holds_the_new_files(patched: Project) -> None:
    """New files come with the changes, in one mail."""
    mail = Path(patched.run("submit", "first", "--json").data["submissions"][0]["mails"][0]).read_text()
    for name in (*read_series(patched.layout).get("first").files, "salt/one.py"):
        assert f"+++ b/{name}" in mail


def test_required_topics_come_first(patched: Project) -> None:
    """A topic is sent after what it requires, and without what it does not."""
    path = patched.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: first\nRemove-When: merged\n"))
    patched.run("apply")
    mails = patched.run("submit", "second", "--json").data["submissions"][0]["mails"]
    assert [Path(mail).name for mail in mails] == ["0001-Change-first.patch", "0002-Change-second.patch"]


def test_unsaved_edits_are_not_sent(patched: Project) -> None:
    """With unsaved edits submit refuses: the mails would lack them."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("submit", "first").code == 3


def test_missing_new_file_is_not_sent_without(patched: Project) -> None:
    """A topic whose file is gone is not sent without it."""
    (patched.layout.salt / read_series(patched.layout).get("first").files[0]).unlink()
    assert patched.run("submit", "first").code == 2


def empty(project: Project, topic: str) -> None:
    """Take away all that a topic changes and brings."""
    path = project.layout.patch(topic)
    lines = path.read_text().partition("\n---\n")[0].splitlines()
    path.write_text("".join(f"{line}\n" for line in lines if not line.startswith("Files: ")))
    assert project.run("apply", "--discard").code == 0


def test_empty_topic_is_not_sent(patched: Project) -> None:
    """Submit says that the topic changes nothing, not that git could not apply its mail."""
    empty(patched, "first")
    ended = patched.run("submit", "first")
    assert ended.code == 2
    assert "The topic 'first' changes nothing" in ended.err


def test_what_upstream_will_miss_is_a_warning(patched: Project) -> None:
    """Mails without changelog entry, test or trailers are written, but not silently."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save", "--new", "third").code == 0
    ended = patched.run("submit", "third", "--json")
    assert ended.code == 0
    for text in ("third has no changelog entry", "third has no test", "third still has the message of the template"):
        assert f" {text}" in ended.err
        assert [one for one in ended.data["submissions"][0]["warnings"] if text in one]


def test_complete_topic_is_sent_without_warning(patched: Project) -> None:
    """A topic that has everything is sent quietly, whatever another one lacks."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save", "--new", "third").code == 0
    assert patched.run("submit", "first").err == ""


def test_unknown_topic_is_not_sent(patched: Project) -> None:
    """A name that is not in the series is refused."""
    assert patched.run("submit", "nosuch").code == 2


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
    assert "'Change first' conflicts with Salt 1.1 in salt/one.py" in ended.err
    assert "--keep-conflict" in ended.err
    assert snapshot(patched) == before
    assert not patched.layout.bump.exists()


def test_conflict_can_be_resolved(patched: Project) -> None:
    """A kept conflict is edited in build/bump and continued."""
    patched.release("1.1", CLASHING)
    assert patched.run("bump", "1.1", "--keep-conflict").code == 4
    assert "conflict marker" in patched.run("bump", "--continue").err
    path = patched.layout.bump / "salt/one.py"
    path.write_text(CLASHING["salt/one.py"].replace("their line 5\n", "changed by first\n"))
    assert patched.run("bump", "--continue").code == 0
    assert patched.read("salt/one.py") == CLASHING["salt/one.py"].replace("their line 5\n", "changed by first\n")
    assert patched.run("check").code == 0
    assert not patched.layout.bump.exists()


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


def test_closure_is_in_the_order_of_the_series() -> None:
    """A topic comes after all that it requires, directly or not, whatever order its trailer has."""

    def patch(topic: str, requires: str) -> Patch:
        trailer = f"Requires: {requires}\n" if requires else ""
        return Patch(topic, f"From x\nSubject: s\n\nWhy.\n\nUpstream-PR: none\n{trailer}".encode())

    series = Series((patch("a", ""), patch("b", ""), patch("c", "a"), patch("d", "c, a")))
    assert [one.topic for one in series.closure("d")] == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("salt/pillar/sql_base.py", "tests/pytests/unit/pillar/test_sql_base.py"),
        ("salt/pillar/sql_base.py", "tests/pytests/functional/pillar/sql_base"),
        ("salt/master.py", "tests/pytests/unit/test_master.py"),
    ],
)
def test_tests_of_a_module_are_where_upstream_has_them(name: str, expected: str) -> None:
    """A changed module's tests are found by upstream's naming."""
    assert expected in suite.tests_of(name)


def test_tests_below_a_listed_folder_run_once() -> None:
    """A file below a listed folder is not listed again."""
    listed = ("tests/a/test_one.py", "tests/a", "tests/b/test_two.py")
    assert suite.covering(listed) == ("tests/a", "tests/b/test_two.py")


# What the made-up release cannot show, on the real one
REAL = Layout(Path(__file__).resolve().parents[3])


@pytest.fixture
def real(tmp_path: Path, project: Project) -> Project:
    """Give a copy of this project's patches and new files, with its downloads at hand."""
    if not REAL.state.exists():
        pytest.skip("the tree was not made yet: run 'nox -s apply'")
    project = type(project)(tmp_path / "real")
    project.layout.build.mkdir(parents=True)
    project.layout.sdists.symlink_to(REAL.sdists)
    (project.layout.build / "venv").symlink_to(REAL.build / "venv")
    series = read_series(REAL)
    for path in (REAL.pin, REAL.series, *(REAL.patch(topic) for topic in series.topics)):
        project.layout.patches.mkdir(exist_ok=True)
        (project.layout.patches / path.name).write_bytes(path.read_bytes())
    for name in series.files:
        project.write(name, (REAL.salt / name).read_text())
    # the releases that were imported before need not be imported again
    project.repository.prepare()
    (project.layout.git_dir / "objects/info/alternates").write_text(f"{REAL.git_dir}/objects\n")
    for line in (
        Repository(REAL).git.text("for-each-ref", "--format=%(objectname) %(refname)", "refs/bases").splitlines()
    ):
        commit, ref = line.split()
        project.repository.git.run("update-ref", ref, commit)
    return project


def test_this_project_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """No drift, nothing of upstream tracked, each patch alone and complete: on this very checkout."""
    from patches.cli import main  # noqa: PLC0415 - beside its only use

    if not REAL.state.exists():
        pytest.skip("the tree was not made yet: run 'nox -s apply'")
    assert main(["check"]) == 0, capsys.readouterr().out


@pytest.mark.early
def test_real_patches_move_between_releases(real: Project) -> None:
    """From the pinned release to 3008.3 and back: clean, the same patches and the same tree."""
    base = read_base(real.layout)
    before = real.ids()
    patches = {path.name: path.read_bytes() for path in real.layout.patches.iterdir()}
    there = real.run("bump", "3008.3")
    assert there.code == 0, there.err
    assert real.run("check").code == 0
    back = real.run("bump", base.version)
    assert back.code == 0, back.err
    assert {path.name: path.read_bytes() for path in real.layout.patches.iterdir()} == patches
    assert real.ids() == before


@pytest.mark.early
def test_real_topics_are_sent_whole(real: Project) -> None:
    """Each topic's mails make, of the pristine release, the tree that they were made from."""
    real.ids()
    topics = read_series(real.layout).topics
    ended = real.run("submit", *topics, "--json")
    assert [one["topic"] for one in ended.data["submissions"]] == list(topics)
