"""`python -m harness.zoo`: run bugs of the zoo on releases of Salt.

Exit codes: 0 no bug was found; 1 one was found, or runs disagree; 2 wrong use; 3 a check failed; 130 interrupted.

The bugs are the files in `harness/scenarios/zoo`, their checks are in `tests/zoo/checks.py`. The evidence is
`docs/zoo.json`; `docs/zoo.md` has a table of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evil_minions import read_table
from harness.bed.settings import Tree, release
from harness.errors import HarnessError, ScenarioError, SettingsError
from harness.paths import ROOT, TREES
from harness.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = scenario.FOLDER / "zoo"
# it imports Salt, which the harness itself does not
CHECKS = ROOT / "tests" / "zoo" / "checks.py"
ADDRESS = "https://github.com/saltstack/salt/issues"
# what a run may take
SECONDS = 300
BASE = "3008.5"
WRONG, RIGHT, ABSENT = "wrong", "right", "absent"


@dataclass(frozen=True)
class Bug:
    """One bug: the table `[bug]` of `NUMBER.toml`, whose check is `bug_NUMBER` in `CHECKS`."""

    # of the issue of Salt
    number: str
    # what goes wrong
    title: str
    # what the check counts
    counts: str
    # the releases of Salt that mend it, in words; "" if none does
    mended_in: str = ""
    # our topic that mends it, "" if none does
    topic: str = ""
    # other releases than the usual ones that it is run on
    also: tuple[str, ...] = ()


def numbers() -> list[str]:
    """Return the numbers of all bugs."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=int)


def load(number: str) -> Bug:
    """Return a bug.

    Raises:
        ScenarioError: if there is none of that number, or its file is not understood.
    """
    path = FOLDER / f"{number}.toml"
    if not path.is_file():
        raise ScenarioError(f"The zoo has no bug {number}: give one of {', '.join(numbers())}.")
    table = read_table(path, path.name, ScenarioError).allow("bug")
    bug = table.table("bug").allow("title", "counts", "mended_in", "topic", "also")
    return Bug(
        number=number,
        title=bug.take("title", str),
        counts=bug.take("counts", str),
        mended_in=bug.take("mended_in", str, ""),
        topic=bug.take("topic", str, ""),
        also=tuple(bug.texts("also", ())),
    )


@dataclass(frozen=True)
class Outcome:
    """What a run found: `wrong`, `right`, or `absent` for a release that lacks the code, and the sentences about it."""

    state: str
    found: tuple[str, ...]
    seconds: float


def place(salt: str, environment: Mapping[str, str]) -> tuple[Tree, dict[str, str]]:
    """Return the tree of a release or of "patched", and the environment of its processes.

    The pristine tree is the base's release; another one is installed from the package index, once.
    """
    if salt == "patched":
        path = TREES["patched"]
    elif salt == BASE:
        path = TREES["stock"]
    elif salt.replace(".", "").isdecimal():
        path = release(ROOT, salt)
    else:
        raise SettingsError(f"{salt!r} is no Salt: give patched, or a release such as 3006.30.")
    tree = Tree(path)
    if not tree.found():
        raise SettingsError(f"{path} has no Salt: make both trees with `nox -s apply`.")
    return tree, tree.environment(environment)


