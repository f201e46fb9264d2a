"""Series that are kept for other releases than the base: fixes, and what most fleets wait for.

``patches/releases/RELEASE/series`` names topics in their order, ``base.txt`` pins the release. A topic has a patch of
its own there only if the one for the base does not make what it should on the release; nothing is kept twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches import branch, sdist
from patches.base import Base, parse_base
from patches.carry import Carrier, Carry, remove
from patches.errors import ConflictError, UsageError
from patches.layout import write_atomically
from patches.patch import Patch
from patches.ready import ready
from patches.series import Series, read_series
from patches.state import Applied
from patches.stock import ensure_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patches.git import Git
    from patches.layout import Layout
    from patches.repository import Repository
    from patches.state import State


@dataclass(frozen=True)
class Kept:
    """A release with the topics that are kept for it, and those that have a patch of their own there."""

    base: Base
    series: Series
    own: tuple[str, ...]


def releases(layout: Layout) -> tuple[str, ...]:
    """Give the releases that a series is kept for."""
    return tuple(sorted(path.parent.name for path in layout.releases.glob("*/series")))


def read_kept(layout: Layout, release: str) -> Kept | None:
    """Read the series that is kept for a release; None when there is none.

    :raises UsageError: when a topic is none of the base's, or when a patch is on disk without being listed.
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

    :raises ConflictError: when git needs help: the work tree is left in ``build/keep``.
    """
    layout = repository.layout
    _, series, state = ready(repository)
    if (layout.keeping / ".git").exists():
        raise UsageError("An earlier one waits in build/keep: end it with 'keep --continue' or 'keep --abort'.")
    base = sdist.learn(layout, release)
    onto = ensure_base(repository, base)
    before = read_kept(layout, release)
    stay = [patch for patch in (before.series if before else ()) if patch.topic not in topics]
    wanted = {patch.topic for topic in topics for patch in series.closure(topic)} - {patch.topic for patch in stay}
    ground = branch.commit(repository, stay, branch.Commits(onto)) if stay else onto
    names = [patch.topic for patch in series if patch.topic in wanted]
    words = (release, base.sha256, state.head, ground, ",".join(names), ",".join(patch.topic for patch in stay))
    Carry.begin(repository, layout.keeping, ground, words)
    return _go_on(repository, state)


def resume(repository: Repository) -> Kept:
    """Go on with a release once the conflict in ``build/keep`` is resolved.

    :raises ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
    """
    _, _, state = ready(repository)
    return _go_on(repository, state, resolved=True)


def abandon(repository: Repository) -> None:
    """Give up what waits in ``build/keep``; what was resolved is known to the next try."""
    repository.prepare()
    waiting = _waiting(repository)
    Carrier(waiting.git, waiting.ground, (), repository.layout.discarded).remember()
    remove(repository, repository.layout.keeping)


@dataclass(frozen=True)
class _Waiting:
    """What is being carried, on what."""

    git: Git
    base: Base
    head: str
    ground: str
    topics: tuple[str, ...]
    stay: tuple[str, ...]


def _waiting(repository: Repository) -> _Waiting:
    found = Carry.find(repository.layout.keeping, 6)
    if found is None:
        raise UsageError("Nothing waits in build/keep: start with 'keep RELEASE TOPIC'.")
    version, sha256, head, ground, topics, stay = found.words
    names = (tuple(filter(None, text.split(","))) for text in (topics, stay))
    return _Waiting(found.git, Base(version, sha256), head, ground, *names)


def _go_on(repository: Repository, state: State, *, resolved: bool = False) -> Kept:
    layout, waiting = repository.layout, _waiting(repository)
    if waiting.head != state.head:
        raise UsageError("The patches changed since: give it up with 'keep --abort' and begin again.")
    series = read_series(layout)
    patches = [series.get(topic) for topic in waiting.topics]
    everything = [
        patch for patch in series if patch.topic in {p.topic for t in waiting.topics for p in series.closure(t)}
    ]
    last = branch.commit(repository, everything, branch.Commits(state.base_commit))
    listed = repository.git.text("rev-list", "--reverse", f"{state.base_commit}..{last}").split()
    commits = dict(zip((patch.topic for patch in everything), listed, strict=True))
    applied = [Applied(patch.topic, patch.sha256, commits[patch.topic]) for patch in patches]
    copies = layout.discarded / f"keep-{waiting.base.version}"
    carrier = Carrier(waiting.git, waiting.ground, applied, copies)
    if resolved:
        carrier.end_conflict(f"edit the files in {layout.keeping}, then 'keep --continue' again")
    conflict = carrier.go_on()
    if conflict is not None:
        raise ConflictError(
            f"Salt {waiting.base.version} conflicts with {conflict}: edit the files in {layout.keeping}, then "
            "'keep --continue', or 'keep --abort', which keeps what you resolved."
        )
    return _finish(repository, waiting, patches)


def _finish(repository: Repository, waiting: _Waiting, patches: Sequence[Patch]) -> Kept:
    """Write the series with the topics that were carried, and the patches that differ from the base's."""
    layout, git = repository.layout, waiting.git
    before = read_kept(layout, waiting.base.version)
    kept = [patch for patch in (before.series if before else ()) if patch.topic in waiting.stay]
    own = {patch.topic for patch in kept if before and patch.topic in before.own}
    results = git.text("rev-list", "--reverse", f"{waiting.ground}..HEAD").split()
    onto = ensure_base(repository, waiting.base)
    for patch, result in zip(patches, results, strict=True):
        chosen = patch
        if not _makes(repository, onto, (*kept, patch), result):
            chosen = _own(repository, patch, result)
            own.add(patch.topic)
            if not _makes(repository, onto, (*kept, chosen), result):
                raise ConflictError(f"The patch of {patch.topic} would not make its tree again: nothing was written.")
        kept.append(chosen)
    made = Kept(waiting.base, Series(tuple(kept)), tuple(sorted(own)))
    write_kept(layout, made)
    remove(repository, layout.keeping)
    return made


def _makes(repository: Repository, onto: str, patches: Sequence[Patch], result: str) -> bool:
    """Tell whether patches make a commit's tree of a release."""
    try:
        made = branch.commit(repository, patches, branch.Commits(onto))
    except ConflictError:
        return False
    return repository.tree(made) == repository.tree(result)


def _own(repository: Repository, patch: Patch, result: str) -> Patch:
    """Give the patch of a topic for a release: what is left to change there once its new files are laid."""
    present = repository.files(result)
    patch = patch.with_files(name for name in patch.files if name in present)
    with repository.scratch(f"{result}^") as git:
        branch.bring(repository, git, patch, {name: name for name in patch.files})
        laid = git.text("rev-parse", "HEAD")
    message = repository.git.text("log", "-1", "--format=%B", result)
    alone = repository.git.text("commit-tree", repository.tree(result), "-p", laid, feed=message.encode())
    return patch.with_changes(repository.export(alone))
