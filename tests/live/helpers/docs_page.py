"""A page of docs/ as its reader meets it: the fenced blocks, what is typed, what is written, what is shown.

| in the page | what it means |
|---|---|
| `console` | a line with `$ ` in front is typed, the lines below are all that it prints; `...` stands for any text |
| any other language; the first line is a comment with a path | a file to write: `# /etc/salt/minion`, `-- rows.sql` |
| `<!-- not run: REASON -->` on the line before the fence | an example that nothing can run |
| `<!-- tested: NAME -->` there | another test reads this block, by this marker |
| `<!-- again: SECONDS -->` there | what is shown comes later: the block's last command is typed again until it does |
| `<!-- terminal: NAME -->` there | typed in a terminal of its own, whose commands run on beside the others |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROMPT = "$ "
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w+-]*)\s*$")
MARKER = re.compile(r"^\s*<!--\s*(?P<name>not run|tested|again|terminal):\s*(?P<value>.*\S)\s*-->\s*$")
# a comment of the languages that have files: YAML, Python, shell, TOML; SQL; Jinja
FILE = re.compile(r"^(?:#|--|\{#) (?P<path>\S*[./]\S+)(?: #\})?$")


@dataclass(frozen=True)
class Typed:
    """A command line with what the page shows below it; `line` is that of the page."""

    text: str
    shown: str
    line: int


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its fence, `markers` are the comments before it by name."""

    language: str
    text: str
    line: int
    markers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_left_out(self) -> bool:
        """Say whether it has a reason not to be run here."""
        return "not run" in self.markers or "tested" in self.markers

    @property
    def file(self) -> str | None:
        """Return the path of the file that it is, if it is one."""
        found = FILE.match(self.text.partition("\n")[0].strip())
        return found["path"] if found and self.language != "console" else None

    @property
    def commands(self) -> list[Typed]:
        """Return what is typed; a line that ends in a backslash goes on in the next one."""
        commands: list[Typed] = []
        lines = list(enumerate(self.text.splitlines(), self.line + 1))
        while lines:
            number, text = lines.pop(0)
            if not text.startswith(PROMPT):
                raise ValueError(f"line {number}: output without a command above it")
            while text.endswith("\\") and lines:
                text += "\n" + lines.pop(0)[1]
            shown = []
            while lines and not lines[0][1].startswith(PROMPT):
                shown.append(lines.pop(0)[1])
            commands.append(Typed(text.removeprefix(PROMPT), "\n".join(shown).strip("\n"), number))
        return commands

    @property
    def problem(self) -> str | None:
        """Return why a test can't run it, None if it can or need not."""
        if self.is_left_out:
            return None
        if self.language == "console":
            try:
                return None if self.commands else "nothing is typed in it"
            except ValueError as error:
                return str(error)
        return None if self.file else "its first line is no comment with the path of a file"


def heading(page: Path, title: str) -> int:
    """Return the line of a chapter's heading; raise ValueError if the page has no such chapter."""
    return page.read_text(encoding="utf-8").splitlines().index(f"## {title}") + 1


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    found: list[Block] = []
    markers: dict[str, str] = {}
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if marker := MARKER.match(line):
            markers[marker["name"]] = marker["value"]
        elif fence := FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                body.append(inner.removeprefix(fence["indent"]))
            found.append(Block(fence["language"], "\n".join(body), number, markers))
            markers = {}
        elif line.strip():
            markers = {}
    return found
