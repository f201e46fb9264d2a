"""What the documentation says of topics is what the patch set's series say."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def _chapter(title: str) -> str:
    page = (ROOT / "docs" / "topics.md").read_text(encoding="utf-8")
    return page.partition(f"\n{title}\n")[2].partition("\n##")[0]


def test_each_topic_is_in_the_table_once() -> None:
    """No topic is missing, and none is there that has gone."""
    series = (ROOT / "patches" / "series").read_text(encoding="utf-8").split()
    rows = re.findall(r"^\| `([\w-]+)` \|", _chapter("## The topics"), re.MULTILINE)
    assert sorted(rows) == sorted(series)


def test_kept_topics_are_named() -> None:
    """The sentence about other releases names what their series have, and the README's table has their columns."""
    (said,) = re.findall(
        r"^Both releases have (.*?)\.", _chapter("### Which topics are kept"), re.MULTILINE | re.DOTALL
    )
    folders = sorted((ROOT / "patches" / "releases").iterdir())
    for folder in folders:
        assert re.findall(r"`([\w-]+)`", said) == (folder / "series").read_text(encoding="utf-8").split()
    base = (ROOT / "patches" / "base.txt").read_text(encoding="utf-8").partition("==")[2].split()[0]
    columns = " | ".join([*(folder.name for folder in folders), base])
    assert f"| feature | {columns} |" in (ROOT / "README.md").read_text(encoding="utf-8")
