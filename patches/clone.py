"""A clone of Salt's repository that somebody has: a topic's branch is made there, on a tag or branch of upstream's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from patches.branch import Version, keep, versions
from patches.errors import ConflictError, UsageError
from patches.git import Git
from patches.repository import reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patches.contributor import Contributor


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
        link = (folder / ".git").read_text(encoding="utf-8")
        there = Git(Path(link.removeprefix("gitdir: ").strip()), folder)
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
