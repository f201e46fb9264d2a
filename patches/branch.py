"""Topics as commits that upstream takes, whole with their new files, and the versions of their branches."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches import hooks
from patches.errors import ConflictError, UsageError
from patches.git import Git, list_paths
from patches.repository import reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patches.git import Contributor
    from patches.patch import Patch
    from patches.repository import Repository

# each version of a branch that was handed out, so that the next one can be compared with it
KEPT = "refs/submitted"


@dataclass(frozen=True)
class Commits:
    """What topics are committed on, by whom, and which number of upstream's names the changelog entries of a topic."""

    base: str
    author: Contributor | None = None
    numbers: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Version:
    """One version of a branch: its number, from 1 on, its last commit, and the commit that it stands on."""

    number: int
    commit: str
    base: str


def commit(repository: Repository, patches: Iterable[Patch], wanted: Commits) -> str:
    """Commit each topic with its new files, in a scratch work tree; give the last commit.

    :raises ConflictError: when a patch does not apply to the base after those before it.
    :raises UsageError: when a topic's file is missing.
    """
    listed = tuple(patches)
    try:
        return _commit(repository, listed, wanted, checkout=False)
    except ConflictError:
        # a patch beside which another one stands in the series may need a merge, and that needs the files
        return _commit(repository, listed, wanted, checkout=True)


def _commit(repository: Repository, patches: Iterable[Patch], wanted: Commits, *, checkout: bool) -> str:
    author = wanted.author
    with repository.scratch(wanted.base, checkout=checkout) as git:
        for patch in patches:
            names = {name: hooks.numbered(name, (wanted.numbers or {}).get(patch.topic)) for name in patch.files}
            # new files come first, as a patch for another release may change them
            bring(repository, git, patch, names)
            repository.apply(git, (patch.without_ours(),))
            env = {"GIT_COMMITTER_DATE": git.text("log", "-1", "--format=%aI")}
            signed: tuple[str, ...] = ()
            if author is not None:
                # git signs off as the committer
                env |= {"GIT_COMMITTER_NAME": author.name, "GIT_COMMITTER_EMAIL": author.email}
                signed = ("--signoff", f"--author={author}")
            made = git.text("rev-parse", "HEAD")
            git.run("reset", "--quiet", "--soft", "HEAD~2")
            git.run("commit", "--quiet", "--allow-empty", "--reuse-message", made, *signed, env=env)
        return git.text("rev-parse", "HEAD")


def bring(repository: Repository, git: Git, patch: Patch, names: Mapping[str, str]) -> None:
    """Commit a topic's new files to a work tree, each under the name that it is to have there.

    :raises UsageError: when one is missing.
    """
    salt = repository.layout.salt
    for name, wanted in names.items():
        if not (salt / name).is_file():
            raise UsageError(f"{salt / name} belongs to {patch.topic} but is missing: restore it with git.")
        target = git.work_tree / wanted
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(salt / name, target)
    git.run("update-index", "--add", "-z", "--stdin", feed=list_paths(names.values()))
    git.run("commit", "--quiet", "--allow-empty", "--message", f"New files of {patch.topic}")


def keep(git: Git, topic: str, made: str, base: str) -> tuple[Version, Version | None]:
    """Remember a commit as the newest version of a topic's branch; give it, and the version before it.

    The same commit again is the same version.
    """
    known = versions(git, topic)
    if known and known[-1].commit == made:
        return known[-1], known[-2] if len(known) > 1 else None
    new = Version(known[-1].number + 1 if known else 1, made, base)
    git.run("update-ref", f"{KEPT}/{topic}/{new.number}/head", made)
    git.run("update-ref", f"{KEPT}/{topic}/{new.number}/base", base)
    return new, known[-1] if known else None


def versions(git: Git, topic: str) -> list[Version]:
    """Return the versions of a topic's branch that were handed out, the oldest first."""
    found: dict[int, dict[str, str]] = {}
    for line in git.text("for-each-ref", "--format=%(objectname) %(refname)", f"{KEPT}/{topic}/").splitlines():
        name, _, ref = line.partition(" ")
        number, _, what = ref.removeprefix(f"{KEPT}/{topic}/").partition("/")
        found.setdefault(int(number), {})[what] = name
    return [Version(number, refs["head"], refs["base"]) for number, refs in sorted(found.items()) if len(refs) > 1]


def range_diff(git: Git, old: Version, new: Version) -> str:
    """Say what became of each commit between two versions of a branch."""
    return git.text("range-diff", "--no-color", f"{old.base}..{old.commit}", f"{new.base}..{new.commit}")


def into_clone(
    clone: Path, onto: str, name: str, mails: Iterable[Path], author: Contributor
) -> tuple[Git, Version, Version | None]:
    """Apply mails to a commit of a clone, in a work tree of its own, and make a branch of the result.

    :param onto: a tag, branch or commit of the clone.
    :param author: who commits.
    :return: the clone's git, the version that was made, and the one before it.
    :raises UsageError: when there is no such clone or commit, or when the branch is somebody's own.
    :raises ConflictError: when the mails do not apply there.
    """
    inside = Git(clone / ".git", clone).attempt("rev-parse", "--absolute-git-dir")
    if inside.code:
        raise UsageError(f"{clone} is no clone of a git repository: name the folder of a clone of Salt's.")
    git = Git(Path(inside.text), clone)
    found = git.attempt("rev-parse", "--verify", "--quiet", f"{onto}^{{commit}}")
    if found.code:
        raise UsageError(f"The clone {clone} has no commit '{onto}': fetch it, or name another one with --onto.")
    base = found.text
    ours = {one.commit for one in versions(git, name)}
    old = git.attempt("rev-parse", "--verify", "--quiet", f"refs/heads/{name}").text
    if old and old not in ours:
        raise UsageError(f"The branch '{name}' of {clone} has commits that are not ours: rename it there first.")
    if git.attempt("symbolic-ref", "--quiet", "HEAD").text == f"refs/heads/{name}":
        raise UsageError(f"The branch '{name}' is checked out in {clone}: check out another one there first.")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / "tree"
        git.run("worktree", "add", "--quiet", "--detach", str(folder), base)
        there = Git.of(folder)
        try:
            done = there.attempt(
                *("-c", "core.hooksPath=/dev/null", "am", "-3", "--quiet", "--committer-date-is-author-date"),
                *map(str, mails),
                env={"GIT_COMMITTER_NAME": author.name, "GIT_COMMITTER_EMAIL": author.email},
            )
            if done.code:
                stuck = ", ".join(there.paths("diff", "-z", "--name-only", "--diff-filter=U"))
                there.attempt("am", "--abort")
                raise ConflictError(
                    f"The topic '{name}' does not apply to {onto} in {clone}: {stuck or reason(done.text, done.err)}."
                )
            made = there.text("rev-parse", "HEAD")
        finally:
            git.attempt("worktree", "remove", "--force", "--force", str(folder))
    new, before = keep(git, name, made, base)
    git.run("update-ref", f"refs/heads/{name}", made)
    return git, new, before
