"""`submit`: a branch that upstream takes, its text and its mails; and what is refused before upstream does."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from patches.git import Git
from patches.series import read_series
from patches.submit import Cover

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project


def sent(project: Project, *arguments: str) -> dict[str, Any]:
    """Submit, and give what is said of the last topic."""
    ended = project.run("submit", *arguments, "--json")
    assert ended.code == 0, ended.out
    found: dict[str, Any] = ended.data["submissions"][-1]
    return found


def commit(project: Project) -> None:
    """Commit all, and make the tree of it."""
    project.git("add", "--all")
    project.git("commit", "--quiet", "-m", "changed")
    assert project.run("apply").code == 0


def require(project: Project) -> None:
    """Let the topic `second` require `first`."""
    path = project.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: first\nRemove-When: merged\n"))
    commit(project)


def unnumber(project: Project, topic: str) -> None:
    """Take the number from a topic's changelog entry."""
    (entry,) = (name for name in read_series(project.layout).get(topic).files if name.startswith("changelog/"))
    path = project.layout.patch(topic)
    path.write_text(path.read_text().replace(entry, f"changelog/{topic}.added.md"))
    (project.layout.salt / entry).rename(project.layout.salt / f"changelog/{topic}.added.md")
    commit(project)


def test_branch_is_what_upstream_takes(patched: Project, tmp_path: Path) -> None:
    """One commit on the base, signed off, whole with its new files; a clone of the branch has nothing else."""
    made = sent(patched, "first")
    clone = tmp_path / "pr"
    command = ["git", "clone", "--quiet", "--branch", made["branch"], made["repository"], str(clone)]
    subprocess.run(command, check=True, capture_output=True)
    git = Git(clone / ".git", clone)
    assert git.text("rev-parse", "HEAD^") == made["base_commit"]
    assert git.text("log", "-1", "--format=%an <%ae>, %cn: %s") == "Ada <ada@analytical.engineer>, Ada: Change first"
    body = git.text("log", "-1", "--format=%b")
    assert body == "Because.\n\nSigned-off-by: Ada <ada@analytical.engineer>"
    changed = set(git.text("diff", "--name-only", "HEAD^", "HEAD").split())
    assert changed == {"salt/one.py", *read_series(patched.layout).get("first").files}


def test_same_branch_again_is_the_same_commit(patched: Project) -> None:
    """Nothing that changes from run to run is in a commit."""
    assert sent(patched, "first") == sent(patched, "first")


def test_text_of_the_pull_request(patched: Project) -> None:
    """Why, measurements, how to test and what it requires, each under a heading, lines not broken."""
    path = patched.layout.patch("second")
    why = "It is\nbroken:\n\n- one\n  thing\n- another\n\nMeasured with care:\n1 is now 2."
    path.write_text(path.read_text().replace("Because.", why))
    require(patched)
    text = Path(sent(patched, "second")["cover"]).read_text()
    assert text.startswith(
        "# Change second\n\n### What does this PR do?\n\nIt is broken:\n\n- one thing\n- another\n\n"
    )
    assert "### Measurements\n\nMeasured with care: 1 is now 2.\n" in text
    assert "python -m pytest \\\n    tests/pytests/unit/test_second.py" in text
    assert "begins with the commits of these" in text
    assert "- first: Change first\n" in text
    assert "- [ ] Docs\n- [x] Changelog\n- [x] Tests written/updated" in text
    assert "At least one test in each new file fails without this change" in text


def test_a_test_in_a_file_of_upstream(patched: Project) -> None:
    """A topic without a new test file claims nothing of one."""
    cover = Cover(read_series(patched.layout).get("first"), (), ["tests/pytests/unit/test_other.py"], "base", "branch")
    assert "At least one test fails without this change.\n" in cover.text
    assert "The other files" not in cover.text


def test_a_topic_that_is_kept_for_the_release_that_it_is_meant_for(patched: Project) -> None:
    """The text claims what was tried, and no more."""
    topic = read_series(patched.layout).get("first")
    page = {"Branch": "3006.x, the oldest."}
    text = Cover(topic, (), [], "Salt 3008.5", "branch", page=page, kept=("3006.30", "3007.17")).text
    assert (
        "The commits stand on Salt 3008.5.\n\nThe same change passes its tests on Salt 3006.30 and 3007.17.\n" in text
    )
    text = Cover(topic, (), [], "Salt 3008.5", "branch", page=page, kept=("3007.17",)).text
    assert "The commits stand on Salt 3008.5, and were not tried on 3006.x.\n" in text


