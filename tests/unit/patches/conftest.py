"""A small project to try the commands on: a made-up release of Salt, a git checkout, and the command line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from patches.__main__ import main
from patches.base import Base, digest, write_base
from patches.layout import Layout
from patches.repository import Repository
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LINES = "".join(f"line {number}\n" for number in range(40))
# upstream has ignore files of its own, names that an ignore file takes for patterns, and a generated folder
RELEASE = {
    "salt/__init__.py": "",
    "salt/one.py": LINES,
    "salt/two.py": LINES,
    "doc/crlf.txt": "a\r\nb\r\n",
    "doc/питон.txt": "snake\n",
    "doc/we*ird [x].txt": "odd\n",
    "doc/!last ": "odd as well\n",
    "pkg/macos/.gitignore": "*.log\n/build\nnew_*\n",
    "salt.egg-info/PKG-INFO": "Name: salt\n",
    "tests/pytests/unit/test_one.py": "def test_one():\n    assert True\n",
}


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The output of a run with --json."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Project:
    """A project in a temporary folder."""

    root: Path

    @property
    def layout(self) -> Layout:
        """Its folders."""
        return Layout(self.root)

    @property
    def repository(self) -> Repository:
        """Its second git directory."""
        return Repository(self.layout)

    @property
    def tree(self) -> Tree:
        """Its work tree."""
        return Tree(self.repository)

    def run(self, command: str, *arguments: str) -> Ended:
        """Run one of our commands."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([command, "--root", str(self.root), *arguments])
        return Ended(code, out.getvalue(), err.getvalue())

    def git(self, *arguments: str) -> str:
        """Run the project's own git."""
        command = ["git", "-c", "core.quotePath=false", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout

    def write(self, name: str, text: str) -> None:
        """Write a file of the tree."""
        path = self.root / "salt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def read(self, name: str) -> str:
        """Read a file of the tree."""
        return (self.root / "salt" / name).read_bytes().decode()

    def edit(self, name: str, line: int, text: str) -> None:
        """Replace a line of a file of the tree."""
        lines = self.read(name).splitlines(keepends=True)
        lines[line] = f"{text}\n"
        self.write(name, "".join(lines))

    def release(self, version: str, changes: Mapping[str, str | None] | None = None) -> Base:
        """Put a made-up release into the cache of source distributions."""
        files = {name: text for name, text in {**RELEASE, **(changes or {})}.items() if text is not None}
        path = self.layout.sdists / f"salt-{version}.tar.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as archive:
            folder = tarfile.TarInfo(f"salt-{version}/tests/empty")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
            for name, text in files.items():
                data = text.encode()
                member = tarfile.TarInfo(f"salt-{version}/{name}")
                member.size, member.mode = len(data), 0o644
                archive.addfile(member, io.BytesIO(data))
        return Base(version, digest(path))

    def topic(self, name: str, **edits: str) -> None:
        """Save a topic that changes line 5 of the named modules and brings a changelog entry and a test."""
        for module, text in edits.items():
            self.edit(f"salt/{module}.py", 5, text)
        self.write(f"changelog/{sum(name.encode())}.added.md", f"Added {name}\n")
        self.write(f"tests/pytests/unit/test_{name.replace('-', '_')}.py", "def test_it():\n    assert True\n")
        message = self.root / "message.txt"
        message.write_text(f"Change {name}\n\nBecause.\n\nUpstream-PR: none yet\nRemove-When: merged\n")
        assert self.run("save", "--new", name, "--message", str(message)).err == ""
        message.unlink()

    def ids(self) -> tuple[str, str]:
        """Give the tree's commit and its tree with new files, as `apply` tells them."""
        made = self.run("apply", "--json")
        assert made.code == 0, made.out
        return made.data["head"], made.data["tree"]


def settle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a home for git, and let nothing else configure it."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    home = folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@analytical.engineer\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@dataclass(frozen=True)
class Templates:
    """The projects that tests begin with, each made once; a test works on a copy."""

    folder: Path

    def copy(self, name: str, target: Path) -> Project:
        """Give a copy of a project, in place of what is there."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder / name, target, symlinks=True)
        return Project(target)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """Make a new project, the same with its tree, and the same with two topics."""
    found = Templates(tmp_path_factory.mktemp("templates"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        settle(found.folder, monkeypatch)
        project = Project(found.folder / "new")
        project.layout.patches.mkdir(parents=True)
        project.layout.series.write_text("# the topics in order\n")
        write_base(project.layout, project.release("1.0"))
        (project.root / ".gitignore").write_text("/build/\n__pycache__/\n")
        project.git("init", "--quiet")
        project.git("add", ".")
        project.git("commit", "--quiet", "-m", "start")
        made = found.copy("new", found.folder / "made")
        assert made.run("apply").code == 0
        patched = found.copy("made", found.folder / "patched")
        patched.topic("first", one="changed by first")
        patched.topic("second", two="changed by second")
        patched.git("add", ".")
        patched.git("commit", "--quiet", "-m", "two topics")
    return found


@pytest.fixture
def project(tmp_path: Path, templates: Templates, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Give a committed project whose base is release 1.0, with no topic and no tree."""
    settle(tmp_path, monkeypatch)
    return templates.copy("new", tmp_path / "project")


@pytest.fixture
def made(project: Project, templates: Templates) -> Project:
    """Give the project with its tree made, and no topic."""
    return templates.copy("made", project.root)


@pytest.fixture
def patched(project: Project, templates: Templates) -> Project:
    """Give the project with two topics: `first` changes one.py, `second` changes two.py; all committed."""
    return templates.copy("patched", project.root)


@pytest.fixture
def clone(project: Project, tmp_path: Path) -> Callable[[], Project]:
    """Make fresh clones of the project that find the releases in their caches."""

    def fresh() -> Project:
        project.git("clone", "--quiet", str(project.root), str(tmp_path / "clone"))
        other = Project(tmp_path / "clone")
        other.layout.build.mkdir()
        other.layout.sdists.symlink_to(project.layout.sdists)
        return other

    return fresh
