"""The job handler: what its parts cost, and by how much it slows an unloaded master's publications down.

The parts have nothing of stock to be divided by. One of them is a minute of 5,000 return events a second through a
real event bus. Publications are timed against a stock master beside it, in turn.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.contender import TREES, Contender
from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome, Ratio, ratio
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.options import Options

QUEUED = 10_000
FEW = 10
EVENTS_PER_S = 5000
FEED_S = 60
LIMITS = {"rate_limiting": {"criteria": "capacity", "max_minion_jobs": 10**6}}


def run(options: Options) -> Outcome:
    """Measure the parts with `options.minions` targets, then `options.rounds` pairs of publications."""
    samples: dict[str, list[float]] = {}
    with Contender("patched", "handler", {}) as parts:
        samples |= parts.run("decide", options.minions, 5 * options.rounds)[1]
        samples["submit"] = parts.run("submit", options.minions, 5 * options.rounds)[1]
        queue_mb = parts.run("queue", options.minions, QUEUED)[1]
        samples["hear"] = parts.run("hear", options.minions, options.rounds)[1]
    figures = {
        **{f"{name}_p99_ms": percentile(series, 0.99) * 1000 for name, series in samples.items()},
        "queue_of_10000_mb": queue_mb,
        "events_heard_per_cpu_s": options.minions / median(samples["hear"]),
    }
    with Contender("patched", "handler_bus", {}) as bus:
        heard = bus.run(EVENTS_PER_S, FEED_S)[1]
    samples["feed_lag"] = heard["lags"]
    events = EVENTS_PER_S * FEED_S
    figures |= {
        "feed_events_lost": events - heard["heard"],
        "feed_lag_max_ms": max(heard["lags"]) * 1000,
        "feed_handler_cores": heard["cpu"] / FEED_S,
        "feed_bus_cores": heard["bus_cpu"] / FEED_S,
        "feed_events_per_handler_cpu_s": heard["heard"] / heard["cpu"],
    }
    ratios: dict[str, Ratio] = {}
    for keys in (FEW, options.minions):
        stock, patched = _publications(keys, options)
        ratios[f"publish_{keys}_keys"] = ratio(patched, stock)
        figures[f"publish_{keys}_keys_stock_ms"] = median(stock) * 1000
        figures[f"publish_{keys}_keys_more_ms"] = (median(patched) - median(stock)) * 1000
        samples |= {f"publish_{keys}_stock": stock, f"publish_{keys}_patched": patched}
    description = f"The job handler with {options.minions:,} targets; publications patched / stock"
    return Outcome("handler", description, ratios, figures, samples)


def percentile(series: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of a series does not exceed."""
    ordered = sorted(series)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _publications(keys: int, options: Options) -> tuple[list[float], list[float]]:
    """Time publications to so many minions, of which none is there, on two idle masters in turn."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        contenders = []
        for tree, limits in (("stock", {}), ("patched", LIMITS)):
            settings = BedSettings(
                tree=TREES[tree],
                folder=Path(folder) / tree,
                master_options=limits,
                pillar="none",
                postgres="none",
                api=False,
            )
            bed = stack.enter_context(Bed(settings))
            _accept(bed.master.pki_dir, keys)
            config = {"config": str(bed.master.config_dir / "master")}
            contenders.append(stack.enter_context(Contender(tree, "publish", config)))
        stock, patched = contenders
        series: dict[str, list[float]] = {"stock": [], "patched": []}
        for turn in range(options.rounds):
            for contender in (stock, patched) if turn % 2 else (patched, stock):
                seconds, jid = contender.run()
                if jid == "0":
                    raise BenchmarkError(f"The {contender.tree} master published nothing.")
                series[contender.tree].append(seconds)
            options.progress(turn + 1, options.rounds)
        return series["stock"], series["patched"]


def _accept(pki: Path, count: int) -> None:
    """Accept so many keys, all of them the master's own."""
    for number in range(count):
        shutil.copy(pki / "master.pub", pki / "minions" / f"minion-{number:05d}")
