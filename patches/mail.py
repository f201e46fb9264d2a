"""Mails for upstream: the commits of a branch, as `git am` takes them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from patches.errors import ConflictError
from patches.git import Git
from patches.repository import CONFIG, reason

if TYPE_CHECKING:
    from patches.branch import Version
    from patches.repository import Repository

MAIL = ("format-patch", "--quiet", "--no-signature", "--full-index", "--no-renames", "--zero-commit", "--always")


def write(repository: Repository, version: Version, folder: Path) -> tuple[Path, ...]:
    """Write the commits of a branch as mails, which name the base, and prove them; give the mails in order.

    :raises ConflictError: when they do not make the same tree.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbered = (f"--reroll-count={version.number}",) if version.number > 1 else ()
    span = f"{version.base}..{version.commit}"
    repository.git.run(*MAIL, *numbered, f"--base={version.base}", f"--output-directory={folder}", span)
    mails = tuple(sorted(folder.glob("*.patch")))
    _verify(repository, version, mails)
    return mails


def _verify(repository: Repository, version: Version, mails: tuple[Path, ...]) -> None:
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
        git.run("read-tree", version.base)
        git.run("update-ref", "HEAD", version.base)
        result = git.attempt("am", "--quiet", *map(str, mails))
        if result.code != 0:
            raise ConflictError(f"The mails do not apply to the base: {reason(result.text, result.err)}.")
        wanted, got = repository.tree(version.commit), git.text("rev-parse", "HEAD^{tree}")
        if got != wanted:
            raise ConflictError(f"The mails make the tree {got} instead of {wanted}: run 'nox -s check'.")
