"""What waiting costs: CPU of a process on the event bus for each event that is for somebody else.

Each command that waits for answers receives the answers of all others. Two cases are measured: a process that waits for
one tag while events come faster than it reads, and a command that finds some events at each look at the bus. The cost
of beginning and ending is subtracted. Both trees get the same events, each in a process of its own, in turns.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, Figure, Samples, at_most, interleave
from benchmarks.profile import profiled
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

TASK = "benchmarks.tasks.waiting"
# of a return's text
BYTES = 100
# events a second: of more than these a stock command reads too few, until the bus drops it
RATE = 50.0
EVENTS = {"event": 5000, "client": 200}
RATES = {"event": 0.0, "client": RATE}
PROFILED_ROUNDS = 10
EVENT = Figure("event", "CPU of a wait for each event of others, busy bus", "us", aim=at_most(0.1, "ratio"))
CLIENT = Figure("client", "CPU of a command for each of 50 events/s of others", "us", aim=at_most(0.1, "ratio"))
FIGURES = {"event": EVENT, "client": CLIENT}
NAMES = {"stock": "stock", "ours": "patched"}


def run(options: Options) -> dict[Figure, Samples]:
    """Wait `options.rounds` times with both trees, in both forms."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        contenders = {
            side: stack.enter_context(
                SaltProcess(tree, "benchmarks.tasks.waiting", {"folder": str(Path(folder) / side), "bytes": BYTES})
            )
            for side, tree in NAMES.items()
        }

        def cost(form: str, side: str, _turn: int) -> float:
            used: float = contenders[side].run(form, EVENTS[form], RATES[form])[1]
            if form == "client":
                used -= contenders[side].run(form, 0, 0.0)[1]
            return used / EVENTS[form] * 1_000_000

        works = {f"{form} {side}": partial(cost, form, side) for form in FIGURES for side in NAMES}
        found = interleave(works, options, warm=1)
        for side, contender in contenders.items() if options.profile else ():
            with profiled(contender.pid, options.output / "profiles" / f"waiting-{side}"):
                for _ in range(PROFILED_ROUNDS):
                    contender.run("event", EVENTS["event"], 0.0)
    return {figure: Samples(found[f"{form} ours"], found[f"{form} stock"]) for form, figure in FIGURES.items()}


WAITING = Benchmark(
    name="waiting",
    about="a command or process that waits on the event bus: what each event of others costs it",
    run=run,
    figures=(EVENT, CLIENT),
    minions=1,
    rounds=5,
    minutes=2,
)
