"""The pictures of the page: how long each request waited, where CPU time and memory went, how returns flowed.

The first picture has a bar for every request, from when it was due to its end. The requests of one block of clients
stand together under its name, and beside them stands how many of their answers were complete: that is what a newcomer
reads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import LogLocator, NullFormatter

from harness import figures
from harness.report import theme
from harness.report.rows import shown
from harness.results import comparison, differences
from harness.results import figures as measured
from harness.results.evidence import COMPLETE, INCOMPLETE, NONE
from harness.scenarios.clients import OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from harness.results.comparison import Change
    from harness.results.differences import Pair
    from harness.results.evidence import Answer, Evidence


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


# CPU time for each return below which a comparison says nothing
SEEN_MS = 0.02


def cpu_rows(
    each: Sequence[Mapping[str, Mapping[str, Any]]], roles: list[str], pairs: Sequence[Pair]
) -> list[tuple[str, dict[str, str], Change | None]]:
    """Return (role, each tree's CPU time for each distinct return and returns for each second of it, how they compare).

    `each` has the trees' results of each repeat; the times are medians, and of the load phase.
    """
    figure = figures.BY_NAME["master_cpu_ms_per_return"]
    rows = []
    for role in [*roles, "all of the master"]:
        found = {tree: [_cpu(one[tree], role, roles) for one in each] for tree in each[0]}
        known_ms = {tree: [value for value in values if value is not None] for tree, values in found.items()}
        shares = {tree: median(values) if values else None for tree, values in known_ms.items()}
        changed = None
        if pairs and role not in theme.GREYS and any((value or 0.0) >= SEEN_MS for value in shares.values()):
            sides = ([value for tree in side for value in known_ms[tree]] for side in (pairs[0].base, pairs[0].other))
            changed = comparison.change(differences.between(figure, *sides))
            changed = comparison.UNTOLD if changed and pairs[0].blind else changed
        rows.append((role, {tree: shown(figure, value) + _rate(value) for tree, value in shares.items()}, changed))
    return rows


def _rate(ms: float | None) -> str:
    """Return how many returns a second of CPU is enough for; "" where too little was used to say."""
    return f" ({1000 / ms:,.0f}/s)" if ms and ms >= SEEN_MS else ""


def _cpu(values: Mapping[str, Any], role: str, roles: list[str]) -> float | None:
    """Return the CPU time of a role for each return of one run, None where there is no such process."""
    # those of jobs that runners and batches published as well, not those of polling
    returns: int = sum(row["returns"] for name, row in values["per_function"].items() if name not in OVERHEAD)
    used = used_by_role(values)
    of_role = [role] if role in roles else master_roles(list(used))
    if not returns or not any(name in used for name in of_role):
        return None
    return sum(used.get(name, 0.0) for name in of_role) * 1000 / returns


def used_by_role(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the CPU seconds of a tree's result by the roles that the page shows."""
    used: Counter[str] = Counter()
    for role, seconds in values["cpu_s"].items():
        used[theme.group(role)] += seconds
    return dict(used)


# lines closer than this share of the plot's width have their names one below the other
CLOSE = 0.035
STEP = 0.34


def listed(trees: Mapping[str, Evidence]) -> list[tuple[str, float, object]]:
    """Return the moments of all trees in order of time: the tree, seconds after the load's start, and the moment."""
    return [
        (tree, moment.time - samples.timeline.load_start, moment)
        for tree, samples in trees.items()
        for moment in samples.moments
    ]


def mark(plot: Axes, samples: Evidence, start: float) -> str:
    """Mark each moment on a plot whose axis begins at `start` (seconds since the epoch); return them in words.

    To be called when the limits of the axis are set.
    """
    low, high = plot.get_xlim()
    place = plot.get_xaxis_transform()
    last, depth = float("-inf"), 0
    for moment in samples.moments:
        x = moment.time - start
        depth = depth + 1 if x - last < CLOSE * (high - low) else 0
        last = x
        plot.axvline(x, color=theme.colour("ink"), linewidth=0.8, linestyle=(0, (1, 1.5)))
        plot.text(
            x,
            0.98 - STEP * (depth % 3),
            f" {moment.name} ",
            transform=place,
            fontsize=6.5,
            color=theme.colour("ink"),
            rotation=90,
            va="top",
            ha="right",
        )
    if not samples.moments:
        return ""
    return " Marked: " + ", ".join(f"{moment.name} at {moment.time - start:.0f} s" for moment in samples.moments) + "."


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


def edges(start: float, end: float) -> list[float]:
    """Return the edges of at most `STEPS` equal spans from `start` to `end`, none shorter than a second."""
    count = max(2, min(STEPS, int(end - start)))
    return [start + (end - start) * number / count for number in range(count + 1)]


def limits(trees: Mapping[str, Evidence]) -> Limits:
    """Return the limits that fit every tree."""
    cores, megabytes, returns, seconds, load_seconds = 0.0, 0.0, 0.0, 0.0, 1.0
    for samples in trees.values():
        line = samples.timeline
        seconds = max(seconds, line.settled - line.fleet_start)
        load_seconds = max(load_seconds, line.settled - line.load_start)
        busy = measured.rates(samples.processes, edges(line.fleet_start, line.settled))
        cores = max(cores, max(map(sum, zip(*busy.values(), strict=True)), default=0.0))
        totals: dict[float, float] = {}
        for role, values in measured.memory_mb(samples.processes).items():
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
    busy = measured.rates(samples.processes, spans)
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
    marked = mark(plot, samples, line.fleet_start)
    theme.labels(plot, "seconds since the fleet's start", "cores busy")
    used = measured.seconds(samples.processes, line.load_start, line.settled)
    most = sorted((role for role in roles if role in theme.ROLES), key=lambda role: -used.get(role, 0.0))[:2]
    said = " and ".join(f"{role} with {used.get(role, 0.0):.0f} s" for role in most)
    return theme.svg(
        plot, name, f"CPU use of each role over time. In the load phase the master's CPU went mostly to {said}.{marked}"
    )


def memory_over_time(samples: Evidence, roles: Sequence[str], top: Limits, name: str) -> str:
    """Return the stacked plot of the memory of each of the master's `roles`."""
    start = samples.timeline.fleet_start
    memory = measured.memory_mb(samples.processes)
    spans = edges(start, samples.timeline.settled)
    bands = []
    for role in roles:
        values = memory.get(role, [])
        times, megabytes = [time for time, _ in values], [value for _, value in values]
        bands.append([measured.at(times, megabytes, edge) if times else 0.0 for edge in spans])
    plot = theme.axes()
    fill = [theme.colour(theme.colour_of_role(role)) for role in roles]
    plot.stackplot([edge - start for edge in spans], bands, colors=fill, linewidth=0)
    _phases(plot, samples)
    plot.set_xlim(0, top.seconds)
    plot.set_ylim(0, top.megabytes)
    marked = mark(plot, samples, start)
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
    marked = mark(plot, samples, line.fleet_start)
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
    marked = mark(plot, samples, line.load_start)
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


def waits(trees: Mapping[str, Evidence], names: Sequence[str], name: str) -> str:
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
    marked = mark(plot, samples, start)
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
