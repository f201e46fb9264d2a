"""The zoo's evidence, `docs/zoo.json`, and the table of it in the documentation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from harness.paths import ROOT
from harness.zoo import bugs
from harness.zoo.bugs import ABSENT, RIGHT, WRONG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.zoo.bugs import Outcome

EVIDENCE = ROOT / "docs" / "zoo.json"
PAGE = ROOT / "docs" / "zoo.md"
USUAL = ("3006.30", "3007.17", "3008.5", "patched")
REPEATS = 3
BEGIN, END = "<!-- made by: nox -s zoo -- --record -->", "<!-- end -->"


def read() -> dict[str, dict[str, Any]]:
    """Return the evidence: number of a bug: Salt: states of the runs, what was found, seconds of the longest."""
    if not EVIDENCE.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    return found


def record(number: str, salt: str, outcomes: Sequence[Outcome]) -> None:
    """Put the runs of a bug on a Salt into the evidence, in place of older ones."""
    found = read()
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
        if number not in bugs.numbers() or not proven(runs):
            continue
        bug = bugs.load(number)
        usual = [_cell(runs.get(salt)) for salt in USUAL]
        others = ", ".join(f"{salt}: {_cell(run)}" for salt, run in runs.items() if salt not in USUAL)
        mended = ", ".join(
            filter(None, [f"Salt {bug.mended_in}" if bug.mended_in else "", f"`{bug.topic}`" if bug.topic else ""])
        )
        link = f"[#{number}]({bugs.ADDRESS}/{number})"
        lines.append(f"| {link} | {bug.title} | {' | '.join(usual)} | {others or '-'} | {mended} |")
    return lines


def _cell(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return "not run"
    return {WRONG: "**wrong**", RIGHT: "right", ABSENT: "-"}[run["states"][0]]


def write() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    made = "\n".join([BEGIN, *rows(read()), END])
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: made, text, flags=re.DOTALL), encoding="utf-8")
