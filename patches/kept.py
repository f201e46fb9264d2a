"""Series that are kept for other releases than the base: fixes, and what most fleets wait for.

``patches/releases/RELEASE/series`` names topics in their order, ``base.txt`` pins the release. A topic has a patch of
its own there only if the one for the base does not make what it should on the release; nothing is kept twice.

git takes each topic over, after all that it requires, as it does for a bump. That a patch applies does not prove that
it works: its tests do, see ``prove``.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.apply import current, ensure_base, ready
from patches.base import Base, learn, parse_base
from patches.branch import Commits, bring, commit
from patches.carry import Carrier, Carry, remove
from patches.errors import ConflictError, UsageError
from patches.layout import write_atomically
from patches.patch import Patch
from patches.series import Series, read_series
from patches.state import Applied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patches.layout import Layout
    from patches.repository import Repository
    from patches.state import State

COMMAND = "keep"


@dataclass(frozen=True)
class Kept:
    """A release with the topics that are kept for it, and those that have a patch of their own there."""

    base: Base
    series: Series
    own: tuple[str, ...]


def releases(layout: Layout) -> tuple[str, ...]:
    """Return the releases that a series is kept for."""
    return tuple(sorted(path.parent.name for path in layout.releases.glob("*/series")))


def read_kept(layout: Layout, release: str) -> Kept | None:
    """Read the series that is kept for a release; None when there is none.

    Raises:
        UsageError: when a topic is none of the base's, or when a patch is on disk without being listed.
    """
    folder = layout.releases / release
    if not (folder / "series").is_file():
        return None
    topics = [line.strip() for line in (folder / "series").read_text(encoding="utf-8").splitlines() if line.strip()]
    shared = read_series(layout)
    own = tuple(path.stem for path in sorted(folder.glob("*.patch")))
    for topic in {*own} - {*topics}:
        raise UsageError(
            f"{folder / topic}.patch is not listed: add '{topic}' to {folder / 'series'}, or delete the file."
        )
    patches = (
        Patch(topic, (folder / f"{topic}.patch").read_bytes()) if topic in own else shared.get(topic)
        for topic in topics
    )
    return Kept(parse_base(folder / "base.txt"), Series(tuple(patches)), own)


def require_kept(layout: Layout, release: str) -> Kept:
    """Read the series that is kept for a release.

    Raises:
        UsageError: when there is none, or as `read_kept` does.
    """
    found = read_kept(layout, release)
    if found is None:
        known = ", ".join(releases(layout)) or "none"
        raise UsageError(f"No series is kept for Salt {release}: choose one of {known}, or make one with 'keep'.")
    return found


def write_kept(layout: Layout, kept: Kept) -> None:
    """Write a series with its pin, and the patches that are the release's own."""
    folder = layout.releases / kept.base.version
    write_atomically(folder / "base.txt", f"{kept.base.requirement}\n".encode())
    write_atomically(folder / "series", "".join(f"{topic}\n" for topic in kept.series.topics).encode())
    for patch in kept.series:
        if patch.topic in kept.own:
            write_atomically(folder / f"{patch.topic}.patch", patch.data)
    for path in folder.glob("*.patch"):
        if path.stem not in kept.own:
            path.unlink()


def keep(repository: Repository, release: str, topics: Sequence[str]) -> Kept:
    """Carry topics, with what they require, to a release, on top of what is kept there; the caller holds the lock.

    A topic that is kept already is carried again in its place, with all that are kept after it.

    Raises:
        ConflictError: when git needs help: the work tree is left in ``build/keep``.
    """
    layout = repository.layout
    _, series, state = ready(repository)
    Carry.make_room(repository, COMMAND)
    for topic in topics:
        series.get(topic)
    base = learn(layout, release)
    onto = ensure_base(repository, base)
    before = _before(layout, base)
    there = before.series.topics
    stay = there[: min((there.index(topic) for topic in topics if topic in there), default=len(there))]
    again = {topic for topic in there if topic not in (*stay, *topics)}
    wanted = {patch.topic for topic in (*topics, *again) for patch in series.closure(topic)} - {*stay}
    ground = (onto, *commit(repository, [before.series.get(topic) for topic in stay], Commits(onto)))[-1]
    carried = ",".join(topic for topic in series.topics if topic in wanted)
    carry = Carry.begin(repository, COMMAND, ground, base, state.head, ground, carried, ",".join(sorted(again)))
    return _go_on(repository, carry, series, state)


def resume(repository: Repository) -> Kept:
    """Go on with a release once the conflict in ``build/keep`` is resolved.

    Raises:
        ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
    """
    _, series, state = ready(repository)
    return _go_on(repository, Carry.waiting(repository, COMMAND), series, state, resolved=True)


