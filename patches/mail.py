"""Mails for upstream: each topic complete, with its new files, as `git am` takes them."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches.apply import is_current, settle, unsaved
from patches.base import read_base
from patches.check import incomplete
from patches.contributor import read_contributor
from patches.errors import ConflictError, UsageError
from patches.git import Git, list_paths
from patches.repository import CONFIG, reason
from patches.series import read_series
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patches.contributor import Contributor
    from patches.patch import Patch
    from patches.repository import Repository

MAIL = ("format-patch", "--quiet", "--no-signature", "--full-index", "--no-renames", "--zero-commit", "--always")


@dataclass(frozen=True)
class Submission:
    """A topic's mails, the tree that they make of the pristine base, and what upstream will miss in them."""

    topic: str
    author: str
    mails: tuple[str, ...]
    tree: str
    warnings: tuple[str, ...] = ()


def submit(repository: Repository, topics: Iterable[str], output: Path) -> tuple[Submission, ...]:
    """Write the mails of each topic to a folder of its own; the caller holds the lock.

    What a topic requires comes first in its folder. Each folder's mails are applied to a pristine clone, and the
    result is compared, before they are handed out.

    :raises UsageError: when a topic changes nothing, the tree is not what the patches say, or nobody can sign off.
    :raises UnsavedEditsError: when the tree has edits that the mails would lack.
    :raises ConflictError: when the mails do not make the same tree.
    """
    layout = repository.layout
    author = read_contributor(layout)
    repository.prepare()
    tree, series = Tree(repository), read_series(layout)
    chosen = tuple(topics)
    for topic in chosen:
        series.get(topic)
    state = settle(tree)
    if state is None or not is_current(state, read_base(layout), series):
        raise UsageError("The tree is not what patches/ says: run 'nox -s apply' first.")
    edits = tree.edits()
    if edits:
        raise unsaved(layout, edits, outdated=False)
    submissions = []
    for topic in chosen:
        patches = series.closure(topic)
        for patch in patches:
            if patch.is_empty:
                raise UsageError(
                    f"The topic '{patch.topic}' changes nothing, so there is nothing to send: save an edit to it with "
                    f"'nox -s save -- --topic {patch.topic} FILE', or drop it."
                )
        with tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as name:
            folder = Path(name) / "mails"
            try:
                wanted = _write(repository, state.base_commit, patches, folder, author, checkout=False)
            except ConflictError:
                # a patch beside which another one stands in the series may need a merge, and that needs the files
                wanted = _write(repository, state.base_commit, patches, folder, author, checkout=True)
            if set(patches) == set(series) and wanted != tree.full_tree(series.files):
                raise ConflictError(
                    f"The commits of {topic} are not the tree: run 'nox -s check' and mend what it finds."
                )
            _verify(repository, state.base_commit, folder, wanted)
            target = output / topic
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(folder, target)
        lacking = incomplete(repository, series, state, (patch.topic for patch in patches))
        warnings = tuple(f"{one.rule}: {one.subject} {one.message}" for one in lacking)
        submissions.append(
            Submission(topic, str(author), tuple(str(path) for path in sorted(target.iterdir())), wanted, warnings)
        )
    return tuple(submissions)


def _write(
    repository: Repository,
    base_commit: str,
    patches: Iterable[Patch],
    folder: Path,
    author: Contributor,
    *,
    checkout: bool,
) -> str:
    """Commit each topic with its new files and write the commits as mails; give the last one's tree."""
    salt = repository.layout.salt
    # git signs off as the committer
    signer = {"GIT_COMMITTER_NAME": author.name, "GIT_COMMITTER_EMAIL": author.email}
    with repository.scratch(base_commit, checkout=checkout) as git:
        for patch in patches:
            repository.apply(git, (patch.without_ours(),))
            for name in patch.files:
                if not (salt / name).is_file():
                    raise UsageError(f"{salt / name} belongs to {patch.topic} but is missing: restore it with git.")
                target = git.work_tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(salt / name, target)
            git.run("update-index", "--add", "-z", "--stdin", feed=list_paths(patch.files))
            signed = ("--amend", "--no-edit", "--signoff", f"--author={author}")
            git.run("commit", "--quiet", "--allow-empty", *signed, env=signer)
        git.run(*MAIL, f"--output-directory={folder}", f"{base_commit}..HEAD")
        return git.text("rev-parse", "HEAD^{tree}")


def _verify(repository: Repository, base_commit: str, folder: Path, wanted: str) -> None:
    """Apply the mails to a pristine clone, as a maintainer of upstream would, and compare.

    :raises ConflictError: when they do not apply, or make another tree.
    """
    with tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=".scratch.") as name:
        clone = Path(name) / "clone"
        git = Git(clone / ".git", clone)
        clone.mkdir()
        git.run("init", "--quiet", "--template=")
        (clone / ".git" / "config").write_text(CONFIG, encoding="utf-8")
        # the base's objects stay where they are: to copy them takes seconds for each topic
        borrowed = clone / ".git" / "objects" / "info" / "alternates"
        borrowed.parent.mkdir(exist_ok=True)
        borrowed.write_text(f"{repository.layout.git_dir.resolve()}/objects\n", encoding="utf-8")
        git.run("read-tree", base_commit)
        git.run("update-ref", "HEAD", base_commit)
        result = git.attempt("am", "--quiet", *(str(path) for path in sorted(folder.iterdir())))
        if result.code != 0:
            raise ConflictError(f"The mails do not apply to the base: {reason(result.text, result.err)}.")
        got = git.text("rev-parse", "HEAD^{tree}")
        if got != wanted:
            raise ConflictError(f"The mails make the tree {got} instead of {wanted}: run 'nox -s check'.")
