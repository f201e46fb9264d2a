"""Measured numbers of the pages come from the evidence: what looks like one and has no marker is found here.

Numbers in code, in commands and in tables of options are none. A limit or a timeout in a sentence stands in
`plain_numbers.txt`, with the words around it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PLAIN = Path(__file__).with_name("plain_numbers.txt")
# generated from the evidence
RESULTS = "results.md"
BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
MARKED = re.compile(r"<!-- figure: \S+ -->.*?<!-- /figure -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# a table of options: what can be set, and to what
OPTIONS = re.compile(
    r"^\|[^\n]*\b(?:default|option|setting|limit)s?\b[^\n]*\n\|[-: |]+\n(?:\|[^\n]*\n)+", re.MULTILINE | re.IGNORECASE
)
UNITS = (
    r"ms|µs|us|s|KB|MB|GB|%|seconds|minutes|times (?:faster|slower|less|more)|(?:returns|jobs|events)(?:/s| a second)"
)
NUMBER = re.compile(rf"(?<![\w.,:/-])\d[\d,.]*(?:(?: to |-)\d[\d,.]*)? ?(?:{UNITS})(?![\w/:])")


def measurements(text: str) -> list[str]:
    """Return the lines of a page with a number that looks measured and has no marker."""
    for pattern in (BLOCK, MARKED, COMMENT, CODE, OPTIONS):
        text = pattern.sub("", text)
    return [line for line in text.splitlines() if NUMBER.search(line)]


def plain() -> dict[str, list[str]]:
    """Return for each page the words with a number that is none of ours to measure."""
    found: dict[str, list[str]] = {}
    for line in PLAIN.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            page, _, words = line.partition(": ")
            found.setdefault(page, []).append(words)
    return found


def pages(root: Path) -> dict[str, str]:
    """Return the text of each page by its name."""
    found = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return {path.name: path.read_text(encoding="utf-8") for path in found if path.name != RESULTS}


def unmarked(name: str, text: str) -> list[str]:
    """Return the lines of a page with a measured number without a marker, but for the words that are allowed."""
    for words in plain().get(name, []):
        text = text.replace(words, "")
    return measurements(text)


def test_every_measured_number_has_a_marker(root: Path) -> None:
    """A number of a sentence is filled from docs/evidence, or stands in plain_numbers.txt."""
    found = {name: unmarked(name, text) for name, text in pages(root).items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_allowed_words_are_in_the_pages(root: Path) -> None:
    """What nobody writes any more is not allowed any more; each has a number."""
    texts = pages(root)
    wrong = [
        (name, words)
        for name, every in plain().items()
        for words in every
        if words not in texts.get(name, "") or not NUMBER.search(words)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A fetch takes 2 ms.", True),
        ("A fetch takes about 1.6 to 1.8 ms more.", True),
        ("It needs 11.3 MB.", True),
        ("That is 7 times faster.", True),
        ("Two cores handle 621 returns a second.", True),
        ("| what it costs | 40 % |", True),
        ("A fetch takes <!-- figure: pillar/fetch/ours -->2 ms<!-- /figure -->.", False),
        ("Salt 3008.5 on Python 3.11 with 10,000 minions.", False),
        ("Set `timeout: 5 s` there.", False),
        ("```yaml\ntimeout: 5 s\n```\n", False),
        ("| option | default |\n|---|---|\n| timeout | 5 s |\n", False),
        ("<!-- again: 90 s -->", False),
    ],
)
def test_what_looks_measured(text: str, found: bool) -> None:  # noqa: FBT001 - a verdict
    """Units behind a number are found in sentences and tables, and not in code, options, markers and comments."""
    assert bool(measurements(text)) is found


def test_the_caption_of_the_picture_counts_its_requests(root: Path) -> None:
    """The numbers below the README's picture are those of its data."""
    trees = json.loads((root / "docs/first-run.json").read_text(encoding="utf-8"))["trees"]
    without = {name: f"{sum(row[3] != 'complete' for row in rows)} of {len(rows)}" for name, rows in trees.items()}
    caption = (root / "README.md").read_text(encoding="utf-8")
    sentence = "On unpatched Salt 3008.5, {stock} requests did not get all answers, with Saltbed {patched};"
    assert sentence.format(**without) in caption
    longest = max(end - start for _, start, end, _ in trees["patched"])
    assert f"the slowest request with Saltbed took {longest:.0f} s" in caption