def test_a_docstring_is_documentation(patched: Project) -> None:
    """A module that says what is new has its reference changed."""
    patched.edit("salt/one.py", 20, ".. versionadded:: 3009.0")
    assert patched.run("save").code == 0
    commit(patched)
    assert "- [x] Docs" in Path(sent(patched, "first")["cover"]).read_text()


def test_text_names_the_issue_and_no_other(patched: Project) -> None:
    """The number of a changelog entry is that of the issue."""
    unnumber(patched, "first")
    made = sent(patched, "first", "--number", "68123")
    git = patched.repository.git
    assert "changelog/68123.added.md" in git.text("ls-tree", "-r", "--name-only", made["commit"])
    assert "changelog/first" not in git.text("ls-tree", "-r", "--name-only", made["commit"])
    text = Path(made["cover"]).read_text()
    assert "### What issues does this PR fix or reference?\n\nFixes #68123\n" in text
    assert made["base_commit"] not in text, "a commit that only this checkout has"


def test_answers_of_the_page_are_the_first_comment(patched: Project) -> None:
    """What docs/upstream-texts.md says of a topic comes beside the text, and nothing of another one."""
    page = patched.layout.root / "docs" / "upstream-texts.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(
        "# Upstream\n\n### 1. `second`: No\n\n**Questions.** Other.\n\n### 2. `first`: Yes\n\n**Branch:** master.\n\n"
        "**Previous behaviour.** It was\nslow.\n\n**New behaviour.** It is fast.\n\n"
        "**Questions.** *Why?* So\nit is.\n\n*More?* No.\n\n## End\n\nNo.\n"
    )
    cover = Path(sent(patched, "first")["cover"])
    text, folder = cover.read_text(), cover.parent
    assert "\n### Previous Behavior\n\nIt was slow.\n\n### New Behavior\n\nIt is fast.\n" in text
    assert "Why?" not in text
    assert (folder / "first-comment.md").read_text() == "*Why?* So it is.\n\n*More?* No.\n"
    page.write_text("# Upstream\n")
    folder = Path(sent(patched, "first")["cover"]).parent
    assert not (folder / "first-comment.md").exists()


def test_text_says_how_to_see_it_and_which_branch_it_is_for(patched: Project) -> None:
    """The page says both; what is between fences stays as it is, and comments of ours go."""
    page = patched.layout.root / "docs" / "upstream-texts.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(
        "### 1. `first`: Yes\n\n**Branch:** 1.x, where the\nbug is.\n\n**How to see it.** Type\nthis:\n\n"
        "<!-- not run: no -->\n```text\none\n\ntwo\n```\n\nThen look.\n\n**Questions.** No.\n"
    )
    made = sent(patched, "first")
    text = Path(made["cover"]).read_text()
    assert "\n### How to see it\n\nType this:\n\n```text\none\n\ntwo\n```\n\nThen look.\n\n###" in text
    assert "\n### Target branch\n\n1.x, where the bug is.\n\n###" in text
    assert made["target"] == ""
    made = sent(patched, "second")
    text = Path(made["cover"]).read_text()
    assert "How to see it" not in text
    wanted = "master.\n\nThe commits stand on Salt 1.0, and were not tried on master.\n"
    assert f"\n### Target branch\n\n{wanted}" in text
    assert made["target"] == "master"
    assert "meant for master: '--clone DIR --onto origin/master'" in patched.run("submit", "second").out


def test_text_of_a_topic_that_mends_a_bug_of_the_zoo(patched: Project) -> None:
    """The releases that have the bug, and the check as a script without what it does not call."""
    root = patched.layout.root
    for name in ("harness/scenarios/zoo", "docs", "tests/zoo"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "harness/scenarios/zoo/7.toml").write_text('[bug]\ntitle = "it hangs"\ncounts = "x"\ntopic = "first"\n')
    (root / "harness/scenarios/zoo/8.toml").write_text('[bug]\ntitle = "other"\ncounts = "x"\n')
    (root / "docs/zoo.json").write_text(
        '{"7": {"patched": {"states": ["right"], "found": []}, "1.0": {"states": ["wrong"], "found": ["it hung"]}}}'
    )
    (root / "tests/zoo/checks.py").write_text(
        "import salt\n\nONE = 1\n\n\ndef _part():\n    return ONE\n"
        "\n\ndef bug_7():  # noqa: ARG001\n    return _part()\n"
        "\n\n@staticmethod\ndef bug_8():\n    return 0\n\n\ndef main(number):\n    globals()[number]()\n"
        "\n\nif salt:\n    main(7)\n"
    )
    text = Path(sent(patched, "first")["cover"]).read_text()
    assert (
        "\n### How to see it\n\n#7: it hangs.\n\n| Salt | what a check found |\n|---|---|\n| 1.0 | it hung |\n"
        "| with this change | nothing wrong |\n" in text
    )
    assert (
        "```python\nimport salt\n\nONE = 1\n\n\ndef _part():\n    return ONE\n\n\ndef bug_7():\n    return _part()\n"
        "\n\ndef main(number):\n    globals()[number]()\n\n\nif salt:\n    main(7)\n```" in text
    )
    assert "How to see it" not in Path(sent(patched, "second")["cover"]).read_text()


