"""Plots over time: where CPU time and memory went, how the fleet came up, how returns flowed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from harness.report import moments, theme
from harness.results import cpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from harness.results.evidence import Evidence

STEPS = 160
"""Points of a curve: more than a column of the page can show makes the file larger only."""


@dataclass(frozen=True)
class Limits:
    """Ends of the axes that both trees' plots share, so that they compare by eye.

    `seconds` from the fleet's start, `load_seconds` from the load's, cores, megabytes and returns a second.
    """

    seconds: float
    load_seconds: float
    cores: float
    megabytes: float
    returns: float


def edges(start: float, end: float, steps: int = STEPS) -> list[float]:
    """Return the edges of at most `steps` equal spans from `start` to `end`, none shorter than a second."""
    count = max(2, min(steps, int(end - start)))
    return [start + (end - start) * number / count for number in range(count + 1)]


def limits(trees: Mapping[str, Evidence]) -> Limits:
    """Return the limits that fit every tree."""
    cores, megabytes, returns, seconds, load_seconds = 0.0, 0.0, 0.0, 0.0, 1.0
    for samples in trees.values():
        line = samples.timeline
        seconds = max(seconds, line.settled - line.fleet_start)
        load_seconds = max(load_seconds, line.settled - line.load_start)
        busy = cpu.rates(samples.processes, edges(line.fleet_start, line.settled))
        cores = max(cores, max(map(sum, zip(*busy.values(), strict=True)), default=0.0))
        totals: dict[float, float] = {}
        for role, values in cpu.memory_mb(samples.processes).items():
            if role in theme.ROLES:
                for time, megabyte in values:
                    totals[time] = totals.get(time, 0.0) + megabyte
        megabytes = max(megabytes, max(totals.values(), default=0.0))
        returns = max(returns, *map(max, flow(samples)))
    return Limits(seconds, load_seconds, cores * 1.08, megabytes * 1.08, returns * 1.08)


def cpu_over_time(samples: Evidence, roles: Sequence[str], cores: int, top: Limits, name: str) -> str:
    """Return the stacked plot of cores kept busy by each of `roles`; the dashed line is the machine of `cores`."""
    line = samples.timeline
    spans = edges(line.fleet_start, line.settled)
    busy = cpu.rates(samples.processes, spans)
    plot = theme.axes(2.7)
    middles = [(low + high) / 2 - line.fleet_start for low, high in pairwise(spans)]
    bands = [busy.get(role, [0.0] * len(middles)) for role in roles]
    plot.stackplot(middles, bands, colors=[theme.colour(theme.colour_of_role(role)) for role in roles], linewidth=0)
    plot.axhline(cores, color=theme.colour("ink"), linewidth=0.9, linestyle=(0, (4, 3)))
    word = f"all {cores} cores" if cores > 1 else "the core"
    plot.text(top.seconds, cores, word, fontsize=7.5, color=theme.colour("muted"), va="bottom", ha="right")
    _phases(plot, samples)
    plot.set_xlim(0, top.seconds)
    plot.set_ylim(0, max(top.cores, cores * 1.15))
    marked = moments.mark(plot, samples, line.fleet_start)
    theme.labels(plot, "seconds since the fleet's start", "cores busy")
    used = cpu.seconds(samples.processes, line.load_start, line.settled)
    most = sorted((role for role in roles if role in theme.ROLES), key=lambda role: -used.get(role, 0.0))[:2]
    said = " and ".join(f"{role} with {used.get(role, 0.0):.0f} s" for role in most)
    return theme.svg(
        plot,
        name,
        f"CPU use of each role over time. In the load phase the master's CPU went mostly to {said}.{marked}",
    )


def memory_over_time(samples: Evidence, roles: Sequence[str], top: Limits, name: str) -> str:
    """Return the stacked plot of the memory of each of the master's `roles`."""
    start = samples.timeline.fleet_start
    memory = cpu.memory_mb(samples.processes)
    spans = edges(start, samples.timeline.settled)
    bands = []
    for role in roles:
        values = memory.get(role, [])
        times, megabytes = [time for time, _ in values], [value for _, value in values]
        bands.append([cpu.at(times, megabytes, edge) if times else 0.0 for edge in spans])
    plot = theme.axes()
    fill = [theme.colour(theme.colour_of_role(role)) for role in roles]
    plot.stackplot([edge - start for edge in spans], bands, colors=fill, linewidth=0)
    _phases(plot, samples)
    plot.set_xlim(0, top.seconds)
    plot.set_ylim(0, top.megabytes)
    marked = moments.mark(plot, samples, start)
    theme.labels(plot, "seconds since the fleet's start", "MB")
    theme.thousands(plot)
    peak = max(map(sum, zip(*bands, strict=True)), default=0.0)
    said = f"Memory of the master's processes over time; at most {peak:.0f} MB together.{marked}"
    return theme.svg(plot, name, said)


