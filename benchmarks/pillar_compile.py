"""What one pillar compile costs: CPU of `get_async_pillar` with 120 grains, a top file, three SLS and an ext_pillar.

Twice: with byte code in `__pycache__` beside the modules, as a normal installation has it and where Salt's loader finds
it, and with byte code elsewhere. Each tree compiles in a process of its own, and what they compile must be equal.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most
from benchmarks.profile import profiled
from benchmarks.turns import interleave
from harness.paths import TREES
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.options import Options

EXT_BYTES = 49_000
GRAINS = {f"grain-{number:03d}": "x" * 20 for number in range(120)}
WARM = 3
PROFILED_ROUNDS = 200
BARE = Figure("bare", "CPU of a compile, byte code elsewhere", "ms", aim=at_most(16))
NORMAL = Figure("normal", "CPU of a compile, __pycache__ beside the modules", "ms", aim=at_most(18))
FIGURES = {"bare": BARE, "normal": NORMAL}
NAMES = {"stock": "stock", "ours": "patched"}


def run(options: Options) -> dict[Figure, Samples]:
    """Compile `options.rounds` pillars with both trees, each with and without `__pycache__`."""
    with TemporaryDirectory(prefix="saltbed-") as name, ExitStack() as stack:
        folder = Path(name)
        contenders = {}
        for form in FIGURES:
            for side, tree in NAMES.items():
                place = TREES[tree] if form == "bare" else _compiled(TREES[tree], folder / f"tree-{side}")
                contenders[form, side] = stack.enter_context(_contender(tree, place, folder / f"{form}-{side}"))
        digests: set[str] = set()

        def cost(form: str, side: str, turn: int) -> float:
            answer = contenders[form, side].run(f"minion-{turn:05d}")[1]
            digests.add(f"{turn} {answer['digest']}")
            return float(answer["cpu"]) * 1000

        found = interleave(
            {f"{form} {side}": partial(cost, form, side) for form, side in contenders},
            options,
            warm=WARM,
        )
        if len(digests) > options.rounds + WARM:
            raise BenchmarkError("The trees compile different pillars; compare them before timing.")
        for (form, side), contender in contenders.items() if options.profile else ():
            with profiled(contender.pid, options.output / "profiles" / f"pillar-compile-{form}-{side}"):
                for turn in range(PROFILED_ROUNDS):
                    contender.run(f"minion-{turn:05d}")
    return {figure: Samples(found[f"{form} ours"], found[f"{form} stock"]) for form, figure in FIGURES.items()}


def _contender(tree: str, place: Path, folder: Path) -> SaltProcess:
    """Start a tree, or its copy with byte code in it."""
    settings = {"folder": str(folder), "ext_bytes": EXT_BYTES, "grains": GRAINS}
    return SaltProcess(tree, "benchmarks.tasks.pillar_compile", settings, place=None if place == TREES[tree] else place)


def _compiled(tree: Path, place: Path) -> Path:
    """Return a copy of a tree's Salt with byte code beside its modules."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(tree / "salt", place / "salt", ignore=ignored)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    argv = [sys.executable, "-m", "compileall", "-q", "-j", "0", str(place / "salt")]
    # templates among the modules can't be compiled
    subprocess.run(argv, env=environment, check=False, stdout=subprocess.DEVNULL)
    if not any((place / "salt" / "modules" / "__pycache__").glob("*.pyc")):
        raise BenchmarkError(f"No byte code was written below {place}; is the disk full?")
    return place


PILLAR_COMPILE = Benchmark(
    name="pillar-compile",
    about="one compile of a pillar without a database: loaders, options, entry points",
    run=run,
    figures=(BARE, NORMAL),
    minions=1,
    rounds=60,
    minutes=1.5,
)