def test_number_that_nothing_takes_is_refused(patched: Project) -> None:
    """The entry has a number already, which stays."""
    ended = patched.run("submit", "first", "--number", "7")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "The changelog entries of first have their numbers" in ended.err


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (None, "The changelog entry of first has no number yet: open an issue or a pull request for it"),
        ("second=3", "The changelog entry of first has no number yet"),
        ("nine", "'nine' is no number of an issue"),
        ("0", "'0' is no number of an issue"),
    ],
)
def test_placeholder_number_is_refused(patched: Project, number: str | None, said: str) -> None:
    """A made-up number is a stranger's issue."""
    unnumber(patched, "first")
    ended = patched.run("submit", "first", *(["--number", number] if number else []))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err


def test_number_of_one_of_several(patched: Project) -> None:
    """A number without a topic is that of the only one."""
    unnumber(patched, "first")
    assert "Whose number is 7?" in patched.run("submit", "first", "second", "--number", "7").err
    assert patched.run("submit", "first", "second", "--number", "first=7").code == 0


@pytest.mark.parametrize("how", ["changed", "untracked", "patch"])
def test_what_is_not_committed_is_refused(patched: Project, how: str) -> None:
    """Nobody else could make that branch."""
    (name,) = (name for name in read_series(patched.layout).get("first").files if name.startswith("tests/"))
    if how == "changed":
        patched.write(name, "def test_it():\n    assert 2\n")
    elif how == "untracked":
        patched.git("rm", "--quiet", "--cached", f"salt/{name}")
    else:
        patched.edit("salt/one.py", 20, "more")
        assert patched.run("save").code == 0
        name = "patches/first.patch"
    ended = patched.run("submit", "first")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"Not committed in this checkout: {name if how == 'patch' else f'salt/{name}'}" in ended.err
    assert patched.run("submit", "second").code == 0


@pytest.mark.parametrize("message", ["template", "none"])
def test_missing_reason_is_refused(patched: Project, message: str) -> None:
    """A subject is no reason, and neither is the template."""
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save", "--new", "third").code == 0
    path = patched.layout.patch("third")
    if message == "none":
        text = path.read_text().replace("Say in one imperative line what changes", "Say more")
        path.write_text(text.replace("Say why, as a pull request does.\n\n", ""))
    commit(patched)
    ended = patched.run("submit", "third")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "The topic 'third' gives no reason" in ended.err


def test_mails_make_the_same_tree(patched: Project, tmp_path: Path) -> None:
    """The mails of all topics, applied by git to the unpacked release, give the tree that apply names."""
    ended = patched.run("submit", "first", "second", "--mails", "--json", "--output", str(tmp_path / "mails"))
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
    mail = Path(sent(patched, "first", "--mails")["mails"][0]).read_text()
    assert "Subject: [PATCH] Change first" in mail
    assert "Because." in mail
    assert not [line for line in mail.splitlines() if line.startswith(("Files:", "Remove-When:", "Upstream-PR:"))]


def test_mail_holds_the_new_files(patched: Project) -> None:
    """New files come with the changes, in one mail."""
    mail = Path(sent(patched, "first", "--mails")["mails"][0]).read_text()
    for name in (*read_series(patched.layout).get("first").files, "salt/one.py"):
        assert f"+++ b/{name}" in mail


def test_required_topics_come_first(patched: Project) -> None:
    """A topic is sent after what it requires, and without what it does not."""
    require(patched)
    mails = sent(patched, "second", "--mails")["mails"]
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


