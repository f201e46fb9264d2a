"""The commands that find what is wrong with the patch set: its rules, its tests, its style."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from patches import apply, check, kept, prove, style, suite
from patches.base import learn
from patches.commands.tree import CommandResult
from patches.errors import UsageError
from patches.layout import locked

if TYPE_CHECKING:
    import argparse

    from patches.repository import Repository


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
    lines = [f"{one.rule}: {one.subject} {one.message}" for one in found]
    lines += [f"not checked: {text}" for text in findings.skipped]
    lines += [proof.line for proof in proofs]
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
    lines = [f"{one.release} {one.topic}: {one.verdict} ({one.there:.0%} of the lines are there)" for one in found]
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
