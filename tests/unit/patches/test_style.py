"""Salt's own style: what is ours to mend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patches.layout import Layout
from patches.style import pyupgrade

if TYPE_CHECKING:
    from pathlib import Path

OLD = "found = [one for one in many]\n"


def test_pyupgrade_names_only_what_is_ours(tmp_path: Path) -> None:
    """A file that it would rewrite in stock as well is not named, and none is rewritten."""
    layout = Layout(tmp_path)
    for tree, files in {
        layout.stock: {"theirs.py": OLD},
        layout.salt: {"theirs.py": f"{OLD}ours = 1\n", "new.py": OLD},
    }.items():
        tree.mkdir(parents=True)
        for name, text in files.items():
            (tree / name).write_text(text)
    told = pyupgrade(sys.executable, layout, ("theirs.py", "new.py"))
    assert (told.code, told.output) == (1, "new.py: pyupgrade would rewrite it")
    assert (layout.salt / "new.py").read_text() == OLD