def test_what_upstream_will_miss_is_a_warning(patched: Project, tmp_path: Path) -> None:
    """A branch without changelog entry or test is made, but not silently."""
    patched.edit("salt/one.py", 20, "more")
    (tmp_path / "why").write_text("Say more\n\nBecause.\n\nUpstream-PR: none yet\n")
    assert patched.run("save", "--new", "third", "--message", str(tmp_path / "why")).code == 0
    commit(patched)
    ended = patched.run("submit", "third", "--json")
    assert ended.code == 0
    for text in ("third has no changelog entry", "third has no test", "third has no trailer 'Remove-When:'"):
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


def upstream_clone(project: Project, folder: Path) -> Git:
    """Make what stands for a clone of Salt's repository: a tag of the base, and a branch with another line."""
    folder.mkdir()
    git = Git(folder / ".git", folder)
    git.run("init", "--quiet", "--template=", "--initial-branch=master")
    for name in ("salt/__init__.py", "salt/one.py", "salt/two.py", "tests/pytests/unit/test_one.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((project.layout.stock / name).read_bytes())
    git.run("add", ".")
    git.run("commit", "--quiet", "-m", "release")
    git.run("tag", "v1.0")
    (folder / "salt/one.py").write_text("line -1\n" + (folder / "salt/one.py").read_text())
    git.run("commit", "--quiet", "-a", "-m", "later")
    return git


@pytest.mark.slow
@pytest.mark.parametrize("onto", ["v1.0", "master"])
def test_branch_in_a_clone(patched: Project, tmp_path: Path, onto: str) -> None:
    """Whoever has a clone of Salt gets the branch there, on the commit that he names, and his work stays."""
    git = upstream_clone(patched, tmp_path / "salt")
    arguments = ["--clone", str(tmp_path / "salt"), *(["--onto", onto] if onto != "v1.0" else [])]
    made = sent(patched, "first", *arguments)
    assert made["branch"] == "first"
    assert git.text("rev-parse", "first^") == git.text("rev-parse", onto) == made["base_commit"]
    assert git.text("log", "-1", "--format=%an, %cn", "first") == "Ada, Ada"
    assert made["target"] == ("" if onto == "master" else "master")
    assert "changed by first" in git.text("show", "first:salt/one.py")
    assert (git.text("status", "--porcelain"), git.text("symbolic-ref", "HEAD")) == ("", "refs/heads/master")
    assert f"on {onto} ({made['base_commit']})" in Path(made["cover"]).read_text()
    assert sent(patched, "first", *arguments) == made
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save").code == 0
    commit(patched)
    again = sent(patched, "first", *arguments)
    assert again["commit"] == git.text("rev-parse", "first") != made["commit"]


def test_branch_of_somebody_in_a_clone_stays(patched: Project, tmp_path: Path) -> None:
    """A commit on top of ours is not thrown away, nor is a branch that only has the name."""
    git = upstream_clone(patched, tmp_path / "salt")
    git.run("branch", "first")
    ended = patched.run("submit", "first", "--clone", str(tmp_path / "salt"))
    assert (ended.code, "has commits that are not ours" in ended.err) == (2, True)
    git.run("branch", "-D", "first")
    assert patched.run("submit", "first", "--clone", str(tmp_path / "salt")).code == 0
    git.run("checkout", "--quiet", "first")
    assert "is checked out" in patched.run("submit", "first", "--clone", str(tmp_path / "salt")).err


def test_clone_that_cannot_take_it(patched: Project, tmp_path: Path) -> None:
    """No clone, no such commit, and a conflict: one sentence each, and nothing is left behind."""
    git = upstream_clone(patched, tmp_path / "salt")
    ended = patched.run("submit", "first", "--clone", str(tmp_path))
    assert (ended.code, "is no clone" in ended.err) == (2, True)
    ended = patched.run("submit", "first", "--clone", str(tmp_path / "salt"), "--onto", "nosuch")
    assert (ended.code, "has no commit 'nosuch'" in ended.err) == (2, True)
    (tmp_path / "salt/salt/one.py").write_text("all new\n")
    git.run("commit", "--quiet", "-a", "-m", "other code")
    ended = patched.run("submit", "first", "--clone", str(tmp_path / "salt"), "--onto", "master")
    assert ended.code == 4
    assert "does not apply to master" in ended.err
    assert "salt/one.py" in ended.err
    assert git.text("worktree", "list").count("\n") == 0
    assert git.attempt("rev-parse", "--verify", "first").code != 0
    assert "--onto names a commit" in patched.run("submit", "first", "--onto", "master").err
