"""The command line: `python -m patches COMMAND`: the options of each command, what it does, and what it prints."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evil_minions import pipe
from patches import apply, bump, carry, check, export, git, kept, prove, save, style, submit, suite, wheels
from patches.base import read_base
from patches.errors import PatchesError, UnsavedEditsError, UsageError
from patches.layout import TREE, Layout, locked
from patches.patch import trailers_of
from patches.repository import Repository
from patches.series import read_series
from patches.state import read_state
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Command = Callable[[Repository, argparse.Namespace], "CommandResult"]
    Add = Callable[..., argparse.ArgumentParser]

# these change nothing, and a test run may take minutes: what of theirs needs the lock takes it
NO_LOCK = ""
CODES = """\
exit codes:
  0 done   1 check or tests found something   2 wrong option or patch set   3 unsaved edits in salt/
  4 a patch or rebase conflicts   5 no source distribution   6 git or pip failed   7 the tree is in use
  141 nobody reads the output
"""


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
    """Make the tree, or bring it up to date."""
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
    """Turn edits of the tree into patches."""
    if (options.message or options.files) and not (options.topic or options.new):
        raise UsageError("FILE and --message need --topic NAME or --new NAME: say which topic they are for.")
    if options.message and not options.new:
        raise UsageError("--message is for --new: edit the message of an existing topic in its patch file.")
    message = read_message(options.message) if options.message else None
    request = save.Request(
        topic=options.new or options.topic,
        new=bool(options.new),
        files=resolve_files(repository, tuple(options.files)),
        message=message,
        date=dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat(),
    )
    saved = save.save(repository, request)
    lines = [f"{topic}: {path}" for topic, paths in saved.edits.items() for path in paths]
    lines += [f"{topic}: new file {path}" for topic, paths in saved.new_files.items() for path in paths]
    lines += [f"written: patches/{topic}.patch" for topic in saved.written] or ["nothing to save"]
    if request.new and request.topic and read_series(repository.layout).get(request.topic).is_template:
        lines.append(f"write its message: the head of patches/{request.topic}.patch, then 'nox -s apply'")
    lines += [f"left: new file {path} belongs to no topic yet" for path in saved.left]
    if saved.proposed:
        names = ", ".join(saved.proposed)
        lines.append(f"added to the message: 'Requires: {names}', whose lines it changes; correct it if that is wrong")
    return CommandResult(tuple(lines), asdict(saved))


def run_status(repository: Repository, _options: argparse.Namespace) -> CommandResult:
    """Show the base, the topics and the state of the tree."""
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

    Raises:
        UsageError: when there is no such file in either place.
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


def read_message(path: Path) -> str:
    """Read the message of a new topic.

    Raises:
        UsageError: when it cannot be read, or has no trailers to put the new files beside.
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
    """Find what is wrong with the patch set."""
    if options.base:
        return _check_base(repository, options)
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
    """Try the topics that are kept for other releases there: they have to apply, and to pass their tests."""
    trials: dict[str, prove.Trial] = {}
    found: list[kept.Fit] = []
    with locked(repository.layout):
        for release in dict.fromkeys(options.base):
            onto, fits = kept.fits(repository, release, options.topic)
            trials[release] = prove.Trial(onto, {one.topic: one.commit for one in fits if one.commit})
            found += fits
    proofs = {release: prove.prove(repository, trial) for release, trial in trials.items() if options.tests}
    lines = [f"{one.release} {one.topic}: {one.conflict or 'applies'}" for one in found]
    wrong = [f"{one.release} {one.topic}" for one in found if one.conflict]
    for release, listed in proofs.items():
        lines += [f"{release} {proof.line}" for proof in listed]
        lines += [f"{release} {one.subject} {one.message}" for proof in listed for one in proof.findings]
        wrong += [f"{release} {proof.topic}" for proof in listed if proof.findings]
    if wrong:
        lines.append(f"not in order: {', '.join(dict.fromkeys(wrong))}")
    data = {"fits": [asdict(one) for one in found], "wrong": list(dict.fromkeys(wrong))}
    tests = {release: [asdict(proof) for proof in listed] for release, listed in proofs.items()}
    return CommandResult(tuple(lines), {**data, "tests": tests}, 1 if wrong else 0)


