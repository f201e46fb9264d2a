"""The table of topics in the documentation is the patch set's series."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def _topics(chapter: str) -> list[str]:
    """Return the topics that begin the rows of a chapter's table."""
    page = (ROOT / "docs" / "topics.md").read_text(encoding="utf-8")
    text = page.partition(f"\n{chapter}\n")[2].partition("\n##")[0]
    return re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)


def test_each_topic_is_in_the_tables_once() -> None:
    """No topic is missing, and none is there that has gone."""
    series = (ROOT / "patches" / "series").read_text(encoding="utf-8").split()
    assert sorted(_topics("## The topics")) == sorted(series)
    assert _topics("### Which topic fits which release") == series
