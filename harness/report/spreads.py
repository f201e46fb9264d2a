"""Plots of spreads: how long answers took, and CPU time by role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import LogLocator, NullFormatter

from harness.report import theme

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POINTS = 250


def cpu_by_role(used: Mapping[str, Mapping[str, float]], roles: Sequence[str], name: str) -> str:
    """Return the bars of CPU seconds in the load phase, one for each tree under each of `roles`."""
    plot = theme.axes(0.5 + len(roles) * (0.12 + 0.13 * len(used)), grid="x")
    height = 0.76 / len(used)
    largest = max((seconds.get(role, 0.0) for seconds in used.values() for role in roles), default=0.0) or 1.0
    for number, (tree, seconds) in enumerate(used.items()):
        places = [row + (number - (len(used) - 1) / 2) * height for row in range(len(roles))]
        values = [seconds.get(role, 0.0) for role in roles]
        # with one tree only, the bars can have the colours of the roles as everywhere
        fill = [theme.colour(theme.colour_of_role(role) if len(used) == 1 else tree) for role in roles]
        plot.barh(places, values, height * 0.9, color=fill, linewidth=0)
        for place, value in zip(places, values, strict=True):
            plot.text(
                value + largest * 0.012, place, f"{value:.1f} s", fontsize=7.5, color=theme.colour("muted"), va="center"
            )
    plot.set_yticks(range(len(roles)), list(roles))
    plot.tick_params(axis="y", colors=theme.colour("ink"))
    plot.invert_yaxis()
    plot.set_xlim(0, largest * 1.14)
    plot.spines["left"].set_visible(False)
    theme.labels(plot, "CPU seconds in the load phase", "")
    said = "; ".join(
        f"{tree}: " + ", ".join(f"{role} {seconds.get(role, 0.0):.1f} s" for role in roles)
        for tree, seconds in used.items()
    )
    return theme.svg(plot, name, f"CPU seconds of each role in the load phase. {said}.")


def shares(values: Mapping[str, Sequence[float]], x: str, name: str) -> str:
    """Return the curves, one for each tree, of the share of `values` (seconds) that took at most so long."""
    plot = theme.axes()
    low = min((value for spread in values.values() for value in spread if value > 0), default=0.01)
    high = max((value for spread in values.values() for value in spread), default=1.0)
    said = []
    for tree, spread in values.items():
        ordered = sorted(max(value, low) for value in spread)
        if not ordered:
            continue
        step = max(1, len(ordered) // POINTS)
        picked = [(ordered[place], (place + 1) / len(ordered) * 100) for place in range(0, len(ordered), step)]
        picked.append((ordered[-1], 100.0))
        style = "solid" if tree == "patched" or len(values) == 1 else (0, (5, 1.5))
        plot.step(
            *zip(*[(ordered[0], 0.0), *picked], strict=True),
            where="post",
            color=theme.colour(tree),
            linewidth=1.8,
            linestyle=style,
        )
        said.append(f"{tree}: half within {ordered[len(ordered) // 2]:.2f} s, all within {ordered[-1]:.2f} s")
    plot.set_xscale("log")
    plot.set_xlim(low * 0.9, max(high, low * 2) * 1.1)
    plot.set_ylim(0, 102)
    plot.set_yticks([0, 25, 50, 75, 95], ["0 %", "25 %", "50 %", "75 %", "95 %"])
    plot.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 500 else (1.0,)))  # noqa: PLR2004 - as it is read
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    plot.xaxis.set_minor_formatter(NullFormatter())
    plot.tick_params(which="minor", length=0)
    plot.grid(axis="x", color=theme.colour("line"), linewidth=0.5)
    theme.labels(plot, x, "share")
    return theme.svg(plot, name, f"Share of {x} within a time. {'; '.join(said) or 'no samples'}.")


def master_roles(roles: Sequence[str]) -> list[str]:
    """Return those of `roles` that are processes of the master."""
    return [role for role in roles if role in theme.ROLES]


def telling(used: Mapping[str, Mapping[str, float]], roles: Sequence[str]) -> list[str]:
    """Return those of `roles` that used enough CPU, on any tree, for a bar that can be seen."""
    least = 0.004 * max((sum(seconds.values()) for seconds in used.values()), default=0.0)
    return [role for role in roles if any(seconds.get(role, 0.0) > least for seconds in used.values())] or list(roles)
