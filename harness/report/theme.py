"""Colours of the report and how plots get them.

One colour stands for one role of process, or one tree, on the whole page; `style.css` has them. Plots are drawn with
placeholder colours that become CSS variables, so that the same drawing follows the reader's light or dark theme.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Literal

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from harness import choices as tree_labels
from harness.results import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


# shown roles that are processes of the master, and those that are not
REST = "rest of the master"
ROLES = (
    "MWorker", "MWorkerQueue", "PubServerChannel", "EventPublisher", "EventMonitor", "BatchManager", "Maintenance",
    REST,
)  # fmt: skip
OTHERS = "harness"
GREYS = ("api", "postgres", "fleet", "locust", OTHERS)
TREES = ("stock", "patched", "other", "stock-2", "patched-2", "other-2")
_NAMED = (
    *(f"role-{name.replace(' ', '-')}" for name in (*ROLES, *GREYS)), *TREES,
    "good", "warn", "bad", "ink", "muted", "line",
)  # fmt: skip
# placeholders: colours that appear in no plot otherwise
_PLACEHOLDERS = {name: f"#{0x0A0B00 + number:06x}" for number, name in enumerate(_NAMED)}

WIDTH = 5.2
"""Width of a plot in inches of 72 pixels; the page scales it to its column."""
WIDE = 11.0
"""Width of one that takes both columns."""


def colour(name: str) -> str:
    """Return the placeholder that a plot draws with for colour `name`, which may be the label of a tree."""
    return _PLACEHOLDERS[name if name in _NAMED else of_tree(name)]


def of_tree(label: str) -> str:
    """Return the name of the colour of a tree; from the third of a kind on they share that of the second."""
    return label if label in TREES else f"{tree_labels.kind(label)}-2"


def group(role: str) -> str:
    """Return the role as the page shows it: what has no colour of its own goes with others of its kind."""
    if role in ROLES or role in GREYS:
        return role
    return OTHERS if role in figures.OTHERS else REST


def colour_of_role(role: str) -> str:
    """Return the name of a shown role's colour."""
    return f"role-{role.replace(' ', '-')}"


def order(role: str) -> int:
    """Return the key that sorts shown roles as the page lists them: the master's first, then the rest of the bed."""
    return [*ROLES, *GREYS].index(role)


def axes(height: float = 2.5, *, grid: Literal["x", "y"] = "y") -> Axes:
    """Return the axes of a new plot, `height` inches high."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.patch.set_alpha(0)
    plot: Axes = figure.add_subplot()
    _plain(plot, grid)
    return plot


def panels(heights: Sequence[float]) -> list[Axes]:
    """Return plots one below the other, over the whole width of the page, each so many inches high."""
    # room for titles and for the axis below
    figure = Figure(figsize=(WIDE, sum(heights) + 0.35 * len(heights) + 0.35), layout="constrained")
    figure.patch.set_alpha(0)
    rows = figure.subplots(len(heights), squeeze=False, gridspec_kw={"height_ratios": list(heights)})
    plots = [row[0] for row in rows]
    for plot in plots:
        _plain(plot, "x")
    return plots


def _plain(plot: Axes, grid: Literal["x", "y"]) -> None:
    plot.patch.set_alpha(0)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        plot.spines[side].set_color(colour("line"))
    plot.tick_params(colors=colour("muted"), labelsize=8.5, length=0, pad=4)
    plot.grid(axis=grid, color=colour("line"), linewidth=0.7)
    plot.set_axisbelow(True)


def labels(plot: Axes, x: str, y: str) -> None:
    """Name the axes."""
    plot.set_xlabel(x, fontsize=8.5, color=colour("muted"))
    plot.set_ylabel(y, fontsize=8.5, color=colour("muted"))


def thousands(plot: Axes) -> None:
    """Print the numbers of the upright axis with separators."""
    plot.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def svg(plot: Axes, name: str, description: str) -> str:
    """Return the plot as inline SVG; `description` is for those who can't see it, `name` keeps its ids apart."""
    output = io.StringIO()
    # text stays text: smaller than outlines, and in the page's own font
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        FigureCanvasSVG(plot.figure).print_svg(
            output, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = output.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]+)"', text)
    inner = text[text.index(">") + 1 :]
    inner = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", inner)
    inner = re.sub(r"(\d+\.\d{2})\d+", r"\1", inner)
    inner = re.sub(r'(id|xlink:href|clip-path)="(url\(#|#)?', rf'\1="\2{name}-', inner).replace("xlink:href", "href")
    for key, placeholder in _PLACEHOLDERS.items():
        inner = inner.replace(placeholder, f"var(--{key})")
    view = box.group(1) if box else "0 0 374 180"
    return f'<svg class="plot" viewBox="{view}" role="img" aria-label="{escape(description)}">{inner}'
