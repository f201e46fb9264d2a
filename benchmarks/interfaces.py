"""What interfaces of modules cost: first load of all modules, of pkg alone, and a call, in each mode.

A first load happens once in a process, so each sample has a process of its own; the figures are CPU time. The patched
tree also loads two modules that stock leaves out (topic `load-all`), which is in the ratio of `off` to stock.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.contender import Contender
from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome, ratio

if TYPE_CHECKING:
    from benchmarks.options import Options

VARIANTS = {
    "stock": ("stock", "off"),
    "off": ("patched", "off"),
    "report": ("patched", "report"),
    "warn": ("patched", "warn"),
    "enforce": ("patched", "enforce"),
}
# of the interface, with a declared return where it has one, and next to nothing to do by itself
FUNCTION = "pkg.normalize_name"
CALLS = 20_000


def run(options: Options) -> Outcome:
    """Load and call in all modes in turn; raises BenchmarkError when a mode loads other functions than off."""
    found: dict[str, dict[str, list[float]]] = {
        what: {name: [] for name in VARIANTS} for what in ("pkg", "calls", "all")
    }
    for name in VARIANTS:
        # writes the byte code
        _sample(name, {what: {name: []} for what in found})
    for turn in range(options.rounds):
        names = list(VARIANTS)
        # who comes first changes with each turn
        names = names[turn % len(names) :] + names[: turn % len(names)]
        counts = {}
        for name in names:
            counts[name] = _sample(name, found)
        _compare(counts)
        options.progress(turn + 1, options.rounds)
    ratios, figures, samples = {}, {}, {}
    for name in VARIANTS:
        for what in found:
            samples[f"{what}_{name}"] = found[what][name]
        figures[f"pkg_{name}_ms"] = median(found["pkg"][name]) * 1000
        figures[f"call_{name}_us"] = median(found["calls"][name]) * 1e6 / CALLS
        if name != "stock":
            base = "stock" if name == "off" else "off"
            ratios[f"all_{name}_to_{base}"] = ratio(found["all"][name], found["all"][base])
            ratios[f"call_{name}_to_{base}"] = ratio(found["calls"][name], found["calls"][base])
            pairs = zip(found["pkg"][name], found["pkg"][base], strict=True)
            figures[f"pkg_{name}_more_ms"] = median(mine - theirs for mine, theirs in pairs) * 1000
    return Outcome("interfaces", "First loads and calls with interfaces of modules", ratios, figures, samples)


def _sample(name: str, found: dict[str, dict[str, list[float]]]) -> int:
    """Take one sample of everything in new processes, and return how many functions there are."""
    tree, mode = VARIANTS[name]
    with Contender(tree, "interfaces", {"smi": mode}) as contender:
        found["pkg"][name].append(contender.run("function", FUNCTION)[1][0])
        found["calls"][name].append(contender.run("calls", FUNCTION, CALLS)[1][0])
    with Contender(tree, "interfaces", {"smi": mode}) as contender:
        seconds, count = contender.run("everything")[1]
    found["all"][name].append(seconds)
    return int(count)


def _compare(counts: dict[str, int]) -> None:
    patched = {count for name, count in counts.items() if name != "stock"}
    if len(patched) > 1:
        raise BenchmarkError(f"The modes load different numbers of functions: {counts}; a mode must not change that.")
