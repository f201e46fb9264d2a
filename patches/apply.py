"""Make the tree: the base, with the series applied, and our new files beside it.

A tree that is already made costs a few milliseconds; one whose pin or patches changed is brought up to date; edits
that are not saved are never lost.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patches.base import read_base, unpack
from patches.errors import ConflictError, UnsavedEditsError, UsageError
from patches.git import Git, keep
from patches.series import read_series
from patches.state import Applied, Move, State, read_state, write_state
from patches.tree import Tree

if TYPE_CHECKING:
    from patches.base import Base
    from patches.layout import Layout
    from patches.repository import Repository
    from patches.series import Series


def ensure_base(repository: Repository, base: Base) -> str:
    """Return the base's commit; import the source distribution when it is not known yet.

    Raises:
        FetchError: when the source distribution cannot be had.
    """
    known = repository.base_commit(base)
    if known is not None:
        return known
    layout = repository.layout
    with tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as name:
        folder = Path(name) / "base"
        unpack(layout, base, folder)
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
    changed: tuple[str, ...] = ()
    if layout.stock.exists():
        if not known:
            git.run("read-tree", commit)
        git.attempt("update-index", "-q", "--refresh")
        changed = git.paths("diff-files", "-z", "--name-only")
        if not changed:
            return ()
    unpack(layout, base, layout.stock)
    index.unlink(missing_ok=True)
    git.run("read-tree", commit)
    git.attempt("update-index", "-q", "--refresh")
    # a tree of another base is replaced in silence: nothing of it was edited
    return changed if known else ()


SHOWN = 20


@dataclass(frozen=True)
class Made:
    """The tree as `apply` leaves it."""

    base: Base
    base_commit: str
    head: str
    tree: str
    topics: tuple[str, ...]
    changed: bool
    edits: tuple[str, ...] = ()
    restored_stock: tuple[str, ...] = ()
    discarded: str | None = None
    kept: tuple[str, ...] = ()


def make(repository: Repository, *, keep_edits: bool = False, discard: bool = False) -> Made:
    """Make the tree, or bring it up to date; the caller holds the lock.

    Args:
        keep_edits: go on with unsaved edits; they are carried over when the tree changes under them.
        discard: drop unsaved edits, after writing them to ``build/discarded/``.

    Raises:
        UnsavedEditsError: when there are edits and neither of the two was asked for.
        ConflictError: when a patch does not apply; the tree is then as it was.
    """
    layout = repository.layout
    repository.prepare()
    base, series, tree = read_base(layout), read_series(layout), Tree(repository)
    state = settle(tree)
    if state is not None and not (layout.salt / ".gitignore").exists():
        # salt/ was deleted or emptied, so missing files are no edits
        layout.salt.mkdir(exist_ok=True)
        tree.restore_missing()
    edits = () if state is None else tree.edits()
    dropped = None
    if state is not None and edits and discard:
        dropped, edits = _discard(tree, state.head), ()
    outdated = state is None or not is_current(state, base, series)
    if edits and not keep_edits:
        raise unsaved(layout, edits, outdated=outdated)
    kept: tuple[str, ...] = ()
    if state is None or outdated:
        new = build_state(repository, base, series)
        # patches that go out of the tree and that nobody committed, such as before a `git restore`
        gone = [one for one in state.applied if (one.topic, one.sha256) not in series.sources] if state else []
        copies = [keep(layout, one.topic, repository.export(one.commit)) for one in gone]
        kept = tuple(str(path) for path in copies if path is not None)
        _move(tree, state, new, edits)
        state, edits = new, tree.edits()
        if edits and discard:
            dropped, edits = _discard(tree, state.head), ()
    if outdated or not (layout.salt / ".gitignore").exists():
        tree.write_ignore(repository.files(state.base_commit))
    restored = ensure_stock(repository, base, state.base_commit)
    if outdated:
        tree.add_folders(layout.stock)
    if edits and not keep_edits:
        # only when build/ had been deleted: the edits of the tree that was there are still in it
        raise unsaved(layout, edits, outdated=False)
    full = tree.full_tree(series.files)
    return Made(base, state.base_commit, state.head, full, series.topics, outdated, edits, restored, dropped, kept)


def settle(tree: Tree) -> State | None:
    """Return what the tree was made from, after finishing a move that was interrupted; None when there is no tree.

    Commits that somebody made with git inside the tree become edits that are not saved; their messages are kept.
    """
    repository = tree.repository
    state = read_state(repository.layout)
    if state is None or repository.git.attempt("cat-file", "-e", f"{state.head}^{{commit}}").code != 0:
        return None
    if state.move is not None:
        tree.adopt(state.head, state.move.content, state.move.known, torn=True)
        state = replace(state, move=None)
        write_state(repository.layout, state)
    tree.take_commits(state.head)
    return state


def is_current(state: State, base: Base, series: Series) -> bool:
    """Tell whether the tree was made from this pin and these patches."""
    return state.base == base and state.sources == series.sources


def build_state(repository: Repository, base: Base, series: Series) -> State:
    """Apply the series to the base in a scratch folder; nothing of the tree is touched.

    Raises:
        ConflictError: when a patch does not apply, or brings a file that it should not.
    """
    base_commit = ensure_base(repository, base)
    upstream = repository.files(base_commit)
    for patch in series:
        for name in patch.files:
            if name in upstream:
                raise ConflictError(
                    f"{patch.topic} lists {name} as new, but Salt {base.version} has it: move the change into "
                    f"patches/{patch.topic}.patch and take the file out of its trailers."
                )
    with repository.scratch(base_commit, checkout=False) as git:
        commits = repository.apply(git, series)
    added = sorted(repository.files(commits[-1]).keys() - upstream.keys()) if commits else []
    if added:
        raise ConflictError(f"A patch adds {added[0]}: keep new files in salt/ itself and list them in 'Files:'.")
    applied = (Applied(patch.topic, patch.sha256, commit) for patch, commit in zip(series, commits, strict=True))
    return State(base, base_commit, tuple(applied))


def shown(paths: tuple[str, ...]) -> str:
    """Name paths in one line, the first of them when there are many."""
    return ", ".join(paths[:SHOWN]) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "")


def unsaved(layout: Layout, edits: tuple[str, ...], *, outdated: bool) -> UnsavedEditsError:
    """Say which edits are not saved, and how to keep or drop them."""
    names = shown(edits)
    keep = (
        "carry them over with 'nox -s apply -- --keep-edits', then 'nox -s save'" if outdated else "run 'nox -s save'"
    )
    return UnsavedEditsError(
        f"{layout.salt} has edits that are not saved to patches/: {names}. To keep them {keep}; to drop them run "
        "'nox -s apply -- --discard' (a copy stays in build/discarded/).",
        edits,
    )


def _move(tree: Tree, old: State | None, new: State, edits: tuple[str, ...]) -> None:
    """Bring the files, from whatever they were, to the base with the series applied."""
    content, known = new.head, [new.base_commit, new.head]
    if old is not None:
        known += [old.base_commit, old.head]
        if edits:
            # `content` holds the edits, merged, so the edited files may be overwritten
            content = _carry(tree, old.head, new.head)
            known.append(tree.snapshot())
    move = Move(content, tuple(known))
    write_state(tree.repository.layout, replace(new, move=move))
    tree.adopt(new.head, move.content, move.known)
    write_state(tree.repository.layout, new)


def _carry(tree: Tree, old: str, new: str) -> str:
    """Merge the edits, made on ``old``, into ``new``, or touch nothing and raise ConflictError; give the git tree."""
    repository = tree.repository
    edited = repository.git.text("commit-tree", tree.snapshot(), "-p", old, "-m", "edits")
    with repository.scratch(new) as git:
        result = git.attempt("cherry-pick", "--no-commit", edited)
        if result.code != 0:
            files = ", ".join(git.paths("diff", "-z", "--name-only", "--diff-filter=U"))
            raise ConflictError(
                f"Your edits of {files} and the changed patches touch the same lines: restore patches/ with git, "
                "save the edits, and merge the two versions of the patch there."
            )
        return git.text("write-tree")


def _discard(tree: Tree, head: str) -> str:
    """Drop the edits, but keep a copy of them; give its path."""
    layout = tree.repository.layout
    layout.discarded.mkdir(parents=True, exist_ok=True)
    snapshot = tree.snapshot()
    path = layout.discarded / f"{snapshot[:12]}.patch"
    path.write_bytes(tree.diff())
    tree.adopt(head, head, [snapshot, head])
    tree.forget_commits()
    return str(path)


def ready(repository: Repository) -> tuple[Tree, Series, State]:
    """Return the tree, its series and its state, with nothing unsaved; the caller holds the lock.

    Raises:
        UsageError: when the tree is not what the patches say.
        UnsavedEditsError: when it has edits that no patch has.
    """
    tree, series, state = current(repository)
    edits = tree.edits()
    if edits:
        raise unsaved(repository.layout, edits, outdated=False)
    return tree, series, state


def current(repository: Repository) -> tuple[Tree, Series, State]:
    """Return the tree, its series and its state, whatever edits it has; the caller holds the lock.

    Raises:
        UsageError: when the tree is not what the patches say.
    """
    layout = repository.layout
    repository.prepare()
    tree, series = Tree(repository), read_series(layout)
    state = settle(tree)
    if state is None or not is_current(state, read_base(layout), series):
        raise UsageError("The tree is not what patches/ says: run 'nox -s apply' first.")
    return tree, series, state
