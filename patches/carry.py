"""Carry topics over to another release, one after the other, in a work tree: what conflicts, and what is left out.

git does the work, and remembers how a conflict was resolved (`git rerere`), so that whoever gives up and tries again
resolves each conflict once.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from patches.base import Base
from patches.errors import ConflictError, ToolError, UsageError
from patches.git import Git
from patches.layout import write_atomically
from patches.repository import reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from patches.repository import Repository
    from patches.state import Applied

REMEMBER = ("-c", "rerere.enabled=true", "-c", "rerere.autoUpdate=true")
_NOTE = "saltbed-target"
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

    def commits(self) -> list[str]:
        """Return the commits of the topics that are there already, one for each."""
        return self.git.text("rev-list", "--reverse", f"{self.onto}..HEAD").split()

    @property
    def done(self) -> int:
        """How many topics are there already."""
        return len(self.commits())

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

        Args:
            advice: what to do about a conflict that is not resolved.

        Raises:
            ConflictError: when lines still have conflict markers.
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
    """The work tree of a command, below `build/`; it stays where a topic conflicts, until it is continued or given up.

    `base` is where to, `head` the commit of ours that it begins at, `more` what else the command needs to go on.
    """

    command: str
    git: Git
    base: Base
    head: str
    more: tuple[str, ...] = ()

    @classmethod
    def find(cls, repository: Repository, command: str) -> Self | None:
        """Find one that waits; None when there is none, or when it was killed before all was noted."""
        try:
            git = Git.of(repository.layout.carrying(command))
            words = json.loads((git.git_dir / _NOTE).read_bytes())
        except (OSError, ValueError):
            return None
        return cls(command, git, Base(*words[:2]), words[2], tuple(words[3:]))

    @classmethod
    def waiting(cls, repository: Repository, command: str) -> Self:
        """Find the one that waits.

        Raises:
            UsageError: when there is none.
        """
        found = cls.find(repository, command)
        if found is None:
            raise UsageError(f"No {command} waits for you in build/{command}: see '{command} --help' for how to begin.")
        return found

    @classmethod
    def make_room(cls, repository: Repository, command: str) -> None:
        """Take away what a killed command left.

        Raises:
            UsageError: when one waits.
        """
        if cls.find(repository, command) is not None:
            raise UsageError(
                f"An earlier {command} waits in build/{command}: end it with '{command} --continue' or "
                f"'{command} --abort'."
            )
        remove(repository, command)

    @classmethod
    def begin(cls, repository: Repository, command: str, onto: str, base: Base, head: str, *more: str) -> Self:
        """Make the work tree, and note the rest."""
        git = repository.add_worktree(repository.layout.carrying(command), onto)
        write_atomically(git.git_dir / _NOTE, json.dumps([base.version, base.sha256, head, *more]).encode())
        return cls(command, git, base, head, more)

    def go_on(self, carrier: Carrier, *, resolved: bool = False, known: Iterable[Conflict] = ()) -> None:
        """Carry the next topics over.

        Args:
            resolved: the user has resolved the conflict at which it stopped.
            known: the conflicts that are known to lie ahead.

        Raises:
            ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
        """
        edit = f"edit the files in {self.git.work_tree}, then '{self.command} --continue'"
        if resolved:
            carrier.end_conflict(f"{edit} again")
        conflict = carrier.go_on()
        if conflict is not None:
            later = [str(one) for one in known if one.topic != conflict.topic]
            more = f" (then {'; '.join(later)})" if later else ""
            raise ConflictError(
                f"Salt {self.base.version} conflicts with {conflict}{more}: {edit}, or '{self.command} --abort', which "
                "keeps what you resolved."
            )

    def changed(self) -> UsageError:
        """Say that the patches are no longer those that it carries."""
        return UsageError(
            f"The patches changed since the {self.command} stopped: give it up with '{self.command} --abort' and begin "
            "again."
        )


def abandon(repository: Repository, command: str, *, forget: bool = False) -> None:
    """Give up what stopped at a conflict; the tree and the patches are as before it.

    What was resolved is known to the next try.

    Args:
        forget: forget it.
    """
    repository.prepare()
    waiting = Carry.waiting(repository, command)
    # outside of a pick there is nothing to note
    waiting.git.attempt(*REMEMBER, "rerere")
    remove(repository, command)
    if forget:
        shutil.rmtree(repository.layout.git_dir / "rr-cache", ignore_errors=True)


def remove(repository: Repository, command: str) -> None:
    """Take away the work tree of a command."""
    folder = repository.layout.carrying(command)
    repository.git.attempt("worktree", "remove", "--force", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    repository.git.run("worktree", "prune", "--expire=now")