def run(bug: Bug, salt: str, environment: Mapping[str, str]) -> Outcome:
    """Run a bug's check in the Python of a Salt.

    Raises:
        HarnessError: if the check fails, which says nothing about the bug.
    """
    tree, own = place(salt, environment)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True) as folder:
        # not with the folder of the script, whose names would hide others
        command = [tree.python(), "-P", str(CHECKS), bug.number, folder]
        try:
            done = subprocess.run(
                command, env=own, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise HarnessError(f"The check of {bug.number} did not end within {SECONDS} seconds.") from None
    if done.returncode or not done.stdout.strip():
        raise HarnessError(f"The check of {bug.number} failed with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    answer = json.loads(done.stdout)
    imported = Path(answer["salt"])
    if not imported.is_relative_to(tree.path.absolute()):
        raise HarnessError(f"The check of {bug.number} ran the Salt of {imported}; run `nox -s apply` and try again.")
    wrong: list[str] | None = answer["wrong"]
    state = ABSENT if wrong is None else WRONG if wrong else RIGHT
    return Outcome(state, tuple(wrong or ()), round(time.monotonic() - begun, 1))


EVIDENCE = ROOT / "docs" / "zoo.json"
PAGE = ROOT / "docs" / "zoo.md"
USUAL = ("3006.30", "3007.17", "3008.5", "patched")
REPEATS = 3
BEGIN, END = "<!-- made by: nox -s zoo -- --record -->", "<!-- end -->"


def read_evidence() -> dict[str, dict[str, Any]]:
    """Return the evidence: number of a bug: Salt: states of the runs, what was found, seconds of the longest."""
    if not EVIDENCE.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    return found


def record(number: str, salt: str, outcomes: Sequence[Outcome]) -> None:
    """Put the runs of a bug on a Salt into the evidence, in place of older ones."""
    found = read_evidence()
    found.setdefault(number, {})[salt] = {
        "states": [one.state for one in outcomes],
        "found": list(outcomes[-1].found),
        "seconds": max(one.seconds for one in outcomes),
    }
    ordered = {bug: dict(sorted(found[bug].items())) for bug in sorted(found, key=int)}
    EVIDENCE.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def proven(runs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a bug was found by all runs on one Salt, by none on another one, and no runs disagree."""
    states = [set(run["states"]) for run in runs.values() if len(run["states"]) >= REPEATS]
    return len(states) == len(runs) and all(len(one) == 1 for one in states) and {WRONG} in states and {RIGHT} in states


def rows(evidence: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return the lines of the table: the bugs that are proven."""
    lines = [
        "| bug | what goes wrong | " + " | ".join(USUAL) + " | other releases | mended by |",
        "|---" * (len(USUAL) + 4) + "|",
    ]
    for number, runs in evidence.items():
        if number not in numbers() or not proven(runs):
            continue
        bug = load(number)
        usual = [_cell(runs.get(salt)) for salt in USUAL]
        others = ", ".join(f"{salt}: {_cell(run)}" for salt, run in runs.items() if salt not in USUAL)
        mended = ", ".join(
            filter(None, [f"Salt {bug.mended_in}" if bug.mended_in else "", f"`{bug.topic}`" if bug.topic else ""])
        )
        link = f"[#{number}]({ADDRESS}/{number})"
        lines.append(f"| {link} | {bug.title} | {' | '.join(usual)} | {others or '-'} | {mended} |")
    return lines


def _cell(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return "not run"
    return {WRONG: "**wrong**", RIGHT: "right", ABSENT: "-"}[run["states"][0]]


def write_table() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    made = "\n".join([BEGIN, *rows(read_evidence()), END])
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: made, text, flags=re.DOTALL), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="nox -s zoo --",
        description="Run bugs of Salt under load, each on several releases.",
        epilog="example:\n  nox -s zoo -- 61656 --salt 3008.5,patched\n\n" + str(__doc__).split("\n\n")[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("numbers", nargs="*", metavar="NUMBER", help="of an issue of Salt (default: all)")
    made.add_argument(
        "--salt",
        default="",
        help=f"releases or patched, with commas between them (default: {','.join(USUAL)}, and for some bugs "
        "a release that has it)",
    )
    made.add_argument("--repeat", type=int, default=1, metavar="N", help="how often each is run (default: 1)")
    made.add_argument("--record", action="store_true", help="put the runs into docs/zoo.json and docs/zoo.md")
    made.add_argument("--list", action="store_true", help="list the bugs, and run nothing")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; an error is a line on standard error."""
    options = parser().parse_args(argv)
    try:
        return _run(options)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    listed = [load(number) for number in options.numbers or numbers()]
    if options.list:
        for bug in listed:
            print(f"#{bug.number}: {bug.title}. Counted: {bug.counts}.")
        return 0
    code = 0
    for bug in listed:
        for salt in options.salt.split(",") if options.salt else (*USUAL, *bug.also):
            outcomes = [run(bug, salt, os.environ) for _ in range(max(1, options.repeat))]
            states = [one.state for one in outcomes]
            if options.record:
                record(bug.number, salt, outcomes)
            sentences = "".join(f"\n  {sentence}" for sentence in outcomes[-1].found)
            print(f"#{bug.number} on {salt}: {', '.join(states)}{sentences}", flush=True)
            if WRONG in states or len(set(states)) > 1:
                code = 1
    if options.record:
        write_table()
    return code


if __name__ == "__main__":
    sys.exit(main())
