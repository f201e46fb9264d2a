"""The README's picture: when each request of a load run got its answer, on Salt as released and with Saltbed.

`python -m benchmarks.picture RUN` takes the requests of a finished run into docs/first-run.json and draws
docs/first-run.svg; without a run it draws what is there again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.style import context

from harness.paths import ROOT
from harness.results import evidence, runs
from harness.results import result as results
from harness.results.evidence import COMPLETE, INCOMPLETE, NONE

REQUESTS: Final = Path("docs", "first-run.json")
PICTURE: Final = Path("docs", "first-run.svg")
TREES: Final = {"stock": "Salt 3008.5", "patched": "with Saltbed"}
COLOURS: Final = {COMPLETE: "#0f7b6c", INCOMPLETE: "#b06a00", NONE: "#b3261e"}
WORDS: Final = {COMPLETE: "complete answer", INCOMPLETE: "some minions missing", NONE: "no answer"}
# inches
SIZE: Final = (11.5, 3.6)
GAP: Final = 1.5
# of the axis: a quick answer is to be seen
SHORTEST: Final = 1 / 250


def taken(run: Path) -> dict[str, Any]:
    """Return what the picture shows of a run: its clients, date and machine, and each request's times and state."""
    result = results.load(run)
    trees = {}
    for tree in TREES:
        samples = evidence.read(runs.place(run, tree, 1) / "samples")
        start = samples.timeline.load_start
        trees[tree] = [
            [one.clients, round(one.due - start, 2), round(one.over - start, 2), one.state] for one in samples.answers
        ]
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    clients = [one["name"] for one in result["scenario"]["clients"]]
    return {"run": run.resolve().name, "environment": environment, "clients": clients, "trees": trees}


def draw(shown: dict[str, Any], target: Path) -> None:
    """Draw the requests, one tree beside the other, and the longest time that a client waited in vain."""
    given_up = max((over - due for _, due, over, state in shown["trees"]["stock"] if state == NONE), default=0.0)
    last = max(over for requests in shown["trees"].values() for _, _, over, _ in requests) * 1.02
    # the same file for the same requests
    with context({"svg.fonttype": "path", "svg.hashsalt": "saltbed", "font.size": 9}):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        plots = figure.subplots(1, len(TREES), sharey=True)
        for plot, (tree, title) in zip(plots, TREES.items(), strict=True):
            requests = shown["trees"][tree]
            complete = sum(state == COMPLETE for *_, state in requests)
            ticks, row = [], 0.0
            for name in shown["clients"]:
                own = [one for one in requests if one[0] == name]
                ticks.append(row + len(own) / 2)
                for _, due, over, state in own:
                    row += 1
                    plot.barh(row, max(over - due, last * SHORTEST), 0.8, left=due, color=COLOURS[state])
                    if state != COMPLETE:
                        plot.plot(over, row, marker="x", markersize=4, color=COLOURS[state])
                row += GAP
            plot.set_yticks(ticks, shown["clients"])
            plot.set_ylim(row, 0)
            plot.set_xlim(0, last)
            plot.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} s")
            plot.set_title(f"{title}: {complete} of {len(requests)} answered", loc="left", fontweight="bold")
            plot.tick_params(length=0)
            plot.spines[["top", "right", "left"]].set_visible(False)
            plot.grid(axis="x", color="#dddddd", linewidth=0.6)
            plot.set_axisbelow(True)
        legend: list[Patch | Line2D] = [Patch(color=COLOURS[state], label=WORDS[state]) for state in COLOURS]
        if given_up:
            ends = [over for _, due, over, state in shown["trees"]["stock"] if state == NONE and over - due == given_up]
            plots[0].axvline(max(ends), color="#333333", linestyle="--", linewidth=1)
            words = f"clients gave up after {given_up:.0f} s"
            legend.append(Line2D([], [], color="#333333", linestyle="--", label=words))
        figure.legend(handles=legend, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})


def main(argv: list[str] | None = None) -> int:
    """Take a run if one is given, and draw."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.picture",
        description="Draw the README's picture from the requests of a load run.",
        epilog="example:\n  python -m benchmarks.picture build/runs/latest",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, nargs="?", help="the folder of a finished run of both trees")
    options = parser.parse_args(argv)
    if options.run:
        lines = json.dumps(taken(options.run), separators=(",", ":")).replace("],[", "],\n[")
        (ROOT / REQUESTS).write_text(lines + "\n", encoding="utf-8")
    draw(json.loads((ROOT / REQUESTS).read_text(encoding="utf-8")), ROOT / PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
