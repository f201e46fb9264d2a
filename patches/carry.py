"""Carry topics over to another release, one after the other, in a work tree: what conflicts, and what is left out.

git does the work, and remembers how a conflict was resolved (`git rerere`), so that whoever gives up and tries again
resolves each conflict once.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.base import Base
from patches.errors import ConflictError, ToolError
from patches.git import Git
from patches.layout import write_atomically
from patches.repository import reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patches.repository import Repository
    from patches.state import Applied

REMEMBER = ("-c", "rerere.enabled=true", "-c", "rerere.autoUpdate=true")
_WORDS = "saltbed-target"
PICK = ("cherry-pick", "--allow-empty", "--keep-redundant-commits")


@dataclass(frozen=True)
class Conflict:
    """A topic and the files in which it conflicts."""

    topic: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        """Name both."""
        return f"{self.topic} ({', '.join(self.files)})"


@dataclass(frozen=True)
class LeftOut:
    """A file that the release does not have: the topic goes without its changes of it, of which a copy is kept."""

    topic: str
    file: str
    copy: str


@dataclass(frozen=True)
class Carrier:
    """A work tree at a release, with the topics that are carried to it; `copies` is a folder for what is left out."""

    git: Git
    onto: str
    topics: Sequence[Applied]
    copies: Path

    @property
    def done(self) -> int:
        """How many topics are there already: each is one commit."""
        return int(self.git.text("rev-list", "--count", f"{self.onto}..HEAD"))

    def go_on(self) -> Conflict | None:
        """Carry the next topics over until one conflicts; None when all are there."""
        self._tidy()
        for one in self.topics[self.done :]:
            conflict = self._take(one)
            if conflict is not None:
                return conflict
        return None

    def conflicts(self) -> tuple[Conflict, ...]:
        """Carry all over, and give all that conflict: where one does, its own lines are taken to see the next ones."""
        found = []
        for one in self.topics[self.done :]:
            conflict = self._take(one)
            if conflict is None:
                continue
            found.append(conflict)
            self.git.run("cherry-pick", "--abort")
            if self.git.attempt(*PICK, "-X", "theirs", one.commit).code:
                stuck = self._leave_out(one)
                if stuck:
                    # both sides added the file, or it became another kind of file
                    self.git.run("checkout", "--theirs", "--", *(f":(literal){name}" for name in stuck))
                    self.git.run("add", "--update")
                self._commit()
        return tuple(found)

    def _tidy(self) -> None:
        """Take away what a killed command left: a pick that was not begun, or that was over already."""
        picked = self.git.attempt("rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD").text
        following = self.topics[self.done].commit if self.done < len(self.topics) else ""
        if picked and picked == following:
            return
        for name in ("CHERRY_PICK_HEAD", "MERGE_MSG", "MERGE_RR"):
            (self.git.git_dir / name).unlink(missing_ok=True)
        self.git.run("reset", "--quiet", "--hard")
        if following:
            self._clean(following)

    def _clean(self, commit: str) -> None:
        """Take away what a killed pick had written of files that the release does not have; all else stays."""
        touched = self.git.paths("diff-tree", "-r", "-z", "--name-only", "--no-commit-id", commit)
        for name in set(touched) & set(self.git.paths("ls-files", "-z", "--others")):
            (self.git.work_tree / name).unlink()

    def end_conflict(self, advice: str) -> None:
        """Commit what the user resolved.

        :param advice: what to do about a conflict that is not resolved.
        :raises ConflictError: when lines still have conflict markers.
        """
        self._tidy()
        if not self._is_picking():
            return
        # again: a pick may have been killed before
        self._leave_out(self.topics[self.done])
        marked = self.git.attempt("-c", "core.whitespace=", "diff", "--check").text
        wrong = tuple(line for line in marked.splitlines() if "conflict marker" in line)
        if wrong:
            topic = self.topics[self.done].topic
            raise ConflictError(f"There still are conflicts with {topic} ({'; '.join(wrong)}): {advice}.")
        self.git.run("add", "--update")
        self._commit()

    def remember(self) -> None:
        """Let git note the conflicts that are resolved in the files so far."""
        if self._is_picking():
            self.git.attempt(*REMEMBER, "rerere")

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what topics went without."""
        found = []
        for one in self.topics[: self.done]:
            for path in sorted((self.copies / one.topic).glob("*.patch")):
                first = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[0]
                found.append(LeftOut(one.topic, first.removeprefix("# "), str(path)))
        return tuple(found)

    def _take(self, one: Applied) -> Conflict | None:
        """Commit one topic, with what is known of its conflicts; give what is left of them."""
        done = self.git.attempt(*REMEMBER, *PICK, one.commit)
        if not done.code:
            return None
        if not self._is_picking():
            raise ToolError(f"git could not carry {one.topic} over: {reason(done.text, done.err)}.")
        stuck = self._leave_out(one)
        if stuck:
            return Conflict(one.topic, stuck)
        self._commit()
        return None

    def _leave_out(self, one: Applied) -> tuple[str, ...]:
        """Leave files out that the release does not have; give those that conflict otherwise."""
        for name in self._stuck():
            # stage 2 is the release's side
            here = ("--", f":(literal){name}")
            if any(line.split()[2] == "2" for line in self.git.paths("ls-files", "-z", "--unmerged", *here)):
                continue
            diff = self.git.run("diff", "--no-color", "--binary", f"{one.commit}^", one.commit, *here).out
            copy = self.copies / one.topic / f"{name.replace('/', '%')}.patch"
            write_atomically(copy, b"# " + name.encode("utf-8", "surrogateescape") + b"\n" + diff)
            self.git.run("rm", "--quiet", "--force", *here)
        return self._stuck()

    def _stuck(self) -> tuple[str, ...]:
        return self.git.paths("diff", "-z", "--name-only", "--diff-filter=U")

    def _is_picking(self) -> bool:
        return (self.git.git_dir / "CHERRY_PICK_HEAD").exists()

    def _commit(self) -> None:
        self.git.run(*REMEMBER, "commit", "--quiet", "--allow-empty", "-C", "CHERRY_PICK_HEAD")


@dataclass(frozen=True)
class Carry:
    """A work tree in which topics are carried over; it stays where one conflicts, until it is continued or given up.

    `base` is where to, `head` the commit of ours that it begins at, `more` what else the command needs to go on.
    """

    git: Git
    base: Base
    head: str
    more: tuple[str, ...] = ()

    @staticmethod
    def begin(repository: Repository, folder: Path, onto: str, base: Base, head: str, *more: str) -> Git:
        """Make the work tree, and note the rest."""
        git = repository.add_worktree(folder, onto)
        write_atomically(git.git_dir / _WORDS, " ".join((base.version, base.sha256, head, *more)).encode())
        return git

    @staticmethod
    def find(folder: Path, more: int = 0) -> Carry | None:
        """Find one that waits; None when there is none, or when it was killed before it had noted so many `more`."""
        try:
            git = Git.of(folder)
            words = (git.git_dir / _WORDS).read_text(encoding="utf-8").removesuffix("\n").split(" ")
        except (OSError, ValueError):
            return None
        return Carry(git, Base(*words[:2]), words[2], tuple(words[3:])) if len(words) == 3 + more else None


def remove(repository: Repository, folder: Path) -> None:
    """Take away the work tree in a folder."""
    repository.git.attempt("worktree", "remove", "--force", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    repository.git.run("worktree", "prune", "--expire=now")
