"""What topics left alone after they had once changed it: the same in our tree and in stock Salt."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from harness.paths import TREES

if TYPE_CHECKING:
    from pathlib import Path

DUMPS = """
import collections, datetime
import salt.utils.yaml

class Text(str):
    pass

class Mapping(dict):
    pass

for value in (Text("x"), [Text("x")], {"a": Text("x")}, Mapping(a=1), collections.OrderedDict(b=1, a=2), ("a",),
              collections.defaultdict(list, a=[1]), datetime.date(2026, 11, 30), b"x", None, {1}):
    for dump in (salt.utils.yaml.dump, salt.utils.yaml.safe_dump):
        try:
            print(repr(dump(value)))
        except Exception as error:
            print(type(error).__name__, error)
"""


def dumped(tree: Path) -> list[str]:
    """Return what a tree of Salt makes of some values, a line for each."""
    done = subprocess.run(
        [sys.executable, "-c", DUMPS],
        cwd=tree,
        env={"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_yaml_is_dumped_as_by_stock_salt() -> None:
    """Texts of other classes than str are refused or written as ever."""
    ours = dumped(TREES["patched"])
    assert ours == dumped(TREES["stock"])
    # one for each value and each function
    assert len(ours) == 2 * 11
