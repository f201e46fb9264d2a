"""Which minions a target means, as the master's workers find it out before they publish: no master, no network.

Keys are in Salt's usual folders, and every minion has a small pillar and grains in the master's cache: a name that is
no key may be a resource of a minion, so the master looks it up there.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgpack

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

SIDES = ("ours", "stock")
UNKNOWN = 5
FIGURES = {
    "list": Figure("list", "a list of all {minions} minions", "ms", aim=at_most(0.05, "ratio")),
    "all": Figure("all", "'*'", "ms", aim=at_most(0.2, "ratio")),
    "unknown": Figure("unknown", f"a list of {UNKNOWN} names that no minion has", "ms", aim=at_most(0.3, "ratio")),
}
PUBLIC_KEY = "-----BEGIN PUBLIC KEY-----\n" + "x" * 392 + "\n-----END PUBLIC KEY-----\n"


def run(options: Options) -> dict[Figure, Samples]:
    """Find each target `options.rounds` times with both trees; raises BenchmarkError when they find other minions."""
    with TemporaryDirectory(prefix="saltbed-") as name:
        _fill(Path(name), options.minions)
        settings = {"what": "targets", "folder": name, "minions": options.minions, "unknown": UNKNOWN}
        task = "benchmarks.tasks.calls"
        with SaltProcess("patched", task, settings) as ours, SaltProcess("stock", task, settings) as stock:
            sides = {"ours": ours, "stock": stock}
            contenders = {f"{kind} {side}": partial(_find, sides[side], kind) for kind in FIGURES for side in sides}
            found = interleave(contenders, options, warm=1)
    samples = {}
    for kind, figure in FIGURES.items():
        answers = {str(counts) for side in SIDES for _, counts in found[f"{kind} {side}"]}
        expected = [0, UNKNOWN] if kind == "unknown" else [options.minions, 0]
        if answers != {str(expected)}:
            raise BenchmarkError(f"The target {kind!r} found {answers} minions and missing names, not {expected}.")
        samples[figure] = Samples(*([took for took, _ in found[f"{kind} {side}"]] for side in SIDES))
    return samples


def _find(contender: SaltProcess, kind: str, _turn: int) -> tuple[float, list[int]]:
    """Return the milliseconds it took, and how many minions and missing names there were."""
    seconds, counts = contender.run(kind)
    return seconds * 1000, counts


def _fill(folder: Path, count: int) -> None:
    """Make the accepted keys and the cached data of so many minions."""
    places = {bank: folder / "cache" / bank for bank in ("grains", "pillar")}
    for place in (folder / "pki" / "minions", *places.values()):
        place.mkdir(parents=True)
    grains = {f"grain{number}": "x" * 20 for number in range(20)}
    for number in range(count):
        minion = f"minion-{number:05d}"
        (folder / "pki" / "minions" / minion).write_text(PUBLIC_KEY, encoding="ascii")
        (places["grains"] / f"{minion}.p").write_bytes(msgpack.packb({"id": minion, **grains}))
        (places["pillar"] / f"{minion}.p").write_bytes(msgpack.packb({"roles": ["web"], "site": number % 7}))


TARGETS = Benchmark(
    name="targets",
    about="the minions of a target, as a worker of the master finds them before it publishes",
    run=run,
    figures=tuple(FIGURES.values()),
    minions=10_000,
    rounds=5,
    minutes=3,
)
