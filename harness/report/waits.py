"""The first picture of the page: how long each request waited, and whether it got its answer, one tree above the other.

Every request is a bar from when it was due to its end. The requests of one block of clients stand together under its
name, and beside them stands how many of their answers were complete: that is what a newcomer reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report import series, theme
from harness.results.evidence import COMPLETE, INCOMPLETE, NONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from harness.results.evidence import Answer, Evidence

# the colour of each state of an answer
COLOURS = {COMPLETE: "good", INCOMPLETE: "warn", NONE: "bad"}
# rows between two blocks, and the least that a block takes: its name needs the room
GAP, LEAST = 1.2, 2.6
# inches: of a row, and of a tree's part at least and at most
ROW, LOW, HIGH = 0.055, 1.1, 3.4
# what names are cut to
LONGEST = 42
# the shortest bar, as a share of the axis: a quick answer is to be seen
SHORTEST = 1 / 300


def picture(trees: Mapping[str, Evidence], names: Sequence[str], name: str) -> str:
    """Return the picture of all trees on one axis of time; `names` are those of the blocks, in the scenario's order."""
    ends = [
        when - samples.timeline.load_start
        for samples in trees.values()
        for when in [*(answer.over for answer in samples.answers), *(moment.time for moment in samples.moments)]
    ]
    seconds = max(ends, default=1.0) * 1.02
    heights = [_rows(blocks(samples.answers, names))[1] for samples in trees.values()]
    inches = [min(HIGH, max(LOW, rows * ROW)) for rows in heights]
    said = []
    plots = theme.panels(inches)
    for plot, rows, (tree, samples) in zip(plots, heights, trees.items(), strict=True):
        said.append(_draw(plot, tree, samples, names, rows, seconds))
    theme.labels(plots[-1], "seconds since the load's start", "")
    return theme.svg(plots[-1], name, f"How long each request waited. {' '.join(said)}")


def blocks(answers: Sequence[Answer], names: Sequence[str]) -> dict[str, list[Answer]]:
    """Return the answers of each block of clients that sent a request."""
    found = {name: [answer for answer in answers if answer.clients == name] for name in names}
    return {name: of_block for name, of_block in found.items() if of_block}


def _rows(found: Mapping[str, Sequence[Answer]]) -> tuple[dict[str, float], float]:
    """Return the row at which each block begins, and the number of all rows."""
    starts, row = {}, 0.0
    for name, answers in found.items():
        starts[name] = row
        row += max(LEAST, len(answers)) + GAP
    return starts, max(row - GAP, 1.0)


def _draw(plot: Axes, tree: str, samples: Evidence, names: Sequence[str], rows: float, seconds: float) -> str:
    """Draw one tree's part and return it in words."""
    start = samples.timeline.load_start
    found = blocks(samples.answers, names)
    starts, _ = _rows(found)
    ticks, labels = [], []
    for name, answers in found.items():
        room = max(LEAST, len(answers))
        # a block of few requests has them in the middle of its room
        first = starts[name] + (room - len(answers)) / 2 + 0.5
        for number, answer in enumerate(answers):
            colour = theme.colour(COLOURS[answer.state])
            left, width = answer.due - start, max(answer.wait_s, seconds * SHORTEST)
            plot.barh(first + number, width, 0.78, left=left, color=colour, linewidth=0)
            if answer.error:
                # not by its colour alone
                plot.plot(left + width, first + number, marker="x", markersize=4.5, markeredgewidth=1.3, color=colour)
        ticks.append(starts[name] + room / 2)
        labels.append(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…")
        _count(plot, ticks[-1], answers)
    plot.set_yticks(ticks, labels)
    plot.tick_params(axis="y", colors=theme.colour("ink"))
    plot.set_ylim(rows + 0.3, -0.3)
    plot.set_xlim(0, seconds)
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f} s")
    plot.spines["left"].set_visible(False)
    complete = sum(not answer.error for answer in samples.answers)
    plot.set_title(
        f"{tree}: {complete:,} of {len(samples.answers):,} complete",
        loc="left",
        fontsize=11,
        fontweight="bold",
        color=theme.colour(tree),
    )
    marked = series.mark(plot, samples, start)
    counts = ", ".join(
        f"{name} {sum(not answer.error for answer in answers)} of {len(answers)}" for name, answers in found.items()
    )
    return f"{tree}: {complete} of {len(samples.answers)} complete ({counts}).{marked}"


def _count(plot: Axes, row: float, answers: Sequence[Answer]) -> None:
    """Write how many of a block's answers are complete, at the right end of its rows."""
    complete = sum(not answer.error for answer in answers)
    # some of them: the colour of one incomplete answer would say something else
    colour = COLOURS[COMPLETE] if complete == len(answers) else "ink" if complete else COLOURS[NONE]
    plot.text(
        1.01,
        row,
        f"{complete:,} of {len(answers):,}",
        transform=plot.get_yaxis_transform(),
        fontsize=9,
        fontweight="bold",
        color=theme.colour(colour),
        va="center",
    )
