"""What interfaces of modules cost: first load of all modules, of pkg alone, a call, a missed look-up, off and on.

A first load happens once in a process, so each sample has a process of its own; the figures are CPU time. The patched
tree also loads two modules that stock leaves out (topic `load-all`), which is in the ratio of `off` to stock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

VARIANTS = {"stock": ("stock", False), "off": ("patched", False), "on": ("patched", True)}
# a function of the interface that does next to nothing itself
FUNCTION = "pkg.normalize_name"
# one that the interface has and apt lacks, one that it does not have
LACKED = ("pkg.group_list", "pkg.nosuch")
CALLS = 20_000

WHAT = {
    "all": "first load of all modules",
    "pkg": "pkg alone, in a new process",
    "calls": "a call through the loader",
    "misses": "a missed look-up",
}
UNITS = {"all": ("ms", 1000.0), "pkg": ("ms", 1000.0), "calls": ("us", 1e6 / CALLS), "misses": ("us", 1e6 / CALLS)}
AIMS = {("all", "off"): at_most(1.03, of="ratio"), ("all", "on"): at_most(1.01, of="ratio")}
# mode: what it is compared with
MODES = {"off": "stock", "on": "off"}


FIGURES = {
    (what, mode): Figure(f"{what}-{mode}", f"{words}, {mode} / {beside}", UNITS[what][0], aim=AIMS.get((what, mode)))
    for what, words in WHAT.items()
    for mode, beside in MODES.items()
}
MORE = Figure("pkg-more", "pkg alone, off: more than stock", "ms", aim=at_most(2))
MISS = Figure("misses-more", "a missed look-up, on: more than off", "us", aim=at_most(2))


def run(options: Options) -> dict[Figure, Samples]:
    """Load and call in turn; raises BenchmarkError when a mode loads more functions than off."""
    # the first turn writes the byte code
    found = interleave({name: partial(_sample, name) for name in VARIANTS}, options, warm=1)
    for turn in zip(*found.values(), strict=True):
        counts = {name: int(one["functions"]) for name, one in zip(found, turn, strict=True)}
        # on, no second module of a virtual name fills the gaps of the first one
        if not counts["on"] <= counts["off"] >= counts["stock"]:
            raise BenchmarkError(f"The modes load wrong numbers of functions: {counts}; on adds none, off loses none.")
    samples = {}
    for (what, mode), figure in FIGURES.items():
        factor = UNITS[what][1]
        mine, theirs = ([one[what] * factor for one in found[name]] for name in (mode, MODES[mode]))
        samples[figure] = Samples(mine, theirs)
    pairs = zip(found["off"], found["stock"], strict=True)
    samples[MORE] = Samples([(mine["pkg"] - theirs["pkg"]) * 1000 for mine, theirs in pairs])
    missed = samples[FIGURES["misses", "on"]]
    samples[MISS] = Samples([mine - theirs for mine, theirs in zip(missed.ours, missed.stock, strict=True)])
    return samples


def _sample(name: str, _turn: int) -> dict[str, float]:
    """Take one sample of everything in new processes: CPU seconds, and how many functions there are."""
    tree, mode = VARIANTS[name]
    settings = {"what": "modules", "smi": mode}
    with SaltProcess(tree, "benchmarks.tasks.calls", settings) as contender:
        package = contender.run("function", FUNCTION)[1][0]
        calls = contender.run("calls", FUNCTION, CALLS)[1][0]
    with SaltProcess(tree, "benchmarks.tasks.calls", settings) as contender:
        seconds, count = contender.run("everything")[1]
        misses = contender.run("misses", LACKED, CALLS // len(LACKED))[1][0]
    return {"pkg": package, "calls": calls, "all": seconds, "misses": misses, "functions": count}


INTERFACES = Benchmark(
    name="interfaces",
    about="interfaces of modules: first load of all, of pkg alone, a call, a missed look-up, off and on",
    run=run,
    figures=(*FIGURES.values(), MORE, MISS),
    minions=1,
    rounds=21,
    minutes=6,
)
