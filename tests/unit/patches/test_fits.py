"""`check --base`: which topics another release of Salt could take."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from patches.base import unpack
from tests.unit.patches.conftest import LINES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.patches.conftest import Project


def tried(project: Project, *words: str) -> dict[str, dict[str, Any]]:
    """Try topics; return what was found by topic. The project stays as it is."""
    before = project.git("status", "--porcelain"), project.ids()
    release, *more = words
    ended = project.run("check", "--base", release, *more, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert (project.git("status", "--porcelain"), project.ids()) == before
    return {one["topic"]: one for one in ended.data["fits"]}


def test_a_release_with_the_same_code(patched: Project, tmp_path: Path) -> None:
    """A topic that applies is written as one patch that git takes, with the topic's new files."""
    base = patched.release("0.9", {"salt/one.py": f"older\n{LINES}"})
    found = tried(patched, "0.9")
    assert {topic: one["verdict"] for topic, one in found.items()} == {"first": "applies", "second": "applies"}
    folder = tmp_path / "salt"
    unpack(patched.layout, base, folder)
    for command in (["git", "init", "--quiet"], ["git", "apply", found["first"]["written"]]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert (folder / "salt/one.py").read_text().splitlines()[6] == "changed by first"
    assert (folder / "tests/pytests/unit/test_first.py").is_file()


def test_a_release_with_other_code(patched: Project) -> None:
    """What stands in the way is named; where the code is not there at all, nothing is to be changed."""
    patched.release("0.8", {"salt/one.py": LINES.replace("line 5\n", "other\n"), "salt/two.py": None})
    found = tried(patched, "0.8")
    assert found["first"]["verdict"] == "conflicts: salt/one.py"
    assert found["second"]["verdict"] == "not there"
    assert (found["first"]["written"], found["second"]["written"]) == ("", "")
    assert not list((patched.layout.build / "fits").glob("*/*.patch"))


def test_what_a_user_of_the_code_does_without(patched: Project) -> None:
    """Docs that differ and files that the release lacks are left out, and told."""
    patched.edit("salt/one.py", 20, "third")
    patched.edit("salt/two.py", 20, "third")
    patched.edit("doc/we*ird [x].txt", 0, "documented")
    assert patched.run("save", "--new", "third").code == 0
    patched.release("0.8", {"salt/two.py": None, "doc/we*ird [x].txt": "otherwise\n"})
    found = tried(patched, "0.8", "--topic", "third")["third"]
    assert (found["left_out"], found["conflicts"]) == (["doc/we*ird [x].txt", "salt/two.py"], [])
    assert found["verdict"] == "applies three-way without doc/we*ird [x].txt, salt/two.py"
    ended = patched.run("check", "--base", "0.8", "--topic", "third", "--markdown")
    assert ended.out.splitlines()[0] == "| topic | 0.8 |"
    assert ended.out.splitlines()[2].startswith("| `third` | ")


def test_what_a_topic_requires(patched: Project) -> None:
    """A topic whose ground does not apply says which one that is."""
    patched.edit("salt/one.py", 20, "third")
    message = patched.root / "message.txt"
    message.write_text("Change third\n\nBecause.\n\nRequires: first\nUpstream-PR: none yet\nRemove-When: merged\n")
    assert patched.run("save", "--new", "third", "--message", str(message)).code == 0
    message.unlink()
    patched.release("0.8", {"salt/one.py": LINES.replace("line 5\n", "other\n")})
    found = tried(patched, "0.8", "--topic", "third")["third"]
    assert found["verdict"] == "conflicts: first, which it requires: salt/one.py"
    assert found["requires"] == ["first"]


def test_wrong_use(patched: Project) -> None:
    """Names of nothing are refused, and so is a tree that is not what the patches say."""
    assert patched.run("check", "--base", "1.0", "--topic", "none").code == 2
    (patched.layout.git_dir / "saltbed.json").unlink(missing_ok=True)
    ended = patched.run("check", "--base", "1.0")
    assert (ended.code, "run 'nox -s apply' first" in ended.err) == (2, True)
