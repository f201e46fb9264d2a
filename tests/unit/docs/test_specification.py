"""The table of the specification of package states names files that there are, one at least in each row."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "salt/extensions/package-states/src/saltext/package_states"


def test_each_sentence_has_a_place() -> None:
    """A file that is moved or split is moved here too."""
    page = (ROOT / "docs/package-commands.md").read_text()
    part = page.partition("## Where the specification is true")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 40
    for sentence, here, where in rows:
        files = re.findall(r"`([^`]+)`", where)
        assert here, sentence
        assert files, sentence
        assert [name for name in files if not (SOURCE / name).is_file()] == [], sentence
