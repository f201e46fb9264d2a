"""The work tree ``salt/``: upstream's files as patched, and our new files beside them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patches.git import Git, list_paths
from patches.layout import EXTENSIONS, write_atomically
from patches.repository import BRANCH, GENERATED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from patches.repository import Repository

# commits that somebody made with git inside the tree
TAKEN = "refs/taken"
# what runs, tests and installs leave in the tree; the ignore file itself is ours but generated
DROPPINGS: tuple[str, ...] = ("/.gitignore", "__pycache__/", "*.py[co]", "/artifacts/", ".pytest_cache/", "/.coverage*")
DROPPINGS += tuple(f"/{name}" for name in GENERATED)


@dataclass(frozen=True)
class Tree:
    """The work tree with the second git directory's view of it."""

    repository: Repository

    @property
    def git(self) -> Git:
        """Git over ``salt/``."""
        return self.repository.git

    @property
    def folder(self) -> Path:
        """The folder ``salt/``."""
        return self.repository.layout.salt

    def edits(self) -> tuple[str, ...]:
        """Return upstream's files whose content or mode is not the last commit's."""
        self.git.attempt("update-index", "-q", "--refresh")
        return self.git.paths("diff-index", "-z", "--name-only", "--no-renames", "HEAD")

    def restore_missing(self) -> None:
        """Write upstream's files again where there are none: the folder, or part of it, was deleted."""
        missing = self.git.paths("diff-files", "-z", "--name-only", "--diff-filter=D")
        self.git.run("checkout-index", "--quiet", "-z", "--stdin", feed=list_paths(missing))

    def new_files(self) -> tuple[str, ...]:
        """Return the files of patches that upstream does not have, whatever any ignore file says of them."""
        hidden = (f"--exclude={pattern}" for pattern in (*DROPPINGS, f"/{EXTENSIONS}/"))
        return tuple(sorted(self.git.paths("ls-files", "-z", "--others", *hidden)))

    def diff(self) -> bytes:
        """Return all edits as one patch, for keeping."""
        return self.git.run("diff-index", "--patch", "--binary", "--full-index", "--no-renames", "HEAD").out

    def snapshot(self) -> str:
        """Write upstream's files as they are now, edits included, as a git tree; give its id."""
        with self._private_index() as git:
            return self._add(git, self.edits())

    def take_commits(self, head: str) -> None:
        """Let commits that somebody made inside the tree become edits on ``head``; none of them is lost."""
        theirs = self.git.attempt("rev-parse", "HEAD").text
        if theirs == head:
            return
        self.git.run("update-ref", f"{TAKEN}/{theirs}", theirs)
        self.git.run("reset", "--quiet", "--mixed", head)

    def commits(self, head: str) -> tuple[str, ...]:
        """Return the commits that somebody made inside the tree and that are not saved yet, taken or not."""
        listed = self.git.attempt("rev-list", "--reverse", "HEAD", f"--glob={TAKEN}", f"^{head}")
        return tuple(listed.text.split())

    def forget_commits(self) -> None:
        """Forget which commits were taken: what they changed is saved, or dropped."""
        for ref in self.git.text("for-each-ref", "--format=%(refname)", TAKEN).splitlines():
            self.git.run("update-ref", "-d", ref)

    def full_tree(self, files: Iterable[str]) -> str:
        """Write the last commit's files and those of our new files that exist as a git tree; give its id."""
        with self._private_index() as git:
            git.run("read-tree", "-m", "HEAD")
            return self._add(git, [name for name in files if os.path.lexists(self.folder / name)])

    def adopt(self, head: str, content: str, known: Iterable[str], *, torn: bool = False) -> tuple[str, ...]:
        """Bring the files to ``content``, and the index and the branch to ``head``; give what was left alone.

        A file is only overwritten or deleted when its content is one of the ``known`` commits', so an edit
        that nobody has saved survives any mistake of the caller.

        Args:
            torn: an earlier run was interrupted: a file that holds the beginning of what it should hold is that run's,
                and is completed.
        """
        self.folder.mkdir(exist_ok=True)
        listings = [self.repository.files(commit) for commit in known]
        wanted = self.repository.files(content)
        # keeps the stat cache of the entries that stay the same
        self.git.run("read-tree", "--reset", content)
        self.git.attempt("update-index", "-q", "--refresh")
        stale, kept = [], []
        differing = self.git.paths("diff-files", "-z", "--name-only", "--no-renames")
        existing = [path for path in differing if os.path.lexists(self.folder / path)]
        blobs = dict(zip(existing, self._blobs(existing), strict=True))
        for path in differing:
            ours = path not in blobs or any(entry.get(path, ("", ""))[1] == blobs[path] for entry in listings)
            if ours or blobs[path] == wanted[path][1] or (torn and self._is_torn(path, wanted[path][1])):
                stale.append(path)
            else:
                kept.append(path)
        self.git.run("checkout-index", "--force", "-z", "--stdin", feed=list_paths(stale))
        kept += self._remove(sorted({path for entry in listings for path in entry} - wanted.keys()), listings)
        self.git.run("read-tree", "--reset", head)
        self.git.attempt("update-index", "-q", "--refresh")
        self.git.run("update-ref", BRANCH, head)
        return tuple(kept)

    def add_folders(self, stock: Path) -> None:
        """Make the release's empty folders, which git does not know."""
        for folder, names, files in os.walk(stock):
            if not names and not files:
                (self.folder / Path(folder).relative_to(stock)).mkdir(parents=True, exist_ok=True)

    def write_ignore(self, upstream: Collection[str]) -> None:
        """Write ``salt/.gitignore``, which keeps upstream's files out of the project's git."""
        lines = ["# Written by `python -m patches apply`: upstream's files are never committed here.", *DROPPINGS]
        lines += [f"/{escape(path)}" for path in sorted(upstream)]
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        path = self.folder / ".gitignore"
        if not path.is_file() or path.read_bytes() != data:
            write_atomically(path, data)

    def _blobs(self, paths: Iterable[str]) -> list[str]:
        """Return the blob ids that the files would have."""
        feed = "".join(f'"{quote(path)}"\n' for path in paths).encode("utf-8", "surrogateescape")
        return self.git.text("hash-object", "--no-filters", "--stdin-paths", feed=feed).split() if feed else []

    def _is_torn(self, path: str, blob: str) -> bool:
        """Tell whether a file holds only the beginning of a blob."""
        whole = self.git.run("cat-file", "blob", blob).out
        part = (self.folder / path).read_bytes()
        return len(part) < len(whole) and whole.startswith(part)

    def _remove(self, paths: list[str], listings: list[dict[str, tuple[str, str]]]) -> list[str]:
        """Delete files that the base no longer has; give those that were edited and stay."""
        existing = [path for path in paths if os.path.lexists(self.folder / path)]
        kept = []
        for path, blob in zip(existing, self._blobs(existing), strict=True):
            if not any(entry.get(path, ("", ""))[1] == blob for entry in listings):
                kept.append(path)
                continue
            (self.folder / path).unlink()
            for parent in Path(path).parents:
                if parent == Path() or {one.name for one in (self.folder / parent).iterdir()} - {"__pycache__"}:
                    break
                shutil.rmtree(self.folder / parent)
        return kept

    @contextlib.contextmanager
    def _private_index(self) -> Iterator[Git]:
        """Yield git with a copy of the index, so that the index itself stays as it is."""
        layout = self.repository.layout
        with tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as name:
            index = Path(name) / "index"
            shutil.copyfile(layout.git_dir / "index", index)
            yield replace(self.git, index=index)

    @staticmethod
    def _add(git: Git, paths: Iterable[str]) -> str:
        """Put files as they are into an index and write its tree."""
        git.run("update-index", "--add", "--remove", "-z", "--stdin", feed=list_paths(paths))
        return git.text("write-tree")


def escape(path: str) -> str:
    """Escape what an ignore file would take for a pattern."""
    escaped = re.sub(r"([\\*?\[])", r"\\\1", path)
    return re.sub(r" $", r"\\ ", escaped)


def quote(path: str) -> str:
    """Quote a path the C way, which `git hash-object --stdin-paths` reads."""
    return path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
