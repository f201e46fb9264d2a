"""Finds what came to Python 3.11 after Debian 12's 3.11.2: type checkers and vermin know minor releases only.

The names were found by comparing all public names and parameters of the standard libraries of 3.11.2 and 3.11.7; those
of later releases are from Python's documentation. Code that can do without asks with `getattr`, which is not found.

Example: `python tests/backports.py patches noxfile.py`; exit code 1 when something was found.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OLDEST = "3.11.2"
# name: the release that brought it
NAMES = {
    **dict.fromkeys(("data_filter", "tar_filter", "fully_trusted_filter", "FilterError"), "3.11.4"),
    **dict.fromkeys(("AbsolutePathError", "OutsideDestinationError", "SpecialFileError"), "3.11.4"),
    **dict.fromkeys(("AbsoluteLinkError", "LinkOutsideDestinationError"), "3.11.4"),
    **dict.fromkeys(("SetReparseDeferralEnabled", "GetReparseDeferralEnabled"), "3.11.8"),
    **dict.fromkeys(("LinkFallbackError", "ALLOW_MISSING"), "3.11.13"),
}
# (function, parameter): the release that brought the parameter
PARAMETERS = {
    ("extract", "filter"): "3.11.4",
    ("extractall", "filter"): "3.11.4",
    ("unpack_archive", "filter"): "3.11.4",
    ("getaddresses", "strict"): "3.11.10",
    ("parseaddr", "strict"): "3.11.10",
}


def found(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each use, what is used, and the release that brought it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in NAMES:
            yield node.lineno, node.attr, NAMES[node.attr]
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, one.name, NAMES[one.name]) for one in node.names if one.name in NAMES)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for keyword in node.keywords:
                release = PARAMETERS.get((name, keyword.arg or ""))
                if release:
                    yield node.lineno, f"{name}({keyword.arg}=)", release


def modules(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the Python files among paths and below them."""
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def main(arguments: Sequence[str]) -> int:
    """Print what was found in files and folders; return the exit code."""
    lines = [
        f"{path}:{line}: {name} came with Python {release}, and Debian 12 has {OLDEST}: ask with getattr, or do without"
        for path in modules(map(Path, arguments))
        for line, name, release in found(path.read_text(encoding="utf-8"))
    ]
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
