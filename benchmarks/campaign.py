"""The campaign: measure all that docs/results.md tells of, one after the other, and write the page.

What has evidence of the present code is passed over, so the same command goes on after an interruption.

Exit codes: 0 everything is measured; 1 something could not be measured; 2 wrong use, or the machine is busy; 130
interrupted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

try:
    from benchmarks.benchmark import BenchmarkError
    from benchmarks.registry import subjects
    from benchmarks.results import __main__ as results
    from benchmarks.results import evidence
    from benchmarks.results.page import BUSY, COSTS, DOUBTED, OLDER, QUESTIONS
    from evil_minions import pipe
    from harness.paths import ROOT
except ModuleNotFoundError as error:
    if str(error.name).startswith(("benchmarks", "harness", "evil_minions")):
        raise
    print(f"campaign: {error.name} is missing: use `nox -s campaign`, which makes it.", file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.registry import Subject

# of all cores: with more load from others, times say little
LOADED = 0.25
# the load that one measurement leaves is no other work for the next one
RESTS_S, RESTS_STEP_S = 600, 5
# a benchmark that takes so many times as long as it should hangs
HANGS = 6
STOPS_S = 60


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nox -s campaign --",
        description="Measure all that docs/results.md tells of and has no evidence of the present code, then write it.",
        epilog="example: nox -s campaign -- --only load/default pillar",
    )
    parser.add_argument("--busy", action="store_true", help="measure although the machine has other work")
    parser.add_argument("--list", action="store_true", help="only show what would be measured")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these, such as load/default or pillar")
    return parser


def wanted(every: Sequence[Subject], only: Sequence[str] | None, docs: Path, *, busy: bool = False) -> list[Subject]:
    """Return what has no evidence of the present code: what the first two tables show, then the others.

    Evidence from a busy machine counts with `busy` alone.

    Raises:
        BenchmarkError: if a name is none, or if a file of evidence is damaged.
    """
    unknown = set(only or ()) - {one.name for one in every}
    if unknown:
        known = ", ".join(one.name for one in every)
        raise BenchmarkError(f"There is nothing to measure with the name {min(unknown)}; choose from {known}.")
    sections = evidence.sections(docs / "evidence", every, results.code())
    bad = {OLDER} if busy else {OLDER, BUSY, DOUBTED}
    stale = [one.subject for one in sections if one.source is None or bad & {*one.source.marks}]
    first = list(dict.fromkeys(question.name for question in (*QUESTIONS, *COSTS)))
    ranked = sorted(stale, key=lambda one: first.index(one.name) if one.name in first else len(first))
    return [one for one in ranked if not only or one.name in only]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        todo = wanted(subjects(), options.only, ROOT / "docs", busy=options.busy)
    except BenchmarkError as error:
        print(f"campaign: {error}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{one.minutes:>6g} min  {one.name}" for one in todo) or "Everything is measured.")
        return 0
    used, cores = os.getloadavg()[0], os.cpu_count() or 1
    if used > LOADED * cores and not options.busy:
        print(
            f"campaign: the machine is busy (load {used:.1f} of {cores} cores): stop the other work, or measure "
            "nevertheless with --busy.",
            file=sys.stderr,
        )
        return 2
    failed = []
    try:
        for number, subject in enumerate(todo):
            if number and not options.busy:
                _rest(cores)
            left = sum(one.minutes for one in todo[number:])
            print(f"{number + 1} of {len(todo)}: {subject.command}; about {left:.0f} minutes remain", flush=True)
            if not _measure(subject):
                failed.append(subject.name)
                print(f"campaign: {subject.name} failed; the others go on", file=sys.stderr)
    except KeyboardInterrupt:
        print("campaign: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    code = results.main(["--collect"])
    if failed:
        print(f"campaign: not measured: {', '.join(failed)}; the same command tries them again.", file=sys.stderr)
    return 1 if failed or code else 0


def _rest(cores: int) -> None:
    """Wait until the load of the last measurement is over."""
    deadline = time.monotonic() + RESTS_S
    while os.getloadavg()[0] > cores and time.monotonic() < deadline:
        time.sleep(RESTS_STEP_S)


def _measure(subject: Subject) -> bool:
    """Run a benchmark or a scenario, and copy what it left; say whether there is new evidence."""
    start = time.time()
    process = subprocess.Popen([sys.executable, "-m", *subject.arguments], cwd=ROOT)
    try:
        process.wait(subject.minutes * 60 * HANGS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
        # it stops all that it started, which takes some seconds; the terminal's Ctrl-C reached it as well
        if isinstance(error, subprocess.TimeoutExpired):
            process.terminate()
        process.wait(STOPS_S)
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    # the exit code of a load says whether its thresholds are met, which the page tells as well
    code = results.main(["--collect"])
    path = ROOT / "docs" / "evidence" / subject.file
    return not code and path.is_file() and path.stat().st_mtime >= start


if __name__ == "__main__":
    sys.exit(pipe.run(main))