def _before(layout: Layout, base: Base) -> Kept:
    """Return what is kept for a release so far."""
    return read_kept(layout, base.version) or Kept(base, Series(()), ())


def _go_on(repository: Repository, carry: Carry, series: Series, state: State, *, resolved: bool = False) -> Kept:
    """Carry the topics that `keep` noted, and write what is kept then."""
    if carry.head != state.head:
        raise carry.changed()
    ground, topics, again = carry.more
    patches = [series.get(topic) for topic in topics.split(",")]
    needed = {patch.topic for one in patches for patch in series.closure(one.topic)}
    commits = _commits(repository, [patch for patch in series if patch.topic in needed], state.base_commit)
    if again:
        kept = _before(repository.layout, carry.base).series.patches
        # as they are kept, with what was resolved for the release, unless a patch below them no longer applies there
        with contextlib.suppress(ConflictError):
            there = _commits(repository, kept, ensure_base(repository, carry.base))
            commits |= {topic: there[topic] for topic in again.split(",")}
    applied = [Applied(patch.topic, patch.sha256, commits[patch.topic]) for patch in patches]
    carrier = Carrier(carry.git, ground, applied, repository.layout.discarded / f"keep-{carry.base.version}")
    carry.go_on(carrier, resolved=resolved)
    return _finish(repository, carry, carrier.commits(), patches)


def _commits(repository: Repository, patches: Sequence[Patch], onto: str) -> dict[str, str]:
    """Commit topics in their order; return the commit of each."""
    return dict(zip((patch.topic for patch in patches), commit(repository, patches, Commits(onto)), strict=True))


def _finish(repository: Repository, carry: Carry, results: Sequence[str], patches: Sequence[Patch]) -> Kept:
    """Write the series with the topics that were carried, and the patches that differ from the base's."""
    layout = repository.layout
    before = _before(layout, carry.base)
    carried = {patch.topic for patch in patches}
    kept = [patch for patch in before.series if patch.topic not in carried]
    own = {topic for topic in before.own if topic not in carried}
    onto = ensure_base(repository, carry.base)
    for patch, result in zip(patches, results, strict=True):
        chosen = patch
        if not _makes(repository, onto, (*kept, patch), result):
            chosen = _own(repository, patch, result)
            own.add(patch.topic)
            if not _makes(repository, onto, (*kept, chosen), result):
                raise ConflictError(f"The patch of {patch.topic} would not make its tree again: nothing was written.")
        kept.append(chosen)
    made = Kept(carry.base, Series(tuple(kept)), tuple(sorted(own)))
    write_kept(layout, made)
    remove(repository, COMMAND)
    return made


def _makes(repository: Repository, onto: str, patches: Sequence[Patch], result: str) -> bool:
    """Tell whether patches make a commit's tree of a release."""
    try:
        made = commit(repository, patches, Commits(onto))[-1]
    except ConflictError:
        return False
    return repository.tree(made) == repository.tree(result)


def _own(repository: Repository, patch: Patch, result: str) -> Patch:
    """Return the patch of a topic for a release: what is left to change there once its new files are laid."""
    present = repository.files(result)
    patch = patch.with_files(name for name in patch.files if name in present)
    with repository.scratch(f"{result}^") as git:
        bring(repository, git, patch, {name: name for name in patch.files})
        laid = git.text("rev-parse", "HEAD")
    message = repository.git.text("log", "-1", "--format=%B", result)
    alone = repository.git.text("commit-tree", repository.tree(result), "-p", laid, feed=message.encode())
    return patch.with_changes(repository.export(alone))


@dataclass(frozen=True)
class Fit:
    """A topic that is kept for a release: its commit there, after what it requires, or why it does not apply."""

    topic: str
    release: str
    commit: str = ""
    conflict: str = ""


def fits(repository: Repository, release: str, topics: Sequence[str]) -> tuple[str, tuple[Fit, ...]]:
    """Try topics (all if none is named) of the series for a release on it; the caller holds the lock.

    Returns:
        The release's commit, and what became of each topic.

    Raises:
        UsageError: when there is no such series or topic, or when the tree is not what the patches say.
        FetchError: when the release can't be downloaded.
    """
    current(repository)
    kept = require_kept(repository.layout, release)
    onto, found = ensure_base(repository, kept.base), []
    for topic in topics or kept.series.topics:
        try:
            made = commit(repository, kept.series.closure(topic), Commits(onto))[-1]
        except ConflictError as error:
            found.append(Fit(topic, release, conflict=str(error)))
        else:
            found.append(Fit(topic, release, made))
    return onto, tuple(found)
