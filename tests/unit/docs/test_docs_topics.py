"""The table of topics in the documentation is the patch set's series."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_topic_is_in_the_table_once() -> None:
    """No topic is missing, and none is there that has gone."""
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    chapter = page.partition("## The topics\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([\w-]+)` \|", chapter, re.MULTILINE)
    series = (ROOT / "patches" / "series").read_text(encoding="utf-8").split()
    assert sorted(named) == sorted(series)
