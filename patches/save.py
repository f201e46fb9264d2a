"""Turn edits of the tree back into patches.

Each edited file goes to the topic that changes it already; git folds it into that topic's commit and brings the
later ones along. A new file goes where the user says, as nothing else tells whose it is. What is written is applied
once more first and compared with the tree, so that a patch on disk always makes the tree that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.apply import build_state, is_current, settle, shown
from patches.base import read_base
from patches.errors import ConflictError, UsageError
from patches.patch import PLACEHOLDER, Patch, require_topic, requires_of, trailers_of
from patches.repository import reason
from patches.series import Series, read_series, write_series
from patches.state import write_state
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patches.git import Git
    from patches.repository import Repository
    from patches.state import State


def propose(
    repository: Repository, base_commit: str, series: Series, topic: str, commits: Mapping[str, str]
) -> tuple[Series, tuple[str, ...]]:
    """Add to a topic's trailers what it needs and does not name; give the series with it, and what was added.

    Args:
        commits: each topic's commit.
    """
    if _applies(repository, base_commit, series, topic, ()):
        return series, ()
    # of all that change the same files, those without which it does not apply
    touched = set(repository.changed(f"{commits[topic]}^", commits[topic]))
    wanted = [
        name
        for name, commit in commits.items()
        if name != topic and touched & set(repository.changed(f"{commit}^", commit))
    ]
    # later ones first: they bring along what they require
    for name in reversed(wanted):
        fewer = [other for other in wanted if other != name]
        if _applies(repository, base_commit, series, topic, fewer):
            wanted = fewer
    if not wanted or not _applies(repository, base_commit, series, topic, wanted):
        return series, ()
    return series.replaced([series.get(topic).with_requires(wanted)]), tuple(wanted)


def _applies(repository: Repository, base_commit: str, series: Series, topic: str, more: Iterable[str]) -> bool:
    """Tell whether a topic applies to the base after what it requires, and some more."""
    needed = {patch.topic for name in (topic, *more) for patch in series.closure(name)}
    patches = [patch for patch in series if patch.topic in needed]
    try:
        with repository.scratch(base_commit, checkout=False) as git:
            repository.apply(git, patches)
    except ConflictError:
        return False
    return True


@dataclass(frozen=True)
class Request:
    """What the user asked for: a topic (perhaps a new one) for all edits and unclaimed files, or for some files."""

    topic: str | None = None
    new: bool = False
    files: tuple[str, ...] = ()
    message: str | None = None
    date: str | None = None


@dataclass(frozen=True)
class Saved:
    """What was saved: edited and new files for each topic, the patches that were written, the new files that were left.

    Files are left when the user named others: they belong to no topic yet. `proposed` are topics that a new one needs
    and did not name.
    """

    edits: dict[str, tuple[str, ...]]
    new_files: dict[str, tuple[str, ...]]
    written: tuple[str, ...]
    head: str
    left: tuple[str, ...] = ()
    proposed: tuple[str, ...] = ()


def save(repository: Repository, request: Request) -> Saved:
    """Save the edits; the caller holds the lock.

    Raises:
        UsageError: when it is not clear which topic a file belongs to; nothing is written then.
        ConflictError: when a later topic changes the same lines; nothing is written then.
    """
    layout = repository.layout
    repository.prepare()
    tree, base, series = Tree(repository), read_base(layout), read_series(layout)
    state = settle(tree)
    if state is None:
        raise UsageError(f"There is no tree at {layout.salt} yet: run 'nox -s apply' first.")
    if not is_current(state, base, series):
        raise UsageError(
            "patches/ changed since the tree was made: run 'nox -s apply -- --keep-edits' first, then save."
        )
    _require_topic(request, series)
    edited, present = tree.edits(), tree.new_files()
    for name in request.files:
        if name not in edited and name not in present:
            raise UsageError(f"{layout.salt / name} is neither an edited nor a new file: leave it out.")
    snapshot = tree.snapshot()
    edits = _assign(edited, request, series, _touching(repository, state))
    claims, left = _claim(present, request, series)
    if request.new and request.topic not in edits and not claims:
        raise UsageError(f"There is nothing to save to '{request.topic}': first edit a file below salt/ or add one.")
    commits, patches = _fold(tree, state, series, edits, request, snapshot), []
    for topic, commit in commits.items():
        patch = Patch(topic, repository.export(commit))
        moved = claims if topic != request.topic else ()
        kept = [name for name in patch.files if name in present and name not in moved]
        patches.append(patch.with_files([*kept, *(claims if topic == request.topic else ())]))
    result = Series(tuple(patches))
    proposed: tuple[str, ...] = ()
    if request.new and request.topic:
        result, proposed = propose(repository, state.base_commit, result, request.topic, commits)
    # applied once more: commit ids come from the files alone, and a patch that loses something is found here
    new = build_state(repository, base, result)
    if repository.tree(new.head) != snapshot:
        raise ConflictError("The patches would not make this tree again: tell which file was saved last.")
    written = write_series(layout, result)
    write_state(layout, new)
    tree.adopt(new.head, new.head, [new.head])
    tree.forget_commits()
    new_files = {request.topic: claims} if request.topic and claims else {}
    return Saved(edits, new_files, written, new.head, left, proposed)


def _require_topic(request: Request, series: Series) -> None:
    """Raise UsageError for a topic that is none, or for a new one with a wrong name or needs that are none."""
    if request.topic is None:
        return
    require_topic(request.topic)
    if not request.new:
        series.get(request.topic)
    elif request.topic in series.topics:
        raise UsageError(
            f"The topic '{request.topic}' exists already: name it with --topic instead of --new, or edit its message "
            f"in patches/{request.topic}.patch and run 'nox -s apply'."
        )
    for name in requires_of(trailers_of((request.message or "").strip().partition("\n\n")[2])):
        if name not in series.topics:
            raise UsageError(
                f"The message requires '{name}', which is no topic of patches/series: name topics of it, or leave the "
                "trailer 'Requires:' out."
            )


def _touching(repository: Repository, state: State) -> dict[str, list[str]]:
    """Give, for each of upstream's files that is patched, the topics that change it."""
    touching: dict[str, list[str]] = {}
    before = state.base_commit
    for applied in state.applied:
        for path in repository.changed(before, applied.commit):
            touching.setdefault(path, []).append(applied.topic)
        before = applied.commit
    return touching


