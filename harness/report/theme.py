"""Colours of the report and how plots get them.

One colour stands for one role of process, or one tree, on the whole page. The roles' colours are those of Okabe and
Ito, which people with any colour vision tell apart; what isn't the master is grey. Plots are drawn with placeholder
colours that become CSS variables, so that the same drawing follows the reader's light or dark theme.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Colour:
    """A colour in the light and in the dark theme, as CSS writes them."""

    light: str
    dark: str


ROLES = {
    "MWorker": Colour("#0072b2", "#3d9bdc"),
    "MWorkerQueue": Colour("#e69f00", "#f0b429"),
    "PubServerChannel": Colour("#009e73", "#22b88f"),
    "EventPublisher": Colour("#d55e00", "#f0843c"),
    "EventMonitor": Colour("#56b4e9", "#84cbf3"),
    "BatchManager": Colour("#cc79a7", "#dd94bd"),
    "Maintenance": Colour("#b8aa00", "#e5d94a"),
    "rest of the master": Colour("#7a4f8a", "#ab85bb"),
}
REST = "rest of the master"
# roles that are no part of the master
GREYS = {
    "api": Colour("#5d6673", "#8e98a8"),
    "postgres": Colour("#828b98", "#717b8a"),
    "fleet": Colour("#a6aeb9", "#565f6e"),
    "locust": Colour("#c5cbd3", "#434b58"),
    "harness": Colour("#dde1e6", "#353c47"),
}
OTHERS = "harness"
TREES = {
    "stock": Colour("#475063", "#c2cad8"),
    "patched": Colour("#c2185b", "#ff6fa5"),
    "other": Colour("#0b7285", "#3bc9db"),
    # the same tree once more
    "stock-2": Colour("#8a94a6", "#7f8aa0"),
    "patched-2": Colour("#e57ba6", "#b8527a"),
    "other-2": Colour("#62a9b8", "#2a8796"),
}
STATES = {
    "good": Colour("#0f7b6c", "#3cc6ae"),
    "warn": Colour("#b26a00", "#f2b04a"),
    "bad": Colour("#b3261e", "#ff8a80"),
}
BASE = {
    "ink": Colour("#1b2330", "#e8ebf0"),
    "muted": Colour("#5b6576", "#a2acbb"),
    "line": Colour("#dfe3e9", "#333b48"),
    "page": Colour("#f4f6f8", "#12161c"),
    "card": Colour("#ffffff", "#1a2028"),
}
_NAMED = {
    **{f"role-{name.replace(' ', '-')}": colour for name, colour in (ROLES | GREYS).items()},
    **TREES,
    **STATES,
    **BASE,
}
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


def css() -> str:
    """Return the CSS variables of both themes."""
    light = "".join(f"--{name}:{value.light};" for name, value in _NAMED.items())
    dark = "".join(f"--{name}:{value.dark};" for name, value in _NAMED.items())
    return f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"


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
