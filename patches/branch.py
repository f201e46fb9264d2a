"""Topics as commits that upstream takes, whole with their new files, and their branches in a clone."""

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

# the commit that was handed out last as a branch of a clone: a branch that ends in another one is somebody's own
HANDED_OUT = "refs/saltbed"


@dataclass(frozen=True)
class Commits:
    """What topics are committed on, by whom, and which number of upstream's names the changelog entries of a topic."""

    base: str
    author: Contributor | None = None
    numbers: Mapping[str, int] | None = None


def commit(repository: Repository, patches: Iterable[Patch], wanted: Commits) -> tuple[str, ...]:
    """Commit each topic with its new files, in a scratch work tree; give the commits.

    Raises:
        ConflictError: when a patch does not apply to the base after those before it.
        UsageError: when a topic's file is missing.
    """
    listed = tuple(patches)
    try:
        return _commit(repository, listed, wanted, checkout=False)
    except ConflictError:
        # a patch beside which another one stands in the series may need a merge, and that needs the files
        return _commit(repository, listed, wanted, checkout=True)


def _commit(repository: Repository, patches: Iterable[Patch], wanted: Commits, *, checkout: bool) -> tuple[str, ...]:
    author, commits = wanted.author, []
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
            commits.append(git.text("rev-parse", "HEAD"))
    return tuple(commits)


def bring(repository: Repository, git: Git, patch: Patch, names: Mapping[str, str]) -> None:
    """Commit a topic's new files to a work tree, each under the name that it is to have there.

    Raises:
        UsageError: when one is missing.
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


def into_clone(clone: Path, onto: str, name: str, mails: Iterable[Path], author: Contributor) -> tuple[str, str]:
    """Apply mails to a commit of a clone, in a work tree of its own, and make a branch of the result.

    Args:
        onto: a tag, branch or commit of the clone.
        author: who commits.

    Returns:
        The last commit of the branch, and the commit that it stands on.

    Raises:
        UsageError: when there is no such clone or commit, or when the branch is somebody's own.
        ConflictError: when the mails do not apply there.
    """
    inside = Git(clone / ".git", clone).attempt("rev-parse", "--absolute-git-dir")
    if inside.code:
        raise UsageError(f"{clone} is no clone of a git repository: name the folder of a clone of Salt's.")
    git = Git(Path(inside.text), clone)
    found = git.attempt("rev-parse", "--verify", "--quiet", f"{onto}^{{commit}}")
    if found.code:
        raise UsageError(f"The clone {clone} has no commit '{onto}': fetch it, or name another one with --onto.")
    base = found.text
    ours, old = (
        git.attempt("rev-parse", "--verify", "--quiet", f"{place}/{name}").text for place in (HANDED_OUT, "refs/heads")
    )
    if old and old != ours:
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
    for place in (HANDED_OUT, "refs/heads"):
        git.run("update-ref", f"{place}/{name}", made)
    return made, base