def _assign(
    paths: Iterable[str], request: Request, series: Series, touching: Mapping[str, list[str]]
) -> dict[str, tuple[str, ...]]:
    """Decide which topic each edit belongs to; raise UsageError when the user has to."""
    assigned: dict[str, list[str]] = {}
    unclear = []
    for path in paths:
        owners = touching.get(path) or list(series.topics)
        if request.topic is not None and (not request.files or path in request.files):
            assigned.setdefault(request.topic, []).append(path)
        elif len(owners) == 1:
            assigned.setdefault(owners[0], []).append(path)
        else:
            unclear.append(f"{path} ({', '.join(owners)})" if owners else path)
    if unclear:
        raise UsageError(
            f"It is not clear which topic these files belong to: {'; '.join(unclear)}. Say it with "
            "'nox -s save -- --topic NAME FILE...', or start a topic with '--new NAME'."
        )
    return {topic: tuple(files) for topic, files in assigned.items()}


def _claim(present: Iterable[str], request: Request, series: Series) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the new files that go to the user's topic, and those that stay; raise UsageError if they need a topic.

    A file that the user names moves there from the topic that lists it; without names only unclaimed files go.
    """
    unclaimed = [name for name in present if name not in series.files]
    if request.topic is None and unclaimed:
        raise UsageError(
            f"New files belong to no topic yet: {shown(tuple(unclaimed))}. Say whose they are with 'nox -s save -- "
            "--topic NAME [FILE...]', start a topic with '--new NAME [FILE...]', or delete them."
        )
    if not request.files:
        return tuple(unclaimed), ()
    owned = series.get(request.topic).files if request.topic in series.topics else ()
    claims = tuple(name for name in present if name in request.files and name not in owned)
    return claims, tuple(name for name in unclaimed if name not in claims)


def _fold(
    tree: Tree, state: State, series: Series, edits: Mapping[str, tuple[str, ...]], request: Request, snapshot: str
) -> dict[str, str]:
    """Make the topics' commits with the edits in them; give each topic's commit, in order."""
    repository = tree.repository
    commits = {one.topic: one.commit for one in state.applied}
    if not edits and not request.new:
        return commits
    topics = [*series.topics, request.topic] if request.new and request.topic else list(series.topics)
    with repository.scratch(state.head) as git:
        # the new topic's edits stay staged until its own commit, so they come last
        for topic, files in sorted(edits.items(), key=lambda item: item[0] not in commits):
            git.run(
                "restore", f"--source={snapshot}", "--staged", "--worktree", "--", *(f":(literal){f}" for f in files)
            )
            if topic in commits:
                git.run("commit", "--quiet", "--message", f"fixup! {commits[topic]}")
        if request.new:
            message = request.message or _message(tree, state)
            extra = [f"--date={request.date}"] if request.date else []
            git.run("commit", "--quiet", "--allow-empty", *extra, "-F", "-", feed=message.encode())
        _squash(git, state.base_commit)
        listed = git.text("rev-list", "--reverse", f"{state.base_commit}..HEAD").split()
    return dict(zip(topics, listed, strict=True))


def _message(tree: Tree, state: State) -> str:
    """Return the message of the one commit that was made inside the tree, with our trailers; else the template."""
    commits = tree.commits(state.head)
    if len(commits) != 1:
        return PLACEHOLDER
    message = tree.git.text("log", "-1", "--format=%B", commits[0]).strip()
    trailers = PLACEHOLDER.strip().rpartition("\n\n")[2]
    return f"{message}\n\n{trailers}\n" if not trailers_of(message) else f"{message}\n{trailers}\n"


def _squash(git: Git, base_commit: str) -> None:
    """Let git move each fix-up into its topic's commit; raise ConflictError if a later one changes the same lines."""
    result = git.attempt("rebase", "--quiet", "--interactive", "--autosquash", "--empty=keep", base_commit)
    if result.code != 0:
        files = ", ".join(git.paths("diff", "-z", "--name-only", "--diff-filter=U")) or reason(result.err)
        git.attempt("rebase", "--abort")
        raise ConflictError(
            f"A later topic changes the same lines of {files}: save the edit to that topic with --topic, or edit the "
            "patches by hand. Nothing was written."
        )
