"""What the zoo knows of the bugs that a topic mends: which releases have them, and a script that shows each.

Upstream has no zoo. So the script is cut out of the zoo's checks, and needs nothing but Salt.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: The Salt that has all topics, in the evidence.
PATCHED = "patched"
# what silences checkers of ours
SILENCED = re.compile(r"  # (noqa|type: ignore)\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class Bug:
    """A bug of the zoo: the number of its issue, what goes wrong, its runs on each Salt, and its script."""

    number: str
    title: str
    runs: Mapping[str, Mapping[str, Any]]
    script: str

    def paragraphs(self) -> Iterator[str]:
        """Give what a pull request says of it, in Markdown."""
        yield f"#{self.number}: {self.title}."
        rows = ["| Salt | what a check found |", "|---|---|"]
        ordered = sorted(self.runs.items(), key=lambda run: (run[0] == PATCHED, run[0]))
        for salt, run in ordered:
            found = "; ".join(run["found"]) or {"right": "nothing wrong", "absent": "no such code"}[run["states"][0]]
            rows.append(f"| {'with this change' if salt == PATCHED else salt} | {found} |")
        yield "\n".join(rows)
        command = f"python check.py {self.number} $(mktemp -d)"
        yield (
            f"The check is this script. Save it as `check.py`, and run `{command}` with the Python of a Salt. "
            "It prints what is wrong as one line of JSON."
        )
        yield f"<details><summary>check.py</summary>\n\n```python\n{self.script}```\n\n</details>"


def bugs_of(root: Path, topic: str) -> tuple[Bug, ...]:
    """Return the bugs that a topic mends, in the order of their numbers."""
    found = []
    for path in (root / "harness" / "scenarios" / "zoo").glob("*.toml"):
        bug = tomllib.loads(path.read_text(encoding="utf-8"))["bug"]
        if bug.get("topic") == topic:
            found.append((path.stem, bug["title"]))
    if not found:
        return ()
    evidence = json.loads((root / "docs" / "zoo.json").read_text(encoding="utf-8"))
    checks = (root / "tests" / "zoo" / "checks.py").read_text(encoding="utf-8")
    return tuple(
        Bug(number, title, evidence.get(number, {}), script(checks, number))
        for number, title in sorted(found, key=lambda one: int(one[0]))
    )


def script(checks: str, number: str) -> str:
    """Return the check of one bug as a script of its own: all checks without the functions that it does not call."""
    tree = ast.parse(checks)
    parts = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    rest = [node for node in tree.body if node not in parts]
    called = {f"bug_{number}"}.union(*map(_names, rest))
    while more := [part for part in parts if part.name in called and not _names(part) <= called]:
        called |= set[str]().union(*map(_names, more))
    lines = checks.splitlines(keepends=True)
    for part in reversed(parts):
        if part.name not in called:
            first = min([part.lineno, *(decorator.lineno for decorator in part.decorator_list)])
            del lines[first - 1 : part.end_lineno]
    return re.sub(r"\n{4,}", "\n\n\n", SILENCED.sub("", "".join(lines)))


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