def ramp_up(trees: Mapping[str, Evidence], name: str) -> str:
    """Return the plot of minions connected and ready while the fleet starts, a pair of lines for each tree."""
    plot = theme.axes()
    said = []
    for tree, samples in trees.items():
        line = samples.timeline
        rows = [row for row in samples.fleet if row.time <= line.ready + 2]
        times = [0.0, *(row.time - line.fleet_start for row in rows)]
        plot.plot(
            times, [0, *(row.connected for row in rows)], color=theme.colour(tree), linewidth=1, linestyle=(0, (2, 2))
        )
        plot.plot(times, [0, *(row.ready for row in rows)], color=theme.colour(tree), linewidth=2)
        said.append(
            f"{tree}: all {rows[-1].minions if rows else 0} minions ready after {line.ready - line.fleet_start:.0f} s"
        )
    plot.set_xlim(left=0)
    plot.set_ylim(bottom=0)
    theme.labels(plot, "seconds since the fleet's start", "minions")
    theme.thousands(plot)
    return theme.svg(plot, name, f"Minions over time at ramp-up. {'; '.join(said)}.")


def fleet_over_time(samples: Evidence, tree: str, top: Limits, name: str) -> str:
    """Return the plot of minions from the fleet's start to the end: how many there are, are connected, are ready."""
    line = samples.timeline
    times = [row.time - line.fleet_start for row in samples.fleet]
    plot = theme.axes()
    ready = [row.ready for row in samples.fleet]
    plot.step(times, [row.minions for row in samples.fleet], where="post", color=theme.colour("muted"), linewidth=0.8)
    plot.plot(
        times, [row.connected for row in samples.fleet], color=theme.colour(tree), linewidth=1, linestyle=(0, (2, 2))
    )
    plot.plot(times, ready, color=theme.colour(tree), linewidth=1.8)
    _phases(plot, samples)
    plot.set_xlim(0, top.seconds)
    plot.set_ylim(0, max(row.minions for row in samples.fleet) * 1.08)
    theme.labels(plot, "seconds since the fleet's start", "minions")
    theme.thousands(plot)
    marked = moments.mark(plot, samples, line.fleet_start)
    in_load = [row.ready for row in samples.fleet if row.time >= line.load_start] or ready
    said = f"{tree}: from {min(in_load)} to {max(in_load)} minions ready in the load phase.{marked}"
    return theme.svg(plot, name, said)


def flow(samples: Evidence) -> tuple[list[float], list[float]]:
    """Return the returns a second that minions sent (repeats included) and that the master acknowledged, for each span.

    A sample tells when a return was done with and how long that took; its attempts are spread evenly over that time.
    """
    line = samples.timeline
    spans = edges(line.load_start, line.settled)
    width = spans[1] - spans[0]
    sent, acknowledged = [0.0] * (len(spans) - 1), [0.0] * (len(spans) - 1)
    for row in samples.returns:
        for attempt in range(row.attempts):
            when = row.time - row.seconds + row.seconds * attempt / row.attempts
            _add(sent, (when - line.load_start) / width, 1 / width)
        if row.acknowledged:
            _add(acknowledged, (row.time - line.load_start) / width, 1 / width)
    return sent, acknowledged


def returns_over_time(samples: Evidence, tree: str, top: Limits, name: str) -> str:
    """Return the plot of returns a second, sent and acknowledged: the gap between the two is work for nothing."""
    line = samples.timeline
    spans = edges(line.load_start, line.settled)
    sent, acknowledged = flow(samples)
    times = [edge - line.load_start for edge in spans]
    plot = theme.axes()
    plot.stairs(sent, times, fill=True, color=theme.colour(tree), alpha=0.25, linewidth=0)
    plot.stairs(sent, times, color=theme.colour(tree), linewidth=0.8, linestyle=(0, (2, 2)))
    plot.stairs(acknowledged, times, color=theme.colour(tree), linewidth=1.8)
    plot.set_xlim(0, top.load_seconds)
    plot.set_ylim(0, max(top.returns, 1.0))
    marked = moments.mark(plot, samples, line.load_start)
    theme.labels(plot, "seconds since the load's start", "returns a second")
    theme.thousands(plot)
    total_sent, total_acknowledged = (sum(values) * (spans[1] - spans[0]) for values in (sent, acknowledged))
    return theme.svg(
        plot, name, f"{tree}: {total_sent:.0f} returns sent, {total_acknowledged:.0f} acknowledged, over time.{marked}"
    )


def _add(values: list[float], place: float, amount: float) -> None:
    if 0 <= place < len(values):
        values[int(place)] += amount


def _phases(plot: Axes, samples: Evidence) -> None:
    """Mark where the load begins and where its last client had an answer."""
    line = samples.timeline
    # one word to the left of its line, one to the right: they never meet, however short the load is
    for moment, word, side in ((line.load_start, "load ▸ ", "right"), (line.clients_done, " settling", "left")):
        x = moment - line.fleet_start
        plot.axvline(x, color=theme.colour("muted"), linewidth=0.8)
        place = plot.get_xaxis_transform()
        plot.text(x, 1.0, word, transform=place, fontsize=7.5, color=theme.colour("muted"), va="bottom", ha=side)
