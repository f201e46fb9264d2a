"""What each command does with its options, and what it prints."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from patches import apply, bump, check, drop, export, features, git, kept, prove, save, style, submit, suite, wheels
from patches.base import learn, read_base
from patches.errors import UsageError
from patches.layout import locked
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
    request = save.Request(
        topic=options.new or options.topic,
        new=bool(options.new),
        files=resolve_files(repository, tuple(options.files)),
        message=message,
        date=dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat(),
        ask=options.patch,
        diff=readable(options.diff) if options.diff else None,
    )
    saved = save.save(repository, request)
    lines = [f"{topic}: {path}" for topic, paths in saved.edits.items() for path in paths]
    lines += [f"{topic}: new file {path}" for topic, paths in saved.new_files.items() for path in paths]
    lines += [f"written: patches/{topic}.patch" for topic in saved.written] or ["nothing to save"]
    if request.new and request.topic and read_series(repository.layout).get(request.topic).is_template:
        lines.append(f"write its message: the head of patches/{request.topic}.patch, then 'nox -s apply'")
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
    """Return the absolute path of a file that can be read.

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


def run_check(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Check every rule."""
    if options.base:
        return _check_base(repository, options)
    if options.markdown or options.output:
        raise UsageError("--markdown and --output are for other releases: say which with --base RELEASE.")
    trial = None
    with locked(repository.layout):
        findings = check.check(repository)
        found = list(findings.found)
        if options.tests and not found:
            trial = prove.trial(repository, options.topic)
    proofs = prove.prove(repository, trial) if trial else ()
    found += [finding for proof in proofs for finding in proof.findings]
    lines = [f"not checked: {text}" for text in findings.skipped]
    lines += [proof.line for proof in proofs]
    lines += [f"{one.rule}: {one.subject} {one.message}" for one in found]
    count = "1 finding" if len(found) == 1 else f"{len(found)} findings"
    lines.append(count if found else "the patch set is in order")
    data = {"ok": not found, "findings": [asdict(one) for one in found], "skipped": list(findings.skipped)}
    return CommandResult(tuple(lines), {**data, "tests": [asdict(proof) for proof in proofs]}, 1 if found else 0)


def _check_base(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Try the topics on other releases; those that are kept for a release have to apply, and to pass their tests."""
    output = options.output or repository.layout.build / "fits"
    trials = {}
    with locked(repository.layout):
        found = kept.fits(repository, options.base, options.topic, output.resolve())
        for release in dict.fromkeys(options.base) if options.tests else ():
            commits = {one.topic: one.commit for one in found if one.release == release and one.commit}
            commit = apply.ensure_base(repository, learn(repository.layout, release))
            trials[release] = prove.Trial(commit, commits)
    proofs = {release: prove.prove(repository, trial) for release, trial in trials.items()}
    named = {(one.release, one.topic) for one in found if one.kept}
    wrong = [f"{one.release} {one.topic}" for one in found if one.kept and not one.commit]
    lines = [f"{one.release} {one.topic}: {one.verdict}" for one in found]
    for release, listed in proofs.items():
        lines += [f"{release} {proof.line}" for proof in listed]
        lines += [f"{release} {one.subject} {one.message}" for proof in listed for one in proof.findings]
        wrong += [f"{release} {proof.topic}" for proof in listed if proof.findings and (release, proof.topic) in named]
    if options.markdown:
        lines = kept.table(found)
    elif wrong:
        lines.append(f"kept, and not in order: {', '.join(dict.fromkeys(wrong))}")
    data = {"fits": [{**asdict(one), "verdict": one.verdict} for one in found], "wrong": list(dict.fromkeys(wrong))}
    tests = {release: [asdict(proof) for proof in listed] for release, listed in proofs.items()}
    return CommandResult(tuple(lines), {**data, "tests": tests}, 1 if wrong else 0)


def run_suite(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Run upstream's tests; pytest prints its own report."""
    code = suite.run(
        repository,
        options.names,
        stock=options.tree == "stock",
        workers=options.workers,
        extra=options.extra,
        own=not options.without_own,
    )
    return CommandResult(
        (f"upstream's tests ({' '.join(options.names)}, {options.tree}): {'passed' if code == 0 else 'failed'}",),
        {"code": code},
        1 if code else 0,
    )


def run_style(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Check the style of our files in Salt."""
    verdicts = style.check(repository, fix=options.fix, quick=options.quick)
    failed = [one for one in verdicts if one.code]
    lines = [text for one in failed for text in (f"{one.linter}:", one.output)]
    lines.append(f"{len(style.files(repository))} files in Salt's style" if not failed else "not in Salt's style")
    return CommandResult(tuple(lines), {"verdicts": [asdict(one) for one in verdicts]}, 1 if failed else 0)


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
    request = submit.Request(
        topics=tuple(options.topics),
        numbers=_numbers(options.topics, options.number),
        output=(options.output or repository.layout.build / "submit").resolve(),
        mails=options.mails,
        clone=options.clone.resolve() if options.clone else None,
        onto=options.onto,
    )
    lines = []
    sent = submit.submit(repository, request)
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
