"""The condition for exporting or moving topics: the tree is what the patches make, with nothing unsaved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patches.apply import is_current, settle, unsaved
from patches.base import read_base
from patches.errors import UsageError
from patches.series import read_series
from patches.tree import Tree

if TYPE_CHECKING:
    from patches.repository import Repository
    from patches.series import Series
    from patches.state import State


def ready(repository: Repository) -> tuple[Tree, Series, State]:
    """Give the tree, its series and its state, with nothing unsaved; the caller holds the lock.

    :raises UsageError: when the tree is not what the patches say.
    :raises UnsavedEditsError: when it has edits that no patch has.
    """
    tree, series, state = current(repository)
    edits = tree.edits()
    if edits:
        raise unsaved(repository.layout, edits, outdated=False)
    return tree, series, state


def current(repository: Repository) -> tuple[Tree, Series, State]:
    """Give the tree, its series and its state, whatever edits it has; the caller holds the lock.

    :raises UsageError: when the tree is not what the patches say.
    """
    layout = repository.layout
    repository.prepare()
    tree, series = Tree(repository), read_series(layout)
    state = settle(tree)
    if state is None or not is_current(state, read_base(layout), series):
        raise UsageError("The tree is not what patches/ says: run 'nox -s apply' first.")
    return tree, series, state
