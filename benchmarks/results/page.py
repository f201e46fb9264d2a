"""The page in Markdown: short cells, short numbers, the machine once on top, and a digest at the end.

Where CI runs there are no files to make the page from, so the digest is what tells a page that somebody wrote into.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.results.row import MACHINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.figure import Aim
    from benchmarks.results.row import Row, Section, Source

HEAD = """\
# Results

Written by `nox -s results` from the files of benchmarks (`build/bench`) and of load runs (`build/runs`). Nothing here
is typed by hand: run the command of a row to measure it again, then `nox -s results`.
"""
NOTES = """\
Stock is Salt as released, ours is Salt with all patches, and the number in brackets is ours divided by stock's. Both
are measured in turn, in one run, so a ratio says more than a time. A number is the median of its samples unless its
row says otherwise; all samples, with their spread, are in the files. A load run is the newest finished one of its
scenario as it stands today. Behind a date, *busy* means that the machine had other work when the run began, *edited*
that `salt/` had edits that are in no patch, *kept* that the page had the figure already and that its file is gone.
"""
COLUMNS = ("what", "stock", "ours", "aim", "met", "command", "date")
DIGEST = re.compile(r"<!-- sha256 of all above: (?P<digest>[0-9a-f]{64}) -->\n\Z")
HUNDRED = 100
KEPT = "kept"
MET = {True: "yes", False: "**no**", None: ""}
# a bar between two cells: those within a cell are escaped
SEPARATOR = re.compile(r"(?<!\\)\|")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def write(sections: Sequence[Section], before: str = "") -> str:
    """Return the page.

    :param sections: what the files hold.
    :param before: the page that is there: where there is no file any more, its figure stays, if `write` made the page.
    """
    sources = [row.source for section in sections for row in section.rows if row.source is not None]
    letters = _machines(sources)
    had = _measured(before) if untouched(before) else {}
    tables = []
    for section in sections:
        made = [_cells(row, letters) for row in section.rows]
        tables.append([_kept(cells, had.get((section.name, cells[0]))) for cells in made])
    parts = [HEAD, _told(letters), _verdict([cells for table in tables for cells in table]), NOTES]
    for section, rows in zip(sections, tables, strict=True):
        table = [_line(COLUMNS), _line(["---"] * len(COLUMNS)), *map(_line, rows)]
        parts.append(f"## {section.name}\n\n{_sentence(section.about)}\n\n" + "\n".join(table) + "\n")
    text = "\n".join(parts)
    return f"{text}\n<!-- sha256 of all above: {_digest(text)} -->\n"


def _measured(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the rows of a page that have a figure, by section and by what they tell of."""
    found, section = {}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| "):
            cells = tuple(cell.replace("\\|", "|").strip() for cell in SEPARATOR.split(line)[1:-1])
            if len(cells) == len(COLUMNS) and cells[-1] and cells != COLUMNS and set(cells[0]) != {"-"}:
                found[section, cells[0]] = cells
    return found


def _kept(cells: tuple[str, ...], had: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return a row, with the figure that the page had for it if it has none; an aim that has changed drops that."""
    what, _, _, aim, _, command, date = cells
    if date or had is None or had[3] != aim:
        return cells
    marks = [mark for mark in had[-1].split(", ") if mark not in LETTERS and mark != KEPT]
    return what, had[1], had[2], aim, had[4], command, ", ".join([*marks, KEPT])


def untouched(text: str) -> bool:
    """Say whether a page is as `write` made it."""
    found = DIGEST.search(text)
    return found is not None and found["digest"] == _digest(text[: found.start() - 1])


def number(value: float, unit: str) -> str:
    """Return a number with its unit, in three digits or as a whole number."""
    if unit == "%":
        return f"{number(value * HUNDRED, '')} %"
    whole = value == int(value) or abs(value) >= HUNDRED
    text = f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else text


def aim_text(aim: Aim, unit: str) -> str:
    """Return an aim in words."""
    low, high = (None if limit is None else _limit(limit, aim, unit) for limit in (aim.minimum, aim.maximum))
    if low == high or (aim.minimum is None and not aim.maximum):
        return str(high)
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at most {high}" if low is None else f"at least {low}"


def _limit(limit: float, aim: Aim, unit: str) -> str:
    return f"{limit:g} of stock" if aim.of == "ratio" else number(limit, unit)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _machines(sources: Sequence[Source]) -> dict[tuple[str, ...], str]:
    """Return a letter for each machine, the one with most figures first; no letter if there is one machine."""
    found = Counter(source.where for source in sources)
    ordered = sorted(found, key=lambda where: (-found[where], where))
    return {where: LETTERS[number % len(LETTERS)] if len(ordered) > 1 else "" for number, where in enumerate(ordered)}


def _told(letters: dict[tuple[str, ...], str]) -> str:
    """Return the machines in words."""
    lines = []
    for where, letter in letters.items():
        facts = dict(zip(MACHINE, where, strict=True))
        words = f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['distribution']}, "
        lines.append(f"Machine{f' {letter}' if letter else ''}: {words}Python {facts['python']}.")
    if not lines:
        return "Machine: nothing was measured.\n"
    return "  \n".join([*lines, "Everything runs on it at once: master, salt-api, PostgreSQL, fleet, clients."]) + "\n"


def _verdict(rows: Sequence[tuple[str, ...]]) -> str:
    """Return how many aims are met."""
    aims = Counter(cells[4] for cells in rows if cells[3])
    measured = sum(bool(cells[-1]) for cells in rows)
    return (
        f"{measured} of {len(rows)} figures are measured. Of {sum(aims.values())} aims {aims[MET[True]]} are met, "
        f"{aims[MET[False]]} are not, and {aims[MET[None]]} are not measured.\n"
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cells(row: Row, letters: dict[tuple[str, ...], str]) -> tuple[str, ...]:
    aim = "" if row.aim is None else aim_text(row.aim, row.unit)
    met = MET[row.met]
    command = f"`{row.command}`"
    if row.source is None or row.ours is None:
        return row.what, "", "not measured", aim, met, command, ""
    stock = "" if row.stock is None else number(row.stock, row.unit)
    ours = number(row.ours, row.unit) + ("" if row.ratio is None else f" ({number(row.ratio, 'x')})")
    marks = (letters[row.source.where], "busy" if row.source.busy else "", "edited" if row.source.edited else "")
    return row.what, stock, ours, aim, met, command, ", ".join(filter(None, (row.source.date[:10], *marks)))
