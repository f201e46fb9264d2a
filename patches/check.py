"""Find what is wrong with the patch set.

Rules: *drift* (tree and patches say the same), *author* (stored patches carry the neutral one), *tracked* (nothing of
upstream is committed, every file of ours in ``salt/`` belongs to one topic and exists), *alone* (each patch applies to
the base with no more than it requires), *message* (trailers and text are complete), *parts* (each topic changes
something, has a changelog entry and a test), *versions* (what is new is new in the next feature release).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches import hooks
from patches.apply import is_current, settle, shown
from patches.base import read_base
from patches.errors import ConflictError, UsageError
from patches.git import EMAIL, NAME, tracked_files
from patches.kept import read_kept, releases
from patches.series import read_series
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patches.repository import Repository
    from patches.series import Series
    from patches.state import State

VERSION = re.compile(r"\b(?:versionadded|versionchanged|deprecated)::(?P<version>.*)")
TEST = re.compile(r"^tests/pytests/.*/test_[^/]+\.py$")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and what to do about it."""

    rule: str
    subject: str
    message: str


@dataclass(frozen=True)
class Findings:
    """All that is wrong, and the rules that could not be checked here."""

    found: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()


def check(repository: Repository) -> Findings:
    """Check every rule; the caller holds the lock.

    Raises:
        UsageError: when there is no tree to check.
    """
    layout = repository.layout
    repository.prepare()
    tree, series = Tree(repository), read_series(layout)
    state = settle(tree)
    if state is None:
        raise UsageError(f"There is no tree at {layout.salt} yet: run 'nox -s apply' first.")
    found = list(_drift(tree, series, state))
    tracked = tracked_files(layout)
    found += _tracked(tree, series, state, tracked)
    for patch in series:
        found += _message(patch.topic, series)
    found += _alone(repository, series, state)
    found += _parts(repository, series, state)
    found += _versions(repository, series, state)
    for release in releases(layout):
        # raises when the series names a topic that has no patch
        read_kept(layout, release)
    skipped = ("tracked: this folder is not a git checkout of the project",) if tracked is None else ()
    return Findings(tuple(found), skipped)


def incomplete(repository: Repository, series: Series, state: State, topics: Iterable[str]) -> tuple[Finding, ...]:
    """Find what topics lack that upstream asks of a pull request: text, trailers, changelog entry, test."""
    wanted = set(topics)
    found = [finding for topic in series.topics if topic in wanted for finding in _message(topic, series)]
    return (*found, *(one for one in _parts(repository, series, state) if one.subject in wanted))


def _drift(tree: Tree, series: Series, state: State) -> Iterator[Finding]:
    repository = tree.repository
    edits = tree.edits()
    if edits:
        yield Finding("drift", shown(edits), "edited but not saved: run 'nox -s save'")
    if not is_current(state, read_base(repository.layout), series):
        yield Finding("drift", "patches", "changed since the tree was made: run 'nox -s apply'")
        return
    for patch, applied in zip(series, state.applied, strict=True):
        if patch.author != f"{NAME} <{EMAIL}>":
            yield Finding("author", patch.topic, f"is by {patch.author}, not by our neutral author: run 'nox -s save'")
        elif repository.export(applied.commit) != patch.data:
            yield Finding("drift", patch.topic, "its file is not what git would write: run 'nox -s save'")


def _tracked(tree: Tree, series: Series, state: State, tracked: tuple[str, ...] | None) -> Iterator[Finding]:
    upstream = tree.repository.files(state.base_commit)
    listed = Counter(series.files)
    present = set(tree.new_files())
    for path in sorted(set(tracked or ()) & upstream.keys()):
        yield Finding("tracked", path, "is upstream's and must not be committed: run 'git rm --cached' on it")
    # a deleted file of no topic only waits for a commit
    salt = tree.repository.layout.salt
    there = {path for path in tracked or () if os.path.lexists(salt / path)}
    for path in sorted((there | present) - upstream.keys() - listed.keys()):
        yield Finding("tracked", path, "belongs to no topic: run 'nox -s save -- --topic NAME FILE', or delete it")
    for path, count in listed.items():
        if count > 1:
            yield Finding("tracked", path, "is listed by two topics: take it out of one's 'Files:' trailers")
        if path not in present:
            yield Finding("tracked", path, "is listed by a topic but missing: restore it, or run 'nox -s save'")


def _message(topic: str, series: Series) -> Iterator[Finding]:
    patch = series.get(topic)
    for key in patch.missing_trailers:
        yield Finding("message", topic, f"has no trailer '{key}:': add it to the patch's message")
    if patch.is_template:
        yield Finding("message", topic, "still has the message of the template: write why, as a pull request does")
    try:
        series.closure(topic)
    except UsageError as error:
        yield Finding("message", topic, str(error))


def _alone(repository: Repository, series: Series, state: State) -> Iterator[Finding]:
    with repository.scratch(state.base_commit, checkout=False) as git:
        for patch in series:
            git.run("read-tree", "--reset", "-u", state.base_commit)
            git.run("update-ref", "--no-deref", "HEAD", state.base_commit)
            try:
                repository.apply(git, series.closure(patch.topic))
            except ConflictError as error:
                yield Finding("alone", patch.topic, f"does not apply with what it requires alone: {error}")
            except UsageError:
                # a wrong Requires is a finding about its message already
                continue


def _versions(repository: Repository, series: Series, state: State) -> Iterator[Finding]:
    """Check that what topics add or change is said to be new in one release, the next that gets features."""
    if state.sources != series.sources:
        return
    # after 3008.5 it is 3009.0
    wanted = f"{int(state.base.version.partition('.')[0]) + 1}.0"
    for patch, applied in zip(series, state.applied, strict=True):
        lines = [(name, line) for name, line in repository.added(f"{applied.commit}^", applied.commit)]
        for name in patch.files:
            path = repository.layout.salt / name
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            lines += [(name, line) for line in text.splitlines()]
        for name, line in lines:
            match = VERSION.search(line)
            if match and not name.startswith("tests/") and match["version"].strip() != wanted:
                said = f"says {match[0].strip()}, but {wanted} is the next release that gets features"
                yield Finding("versions", f"{patch.topic} {name}", said)


def _parts(repository: Repository, series: Series, state: State) -> Iterator[Finding]:
    if state.sources != series.sources:
        return
    before = state.base_commit
    for patch, applied in zip(series, state.applied, strict=True):
        changed = repository.changed(before, applied.commit)
        before = applied.commit
        if patch.is_empty:
            yield Finding("parts", patch.topic, "changes nothing: save an edit to it, or drop it")
            continue
        if not hooks.entries(patch):
            yield Finding("parts", patch.topic, f"has no changelog entry: add salt/changelog/{patch.topic}.<kind>.md")
        wrong = f"is no name of a changelog entry: use {patch.topic}.<kind>.md, or an issue's number"
        for path in sorted({*patch.files} - {*hooks.entries(patch)}):
            if path.startswith("changelog/"):
                yield Finding("parts", path, wrong)
        if not any(TEST.match(path) for path in (*patch.files, *changed)):
            yield Finding("parts", patch.topic, "has no test: add one below salt/tests/pytests/")
