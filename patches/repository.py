"""The second git directory: it knows the pristine base, and git does the work in it.

It lies under ``build/`` and is given with ``--git-dir``: a ``.git`` inside ``salt/`` would make the project's own git
take that folder for another repository. Its commits hold upstream's files only; new files of ours are tracked by the
project's git at their place, and join the commits when mails are written.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches.errors import BusyError, ConflictError
from patches.git import EMAIL, NAME, Git, decode, encode, list_paths
from patches.layout import locked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patches.base import Base
    from patches.layout import Layout
    from patches.patch import Patch


BRANCH = "refs/heads/patched"
# nothing of the user's configuration is read (see git.py); these are what git's own defaults leave open
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = false
\tfilemode = true
\tautocrlf = false
\tsafecrlf = false
\tquotepath = false
\tlogallrefupdates = false
\tcompression = 1
\thooksPath = /dev/null
\texcludesFile = /dev/null
\tattributesFile = /dev/null
[gc]
\tauto = 0
[maintenance]
\tauto = false
[commit]
\tgpgSign = false
[rerere]
\tenabled = false
[diff]
\trenames = false
\talgorithm = myers
[advice]
\tdetachedHead = false
"""
# whatever attributes upstream's tree may bring, bytes go in and out unchanged
ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !merge\n"
# written by setuptools whenever the tree is installed, so no part of what we compare
GENERATED = ("salt.egg-info/", "build/")
# folders below `build/`; those of tests are used without the tree's lock, with one of their own
SCRATCH = ".scratch."
PROOF = ".proof."
PROOFS = "proofs.lock"
FORMAT: tuple[str, ...] = ("--keep-subject", "--pretty=mboxrd", "--zero-commit", "--no-signature", "--full-index")
FORMAT += (
    "--always",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
# the header with its folded lines
AUTHOR = re.compile(rb"^From: .*\n([ \t].*\n)*", re.MULTILINE)
AM: tuple[str, ...] = ("am", "-3", "--quiet", "--empty=keep", "--keep-non-patch", "--keep-cr", "--no-scissors")
AM += ("--patch-format=mboxrd", "--committer-date-is-author-date")


@dataclass(frozen=True)
class Repository:
    """The second git directory and what can be asked of it."""

    layout: Layout

    @property
    def git(self) -> Git:
        """Git over ``salt/``."""
        return Git(self.layout.git_dir, self.layout.salt)

    def prepare(self) -> None:
        """Make the git directory if need be, and clear away what an interrupted command left in it.

        The caller holds the lock, so a lock file or a half-done rebase has no owner any more.
        """
        folder = self.layout.git_dir
        if not (folder / "HEAD").exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            self.git.run("init", "--quiet", "--template=", "--object-format=sha1")
        for path, text in ((folder / "config", CONFIG), (folder / "info" / "attributes", ATTRIBUTES)):
            path.parent.mkdir(exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        self.git.run("symbolic-ref", "HEAD", BRANCH)
        stale = [*folder.glob("*.lock"), *folder.glob("refs/heads/*.lock")]
        leftovers = [*self.layout.build.glob(f"{SCRATCH}*")]
        # the tests of `check --tests` run without the tree's lock
        with contextlib.suppress(BusyError), locked(self.layout, PROOFS, patience=0.0):
            stale += folder.glob("worktrees/*/*.lock")
            leftovers += self.layout.build.glob(f"{PROOF}*")
        for path in stale:
            path.unlink(missing_ok=True)
        for name in ("rebase-apply", "rebase-merge"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for leftover in leftovers:
            shutil.rmtree(leftover, ignore_errors=True)
        if (folder / "worktrees").exists():
            self.git.run("worktree", "prune", "--expire=now")

    def base_commit(self, base: Base) -> str | None:
        """Return the commit of a base that was imported before."""
        found = self.git.attempt("rev-parse", "--verify", "--quiet", f"refs/bases/{base.sha256}^{{commit}}")
        return found.text if found.code == 0 else None

    def import_base(self, base: Base, folder: Path) -> str:
        """Commit a source distribution just unpacked; the same one gives the same commit id anywhere."""
        with tempfile.TemporaryDirectory(dir=self.layout.build, prefix=SCRATCH) as name:
            git = Git(self.layout.git_dir, folder, Path(name) / "index")
            paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
            files = (path for path in paths if not path.startswith(GENERATED))
            git.run("update-index", "--add", "-z", "--stdin", feed=list_paths(files))
            tree = git.text("write-tree")
        message = f"Salt {base.version}\n\nThe source distribution with SHA-256 {base.sha256}.\n"
        commit = self.git.text("commit-tree", tree, feed=message.encode())
        self.git.run("update-ref", f"refs/bases/{base.sha256}", commit)
        return commit

    @contextlib.contextmanager
    def scratch(self, commit: str, *, checkout: bool = True, prefix: str = SCRATCH) -> Iterator[Git]:
        """Yield a work tree of its own at a commit, gone afterwards; ``salt/`` is not touched.

        Args:
            checkout: without it the folder starts empty, which is all that `git am` needs.
        """
        with tempfile.TemporaryDirectory(dir=self.layout.build, prefix=prefix, ignore_cleanup_errors=True) as name:
            git = self.add_worktree(Path(name) / "tree", commit, checkout=checkout)
            try:
                yield git
            finally:
                self.git.attempt("worktree", "remove", "--force", "--force", str(git.work_tree))

    def add_worktree(self, folder: Path, commit: str, *, checkout: bool = True) -> Git:
        """Add a work tree of the second git directory at a commit."""
        self.git.run("worktree", "add", "--quiet", "--no-checkout", "--detach", str(folder), commit)
        git = Git.of(folder)
        git.run("reset", "--quiet", "--hard") if checkout else git.run("read-tree", commit)
        return git

    def apply(self, git: Git, patches: Iterable[Patch]) -> tuple[str, ...]:
        """Apply patches in a scratch work tree, in order; give their commits.

        Raises:
            ConflictError: when one does not apply; the scratch work tree is then back at the last that did.
        """
        commits = []
        for patch in patches:
            result = git.attempt(*AM, feed=patch.data)
            if result.code != 0:
                git.attempt("am", "--abort")
                raise ConflictError(
                    f"patches/{patch.topic}.patch does not apply ({reason(result.text, result.err)}): "
                    "correct it, or restore it with git."
                )
            commits.append(git.text("rev-parse", "HEAD"))
        return tuple(commits)

    def export(self, commit: str, *only: str) -> bytes:
        """Write a commit as a patch file by our neutral author: the same bytes for the same commit, on any machine.

        Args:
            only: "--" and the paths whose changes are wanted, without any all.
        """
        written = self.git.run("format-patch", *FORMAT, "--stdout", "-1", commit, *only).out
        return AUTHOR.sub(f"From: {NAME} <{EMAIL}>\n".encode(), written, count=1)

    def tree(self, commit: str) -> str:
        """Return the id of a commit's tree."""
        return self.git.text("rev-parse", f"{commit}^{{tree}}")

    def files(self, commit: str) -> dict[str, tuple[str, str]]:
        """Return each path of a commit or tree with its mode and its blob's id."""
        listed = {}
        for line in self.git.paths("ls-tree", "-r", "-z", commit):
            entry, _, path = line.partition("\t")
            mode, _, blob = entry.split(" ")
            listed[path] = (mode, blob)
        return listed

    def added(self, old: str, new: str) -> Iterator[tuple[str, str]]:
        """Yield path and text of each line that a commit has and another has not."""
        path = ""
        for line in decode(self.git.run("diff", "--no-color", "--unified=0", old, new).out).splitlines():
            if line.startswith("+++ "):
                path = line[4:].partition("\t")[0].removeprefix("b/")
            elif line.startswith("+"):
                yield path, line[1:]

    def changed(self, old: str, new: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits or trees."""
        return self.git.paths("diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new)


def reason(*texts: str) -> str:
    """Pick the line of git's output that says why, without its prefix."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    for start in ("CONFLICT", "error:", "fatal:"):
        for line in lines:
            if line.startswith(start):
                return encode(line.removeprefix(start).strip(": ")).decode("utf-8", "replace")
    return lines[-1] if lines else "git gave no reason"
