"""Draw docs/architecture.svg from the imports: which package or subpackage uses which.

An arrow goes from who imports to what is imported; what follows from other arrows is left out. Only the standard
library.

Examples: `nox -s architecture`, `python tests/architecture.py --check`.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"
PACKAGES = ("benchmarks", "harness", "evil_minions", "patches")
# of a box, in pixels
WIDTH, HEIGHT, GAP, MARGIN = 190, 96, 34, 24
# the widest row of a panel
ACROSS = 5
HEAD = 58
LETTERS = 31
Graph = dict[str, set[str]]


@dataclass(frozen=True)
class Panel:
    """A package: its subpackages in rows, those that import the most on top, and the arrows between them."""

    name: str
    text: str
    rows: list[list[str]]
    arrows: list[tuple[str, str]]
    texts: Mapping[str, str]

    @property
    def height(self) -> int:
        """Pixels from top to bottom."""
        return HEAD + len(self.rows) * (HEIGHT + GAP)


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def subpackages(package: str, root: Path = ROOT) -> Graph:
    """Return which subpackage of a package imports which other ones."""
    folder = root / package
    names = sorted(path.name for path in folder.iterdir() if (path / "__init__.py").exists())
    found: Graph = {name: set() for name in names}
    for name in names:
        for path in sorted((folder / name).rglob("*.py")):
            for target in imported(path):
                of, _, rest = target.partition(".")
                subpackage = rest.split(".")[0]
                if of == package and subpackage in found and subpackage != name:
                    found[name].add(subpackage)
    return found


def packages(root: Path = ROOT) -> Graph:
    """Return which package imports which other ones of ours."""
    found: Graph = {name: set() for name in PACKAGES}
    for name in PACKAGES:
        for path in sorted((root / name).rglob("*.py")):
            found[name] |= {target.split(".")[0] for target in imported(path)} & set(PACKAGES) - {name}
    return found


def layers(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the names in rows, each of which imports from rows below only; names in a circle share a row."""
    rows: list[list[str]] = []
    left = {name: set(needs) for name, needs in graph.items()}
    while left:
        free = sorted(name for name, needs in left.items() if not needs) or sorted(left)
        rows.insert(0, free)
        left = {name: needs - set(free) for name, needs in left.items() if name not in free}
    return rows


def reach(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return what can be reached from a name by two arrows or more."""
    seen: set[str] = set()
    waiting = [further for near in graph[start] for further in graph[near]]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def arrows(graph: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports that do not follow from others."""
    return [(name, need) for name in sorted(graph) for need in sorted(graph[name] - reach(graph, name))]


def sentence(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.partition("\n")[0].rstrip(".")


def panel(package: str, root: Path = ROOT) -> Panel:
    """Return what is drawn of a package."""
    graph = subpackages(package, root)
    rows = [row[at : at + ACROSS] for row in layers(graph) for at in range(0, len(row), ACROSS)]
    texts = {name: sentence(root / package / name / "__init__.py") for name in graph}
    return Panel(package, sentence(root / package / "__init__.py"), rows, arrows(graph), texts)


def lines(text: str, x: float, y: float, letters: int, most: int, style: str) -> Iterator[str]:
    """Yield a text in lines of so many letters; what is longer than so many lines ends with dots."""
    wrapped = textwrap.wrap(text, letters, max_lines=most, placeholder=" …")
    for number, line in enumerate(wrapped):
        yield f'<text x="{x:g}" y="{y + 14 * number:g}" class="{style}">{escape(line)}</text>'


def drawn(shown: Panel, top: int, width: int) -> Iterator[str]:
    """Yield the elements of a panel."""
    yield f'<rect x="{MARGIN}" y="{top}" width="{width}" height="{shown.height}" class="panel"/>'
    yield f'<text x="{MARGIN + 14}" y="{top + 24}" class="package">{shown.name}</text>'
    yield from lines(shown.text, MARGIN + 14, top + 42, 150, 1, "say")
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(shown.rows):
        left = MARGIN + (width - len(row) * WIDTH - (len(row) - 1) * GAP) / 2
        for at, name in enumerate(row):
            places[name] = left + at * (WIDTH + GAP), top + HEAD + number * (HEIGHT + GAP)
    for start, end in shown.arrows:
        (x1, y1), (x2, y2) = places[start], places[end]
        if y1 < y2:
            yield (
                f'<path d="M{x1 + WIDTH / 2:g} {y1 + HEIGHT:g} C{x1 + WIDTH / 2:g} {y1 + HEIGHT + GAP:g} '
                f'{x2 + WIDTH / 2:g} {y2 - GAP:g} {x2 + WIDTH / 2:g} {y2:g}" class="arrow" marker-end="url(#head)"/>'
            )
    for name, (x, y) in places.items():
        yield f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" class="subpackage"/>'
        yield f'<text x="{x + 10:g}" y="{y + 20:g}" class="name">{name}</text>'
        yield from lines(shown.texts[name], x + 10, y + 38, LETTERS, 4, "say")


def picture(root: Path = ROOT) -> str:
    """Return the picture."""
    shown = [panel(name, root) for name in PACKAGES]
    width = ACROSS * WIDTH + (ACROSS + 1) * GAP
    elements: list[str] = []
    tops: dict[str, int] = {}
    top = MARGIN
    for each in shown:
        tops[each.name] = top
        elements += drawn(each, top, width)
        top += each.height + GAP
    heights = {each.name: each.height for each in shown}
    for start, end in arrows(packages(root)):
        x = MARGIN + width / 2
        y1, y2 = tops[start] + heights[start], tops[end]
        elements.append(f'<path d="M{x:g} {y1} L{x:g} {y2}" class="arrow" marker-end="url(#head)"/>')
    style = (
        "text{font-family:sans-serif;fill:#222}.package{font-size:16px;font-weight:bold}.name{font-size:14px;"
        "font-weight:bold}.say{font-size:11px;fill:#555}.panel{fill:#f4f6f8;stroke:#c5ccd3}.subpackage{fill:#fff;"
        "stroke:#7a8794}.arrow{fill:none;stroke:#7a8794;stroke-width:1.2}"
    )
    marker = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#7a8794"/></marker>'
    )
    body = "\n".join(elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * MARGIN} {top}">\n'
        f"<style>{style}</style>\n<defs>{marker}</defs>\n"
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def main() -> int:
    """Write the picture, or check that it is the committed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if the picture is an old one")
    options = parser.parse_args()
    text = picture()
    if options.check:
        if PICTURE.read_text() != text:
            print(f"{PICTURE.relative_to(ROOT)} is older than the imports: run `nox -s architecture`.", file=sys.stderr)
            return 1
        return 0
    PICTURE.write_text(text)
    print(f"{PICTURE.relative_to(ROOT)} is drawn.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
