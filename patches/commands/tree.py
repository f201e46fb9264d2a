"""The commands that make the tree, save its edits, drop a topic of it, and say what there is."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from patches import apply, drop, git, save
from patches.base import read_base
from patches.errors import UsageError
from patches.patch import trailers_of
from patches.series import read_series
from patches.state import read_state
from patches.tree import Tree

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from patches.repository import Repository


@dataclass(frozen=True)
class CommandResult:
    """What a command prints, for people and for machines, its exit code, and what goes to standard error."""

    lines: tuple[str, ...]
    data: Mapping[str, Any]
    code: int = 0
    warnings: tuple[str, ...] = ()


# what `status` says of each list of files
STATUS = {
    "edits": "edited, not saved",
    "new_files": "new, of no topic yet",
    "missing_files": "of a topic, but missing",
    "changed_files": "of a topic, not as last committed",
}


def run_apply(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Make the tree."""
    made = apply.make(repository, keep_edits=options.keep_edits, discard=options.discard)
    done = "made" if made.changed else "unchanged"
    lines = []
    if made.changed or not options.quiet:
        lines = [f"Salt {made.base.version} with {', '.join(made.topics) or 'no patch'}: {done}"]
        lines += [f"commit {made.head}", f"tree {made.tree}"]
    if made.discarded:
        lines.append(f"edits dropped; 'git apply --directory=salt {made.discarded}' brings them back")
    lines += [f"saved, but not committed before the patches changed: a copy is in {path}" for path in made.kept]
    if made.restored_stock:
        lines.append(f"build/stock had been changed and is pristine again: {', '.join(made.restored_stock)}")
    if made.edits:
        lines.append(f"edits kept, not saved to patches/: {', '.join(made.edits)}")
    return CommandResult(tuple(lines), asdict(made))


def run_save(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Save the edits."""
    if (options.message or options.files) and not (options.topic or options.new):
        raise UsageError("FILE and --message need --topic NAME or --new NAME: say which topic they are for.")
    if options.message and not options.new:
        raise UsageError("--message is for --new: edit the message of an existing topic in its patch file.")
    if (options.patch or options.diff) and not (options.topic or options.new):
        raise UsageError("--patch and --diff need --topic NAME or --new NAME: say which topic the hunks are for.")
    message = read_message(options.message) if options.message else None
    wish = save.Wish(
        topic=options.new or options.topic,
        new=bool(options.new),
        files=resolve_files(repository, tuple(options.files)),
        message=message,
        date=dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat(),
        ask=options.patch,
        diff=readable(options.diff) if options.diff else None,
    )
    saved = save.save(repository, wish)
    lines = [f"{topic}: {path}" for topic, paths in saved.edits.items() for path in paths]
    lines += [f"{topic}: new file {path}" for topic, paths in saved.new_files.items() for path in paths]
    lines += [f"written: patches/{topic}.patch" for topic in saved.written] or ["nothing to save"]
    if wish.new and wish.topic and read_series(repository.layout).get(wish.topic).is_template:
        lines.append(f"write its message: the head of patches/{wish.topic}.patch, then 'nox -s apply'")
    lines += [f"left: new file {path} belongs to no topic yet" for path in saved.left]
    lines += [f"left: edits of {path} are not saved yet" for path in saved.unsaved]
    if saved.proposed:
        names = ", ".join(saved.proposed)
        lines.append(f"added to the message: 'Requires: {names}', whose lines it changes; correct it if that is wrong")
    return CommandResult(tuple(lines), asdict(saved))


def run_drop(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Drop a topic."""
    dropped = drop.drop(repository, options.topic)
    lines = [f"dropped: {dropped.topic}", *(f"removed: salt/{name}" for name in dropped.files)]
    lines += [f"written: patches/{topic}.patch" for topic in dropped.written]
    lines += [f"a copy is in {dropped.copy}", f"tree {dropped.tree}"]
    return CommandResult(tuple(lines), asdict(dropped))


def run_status(repository: Repository, _options: argparse.Namespace) -> CommandResult:
    """Show what there is, without changing anything."""
    layout = repository.layout
    base, series, state = read_base(layout), read_series(layout), read_state(layout)
    commits: tuple[str, ...] = ()
    paths: dict[str, tuple[str, ...]] = {"edits": (), "new_files": (), "missing_files": (), "changed_files": ()}
    if state is None:
        tree = "not made: run 'nox -s apply'"
    elif state.move is not None:
        tree = "half made: run 'nox -s apply'"
    else:
        work = Tree(repository)
        present = work.new_files()
        listed = sorted(set(series.files))
        paths["edits"] = work.edits()
        commits = work.commits(state.head)
        paths["new_files"] = tuple(name for name in present if name not in listed)
        paths["missing_files"] = tuple(name for name in listed if name not in present)
        changed = git.changed_files(layout)
        paths["changed_files"] = tuple(name for name in changed if name in present and name in listed)
        current = apply.is_current(state, base, series)
        unsaved = ", with unsaved edits" if paths["edits"] or commits else ""
        tree = ("made" if current else "outdated: run 'nox -s apply'") + unsaved
    lines = [f"base: Salt {base.version} ({base.sha256})", f"tree: {tree}"]
    if commits:
        lines.append(f"commits made inside the tree, not saved: {len(commits)}; 'save' takes them into a topic")
    lines += [f"topic: {patch.topic}: {patch.subject}" for patch in series]
    lines += [f"{text}: {apply.shown(paths[key])}" for key, text in STATUS.items() if paths[key]]
    topics = [{"topic": patch.topic, "subject": patch.subject, "files": list(patch.files)} for patch in series]
    head = state.head if state is not None else None
    data = {"base": asdict(base), "tree": tree, "head": head, "topics": topics, "commits": list(commits), **paths}
    return CommandResult(tuple(lines), data)


def resolve_files(repository: Repository, names: tuple[str, ...]) -> tuple[str, ...]:
    """Accept names relative to ``salt/`` or to the project.

    :raises UsageError: when there is no such file in either place.
    """
    layout = repository.layout
    resolved = []
    for name in names:
        outer = (layout.root / name).resolve()
        if (layout.salt / name).exists():
            resolved.append(name)
        elif outer.exists() and outer.is_relative_to(layout.salt):
            resolved.append(outer.relative_to(layout.salt).as_posix())
        else:
            raise UsageError(f"There is no file {layout.salt / name}: name files relative to salt/.")
    return tuple(resolved)


def readable(path: Path) -> Path:
    """Give the absolute path of a file that can be read.

    :raises UsageError: when it cannot.
    """
    try:
        path.read_bytes()
    except OSError as error:
        raise UsageError(f"The file {path} cannot be read ({error.strerror}): name a diff.") from None
    return path.resolve()


def read_message(path: Path) -> str:
    """Read the message of a new topic.

    :raises UsageError: when it cannot be read, or has no trailers to put the new files beside.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"The message file {path} cannot be read ({why}): name a text file.") from None
    if not trailers_of(text.strip().partition("\n\n")[2]):
        raise UsageError(
            f"The message file {path} does not end with trailers: after the text and an empty line add "
            "'Upstream-PR: none yet' and 'Remove-When: upstream merges it'."
        )
    return text
