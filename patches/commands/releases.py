"""The commands that bring patches elsewhere: to other releases, upstream, and into wheels."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from patches import bump, export, features, kept, submit, wheels
from patches.commands.tree import CommandResult
from patches.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from patches.repository import Repository


def run_keep(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Keep topics for another release."""
    words = (options.resume or options.abort, bool(options.release and options.topics))
    if words[0] == words[1]:
        raise UsageError("Say either RELEASE and TOPIC, or --continue, or --abort.")
    if options.abort:
        kept.abandon(repository)
        return CommandResult(("given up; nothing was changed",), {"aborted": True})
    made = kept.resume(repository) if options.resume else kept.keep(repository, options.release, options.topics)
    notes = {
        patch.topic: "a patch of its own" if patch.topic in made.own else "the base's patch" for patch in made.series
    }
    lines = [f"Salt {made.base.version}: {topic}: {how}" for topic, how in notes.items()]
    return CommandResult(tuple(lines), {"release": made.base.version, "topics": notes})


def run_submit(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Make the branches."""
    if options.onto and not options.clone:
        raise UsageError("--onto names a commit of the clone: say which with --clone DIR.")
    wish = submit.Wish(
        topics=tuple(options.topics),
        numbers=_numbers(options.topics, options.number),
        output=(options.output or repository.layout.build / "submit").resolve(),
        mails=options.mails,
        clone=options.clone.resolve() if options.clone else None,
        onto=options.onto,
    )
    lines = []
    sent = submit.submit(repository, wish)
    for one in sent:
        lines += [f"{one.topic}: version {one.version} by {one.author}, tree {one.tree}"]
        lines += [f"branch {one.branch} of {one.repository}", f"on {one.base_commit}", one.cover, *one.mails]
    warnings = tuple(dict.fromkeys(text for one in sent for text in one.warnings))
    return CommandResult(tuple(lines), {"submissions": [asdict(one) for one in sent]}, warnings=warnings)


def _numbers(topics: list[str], given: list[str]) -> dict[str, int]:
    """Read numbers of upstream's, each for the topic that it names or for the only one that is sent.

    :raises UsageError: when one is no number, or when it is not clear whose it is.
    """
    numbers = {}
    for text in given:
        topic, _, number = text.rpartition("=")
        if not number.isdigit() or not int(number):
            raise UsageError(f"'{text}' is no number of an issue: say --number 68123, or --number TOPIC=68123.")
        if not topic and len(topics) != 1:
            raise UsageError(f"Whose number is {number}? With several topics say --number TOPIC={number}.")
        numbers[topic or topics[0]] = int(number)
    return numbers


def run_export(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Write full patches."""
    output = options.output or repository.layout.build / "export"
    made = export.export(repository, options.topics, output.resolve(), code=options.code, release=options.base)
    lines = (f"Salt {made.base}: {len(made.topics)} patches, tree {made.tree}", made.series, *made.patches)
    return CommandResult(lines, asdict(made))


def run_bump(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Move to another release."""
    if (options.version is None) != (options.resume or options.abort):
        raise UsageError("Say either which VERSION to go to, or --continue, or --abort.")
    if options.forget and not options.abort:
        raise UsageError("--forget goes with --abort: it forgets how conflicts were resolved.")
    if options.abort:
        bump.abandon(repository, forget=options.forget)
        return CommandResult(("given up; nothing was changed",), {"aborted": True})
    if options.resume:
        bumped = bump.resume(repository)
    else:
        bumped = bump.bump(repository, options.version, sha256=options.hash, keep_conflict=options.keep_conflict)
    lines = [f"Salt {bumped.old.version} -> {bumped.new.version}", bumped.range_diff or "no patches, no range-diff"]
    lines += [f"written: patches/{topic}.patch" for topic in bumped.written]
    lines += [
        f"left out: {one.topic}: {one.file}, which Salt {bumped.new.version} does not have; its change is in {one.copy}"
        for one in bumped.left_out
    ]
    lines += [f"saved, but not committed before the bump: a copy is in {path}" for path in bumped.copies]
    lines += [f"{topic} changes nothing any more: upstream has it, think of removing it" for topic in bumped.emptied]
    lines += [f"{bumped.new.requirement}", f"tree {bumped.tree}"]
    return CommandResult(tuple(lines), asdict(bumped))


def run_features(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Show which feature one gets on which release."""
    found = features.cells(repository)
    lines = [f"{one.release} {one.feature}: {one.how} ({one.test})" for one in found]
    if options.markdown:
        lines = features.table(found)
    return CommandResult(tuple(lines), {"features": [asdict(one) for one in found]})


def run_wheels(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Build the extensions."""
    made = wheels.build(repository.layout, offline=options.offline)
    lines = tuple(f"{one.path} sha256:{one.sha256}" for one in made)
    return CommandResult(lines, {"wheels": [{**asdict(one), "path": str(one.path)} for one in made]})
