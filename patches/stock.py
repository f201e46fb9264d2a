"""The stock tree: the pristine base beside ours, so that both can be run and compared."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from patches import sdist
from patches.git import Git

if TYPE_CHECKING:
    from patches.base import Base
    from patches.repository import Repository


def ensure_base(repository: Repository, base: Base) -> str:
    """Give the base's commit; import the source distribution when it is not known yet.

    :raises FetchError: when the source distribution cannot be had.
    """
    known = repository.base_commit(base)
    if known is not None:
        return known
    layout = repository.layout
    with tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as name:
        folder = Path(name) / "base"
        sdist.unpack(layout, base, folder)
        commit = repository.import_base(base, folder)
        if not layout.stock.exists():
            folder.rename(layout.stock)
    return commit


def ensure_stock(repository: Repository, base: Base, commit: str) -> tuple[str, ...]:
    """Make ``build/stock`` the base again; give the files of it that had been changed.

    A comparison with an edited stock tree would mean nothing, so it does not survive. The tree is left alone,
    with what Python compiled in it, while it is as it should be.
    """
    layout = repository.layout
    # an index for each base: its stat cache makes the comparison a matter of milliseconds
    index = layout.git_dir / f"stock-{base.sha256[:16]}.index"
    git = Git(layout.git_dir, layout.stock, index)
    known = index.exists()
    if layout.stock.exists():
        if not known:
            git.run("read-tree", commit)
        git.attempt("update-index", "-q", "--refresh")
        changed = git.paths("diff-files", "-z", "--name-only")
        if not changed:
            return ()
    else:
        changed = ()
    sdist.unpack(layout, base, layout.stock)
    index.unlink(missing_ok=True)
    git.run("read-tree", commit)
    git.attempt("update-index", "-q", "--refresh")
    # a tree of another base is replaced in silence: nothing of it was edited
    return changed if known else ()
