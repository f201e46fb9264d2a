"""Figures in other pages: `<!-- figure: load/default/longest_wait_s/ours -->26 s<!-- /figure -->`.

The first words name the evidence, then follow the figure and the side of it: `stock`, `ours`, or `change` for what
the difference of the two means in words. A run that is not trustworthy fills none, and a busy machine is named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.errors import UnknownFigure
from benchmarks.results import page
from benchmarks.results.row import BUSY, DOUBTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results.row import Row, Section

MARKER = re.compile(r"(?P<start><!-- figure: (?P<place>\S+) -->)(?P<text>.*?)(?P<end><!-- /figure -->)", re.DOTALL)
SIDES = ("stock", "ours", "change")
NOT_MEASURED = "(not measured)"
WHILE_BUSY = " (on a busy machine)"


def fill(text: str, sections: Sequence[Section]) -> str:
    """Return a page with the figures of the evidence; raises UnknownFigure if a marker names none."""
    known = {f"{one.subject.name}/{figure.key}" for one in sections for figure in one.subject.figures}
    believed = [one for one in sections if one.source is not None and DOUBTED not in one.source.marks]
    rows = {f"{one.subject.name}/{row.figure.key}": row for one in believed for row in one.rows}
    busy = {one.subject.name for one in believed if one.source is not None and BUSY in one.source.marks}

    def replaced(found: re.Match[str]) -> str:
        name, _, side = found["place"].rpartition("/")
        if name not in known or side not in SIDES:
            raise UnknownFigure(
                f"There is no figure {found['place']!r}: write NAME/KEY/SIDE, with the name and the key of a file in "
                f"docs/evidence, and {', '.join(SIDES)} as the side."
            )
        text = _value(rows.get(name), side)
        beside = WHILE_BUSY if text and name.rpartition("/")[0] in busy else ""
        return f"{found['start']}{text or NOT_MEASURED}{beside}{found['end']}"

    return MARKER.sub(replaced, text)


def _value(row: Row | None, side: str) -> str:
    if row is None:
        return ""
    if side == "change":
        return page.shown_change(row)
    value: float | None = getattr(row, side)
    return "" if value is None else page.number(value, row.figure.unit)