def run_suite(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Run upstream's own tests."""
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


def run_style(repository: Repository, _options: argparse.Namespace) -> CommandResult:
    """Check what we change in Salt with Salt's own linters."""
    verdicts = style.check(repository)
    failed = [one for one in verdicts if one.code]
    lines = [text for one in failed for text in (f"{one.linter}:", one.output)]
    lines.append(f"{len(style.files(repository))} files in Salt's style" if not failed else "not in Salt's style")
    return CommandResult(tuple(lines), {"verdicts": [asdict(one) for one in verdicts]}, 1 if failed else 0)


def run_keep(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Keep topics for another release of Salt, resolving conflicts once."""
    words = (options.resume or options.abort, bool(options.release and options.topics))
    if words[0] == words[1]:
        raise UsageError("Say either RELEASE and TOPIC, or --continue, or --abort.")
    if options.abort:
        carry.abandon(repository, kept.COMMAND)
        return CommandResult(("given up; nothing was changed",), {"aborted": True})
    made = kept.resume(repository) if options.resume else kept.keep(repository, options.release, options.topics)
    notes = {
        patch.topic: "a patch of its own" if patch.topic in made.own else "the base's patch" for patch in made.series
    }
    lines = [f"Salt {made.base.version}: {topic}: {how}" for topic, how in notes.items()]
    return CommandResult(tuple(lines), {"release": made.base.version, "topics": notes})


def run_submit(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Make each topic's branch in build/salt.git, and the text of its pull request."""
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
        lines += [f"{one.topic}: by {one.author}, tree {one.tree}"]
        place = f"on {one.base_commit}"
        if one.target:
            place += f", meant for {one.target}: '--clone DIR --onto origin/{one.target}' makes it there"
        lines += [f"branch {one.branch} of {one.repository}", place, one.cover, *one.mails]
    warnings = tuple(dict.fromkeys(text for one in sent for text in one.warnings))
    return CommandResult(tuple(lines), {"submissions": [asdict(one) for one in sent]}, warnings=warnings)


def _numbers(topics: list[str], given: list[str]) -> dict[str, int]:
    """Read numbers of upstream's, each for the topic that it names or for the only one; raise UsageError otherwise."""
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
    """Write full patches, new files included, and a series, as quilt reads them."""
    output = options.output or repository.layout.build / "export"
    made = export.export(repository, options.topics, output.resolve(), code=options.code, release=options.base)
    lines = (f"Salt {made.base}: {len(made.topics)} patches, tree {made.tree}", made.series, *made.patches)
    return CommandResult(lines, asdict(made))


def run_bump(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Move the patches to another release of Salt."""
    if (options.version is None) != (options.resume or options.abort):
        raise UsageError("Say either which VERSION to go to, or --continue, or --abort.")
    if options.forget and not options.abort:
        raise UsageError("--forget goes with --abort: it forgets how conflicts were resolved.")
    if options.abort:
        carry.abandon(repository, bump.COMMAND, forget=options.forget)
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


def run_wheels(repository: Repository, options: argparse.Namespace) -> CommandResult:
    """Build the Salt extensions into build/wheels/."""
    made = wheels.build(repository.layout, offline=options.offline)
    lines = tuple(f"{one.path} sha256:{one.sha256}" for one in made)
    return CommandResult(lines, {"wheels": [{**asdict(one), "path": str(one.path)} for one in made]})


def parser() -> argparse.ArgumentParser:
    """Describe the commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m patches",
        description="Make the patched Salt tree, save edits as patches, and send them upstream.",
        epilog=f"{CODES}\nexample:\n  python -m patches apply",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared = argparse.ArgumentParser(add_help=False)
    default = Path(__file__).resolve().parent.parent
    shared.add_argument("--root", type=Path, default=default, metavar="DIR", help="the project, or a copy of it")
    shared.add_argument("--json", action="store_true", help="print one JSON object with a 'format' version")
    names = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(run: Command, example: str, lock: str = TREE) -> argparse.ArgumentParser:
        text = str(run.__doc__)
        command = names.add_parser(
            run.__name__.removeprefix("run_"),
            parents=[shared],
            help=f"{text[0].lower()}{text[1:-1]}",
            description=text,
            epilog=f"example:\n  python -m patches {example}\n\n{CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run, lock=lock)
        return command

    _add_tree(add)
    _add_upstream(add)
    _add_checks(add)
    return top


def _add_tree(add: Add) -> None:
    """Add what works on the tree and the patches."""
    one = add(run_apply, "apply")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--keep-edits", action="store_true", help="go on with unsaved edits, carried over if need be")
    choice.add_argument("--discard", action="store_true", help="drop unsaved edits; a copy goes to build/discarded/")
    one.add_argument("--quiet", action="store_true", help="say nothing when nothing changed")

    one = add(run_save, "save --topic sql-base-json salt/pillar/postgres.py")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--topic", metavar="NAME", help="the topic that the files belong to")
    choice.add_argument("--new", metavar="NAME", help="start a topic with the files, at the end of the series")
    one.add_argument("--message", type=Path, metavar="FILE", help="message of the new topic, with its trailers")
    one.add_argument("files", nargs="*", metavar="FILE", help="only these, relative to salt/; a new file moves here")

    one = add(run_check, "check --tests", lock=NO_LOCK)
    one.add_argument("--tests", action="store_true", help="also run each topic's tests: stock fails, ours passes")
    one.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; may be repeated")
    one.add_argument(
        "--base",
        action="append",
        default=[],
        metavar="RELEASE",
        help="try what is kept for this release of Salt instead; may be repeated",
    )

    wheels = add(run_wheels, "wheels --json", lock="wheels.lock")
    wheels.add_argument(
        "--offline",
        action="store_true",
        help="leave out an extension whose libraries cannot be downloaded, instead of ending with an error",
    )

    add(run_status, "status --json", lock=NO_LOCK)


def _add_upstream(add: Add) -> None:
    """Add the ways to upstream, to distributions and to other releases."""
    one = add(run_submit, "submit load-all --number 68123")
    one.add_argument("topics", nargs="+", metavar="TOPIC", help="topics of patches/series")
    one.add_argument(
        "--number",
        action="append",
        default=[],
        metavar="[TOPIC=]N",
        help="number of upstream's issue or pull request, which names the changelog entry; may be repeated",
    )
    one.add_argument("--clone", type=Path, metavar="DIR", help="make the branch in this clone of Salt's repository")
    one.add_argument("--onto", metavar="REF", help="commit of the clone (default: the tag of the base, like v3008.5)")
    one.add_argument("--mails", action="store_true", help="write the commits as mails for 'git am' as well")
    one.add_argument("--output", type=Path, metavar="DIR", help="folder for texts and mails (default: build/submit)")

    one = add(run_export, "export sql-base-json")
    one.add_argument("topics", nargs="*", metavar="TOPIC", help="topics of patches/series, with what they require")
    one.add_argument("--base", metavar="RELEASE", help="another release, for which a series is kept")
    one.add_argument("--code", action="store_true", help="no tests, docs and changelog: for an installed Salt")
    one.add_argument("--output", type=Path, metavar="DIR", help="folder for the patches (default: build/export)")

    one = add(run_bump, "bump 3008.6")
    one.add_argument("version", nargs="?", metavar="VERSION", help="the release, as on the package index")
    one.add_argument("--hash", metavar="SHA256", help="hash of its source distribution (default: learnt)")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--keep-conflict", action="store_true", help="leave a conflict in build/bump, to be resolved")
    choice.add_argument("--continue", dest="resume", action="store_true", help="go on after resolving a conflict")
    choice.add_argument("--abort", action="store_true", help="give up a bump that stopped; resolutions are kept")
    one.add_argument("--forget", action="store_true", help="with --abort: forget how conflicts were resolved")

    one = add(run_keep, "keep 3006.30 load-all")
    one.add_argument("release", nargs="?", metavar="RELEASE", help="the release, as on the package index")
    one.add_argument("topics", nargs="*", metavar="TOPIC", help="topics of patches/series, with what they require")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--continue", dest="resume", action="store_true", help="go on after resolving a conflict")
    choice.add_argument("--abort", action="store_true", help="give up; resolutions are kept")


def _add_checks(add: Add) -> None:
    """Add what runs linters and upstream's tests."""
    add(run_style, "style", lock=NO_LOCK)

    one = add(run_suite, "suite salt/tests/pytests/unit/pillar/test_sql_base.py -- -x", lock=NO_LOCK)
    one.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="touched (what our topics touch), wider (the wider set), or files and folders below salt/tests/pytests",
    )
    one.add_argument("--tree", choices=("patched", "stock"), default="patched", help="which Salt (default: patched)")
    one.add_argument("--workers", type=int, default=2, metavar="N", help="parallel workers, 0 for none (default: 2)")
    one.add_argument("--without-own", action="store_true", help="leave out the test files that our topics bring")
    one.usage = "python -m patches suite [options] {touched,wider,FILE ...} [-- OPTION_OF_PYTEST ...]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; give the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # what follows "--" is for the program that we start: argparse would mix it up with our own options
    cut = given.index("--") if "--" in given else len(given)
    options = parser().parse_args(given[:cut], argparse.Namespace(extra=given[cut + 1 :]))
    if options.extra and options.command != "suite":
        parser().error("only suite hands on options after '--'")
    layout = Layout(options.root.resolve())
    repository = Repository(layout)
    try:
        with locked(layout, options.lock) if options.lock else contextlib.nullcontext():
            result: CommandResult = options.run(repository, options)
    except PatchesError as error:
        return _fail(error, as_json=options.json)
    for text in result.warnings:
        print(f"patches: warning: {text}", file=sys.stderr)
    if options.json:
        print(json.dumps({"format": 1, "command": options.command, **result.data}, indent=1))
    elif result.lines:
        print("\n".join(result.lines))
    return result.code


def _fail(error: PatchesError, *, as_json: bool) -> int:
    """Tell an error in one line, or as JSON."""
    if as_json:
        files = list(error.files) if isinstance(error, UnsavedEditsError) else []
        print(json.dumps({"format": 1, "error": str(error), "code": error.exit_code, "files": files}, indent=1))
    else:
        print(f"patches: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(pipe.run(main))
