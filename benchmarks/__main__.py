"""The command: run one benchmark and write its outcome.

Exit codes: 0 the benchmark ran to its end, 2 usage, 3 it could not, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.errors import BenchmarkError, UnknownBenchmark
from benchmarks.options import Options
from evil_minions import pipe
from harness.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.outcome import Outcome

# name: (module below benchmarks, what it measures, default minions, default rounds)
BENCHMARKS = {
    "pillar": ("pillar", "fetch of a pillar from PostgreSQL, stock against patched", 1000, 400),
    "pillar-scale": ("pillar_scale", "the same at 100,000 minions, the RFC's function against ours", 100_000, 20),
    "pillar-fleet": ("pillar_fleet", "the RFC's experiments: a fleet by each access method", 1000, 10),
    "pillar-failures": ("pillar_failures", "seconds until a database that fails is an error of the pillar", 50, 3),
    "density": ("density", "simulated minions with raw sockets against pyzmq's", 500, 5),
    "fleet-tcp": ("fleet_tcp", "a fleet over tcp on stock Salt: ramp-up, memory, CPU, answers", 3000, 1),
    "fleet-ws": ("fleet_ws", "a fleet over ws on stock Salt: ramp-up, memory, CPU, answers", 3000, 1),
    "replay": ("replay", "times of replayed highstates against the recorded ones", 1000, 20),
    "fleet-ten-thousand": ("fleet_large", "10,000 minions: getting in, staying for 10 minutes, cost", 10_000, 1),
    "handler": ("handler", "job handler: its parts, and publications on an idle master", 10_000, 40),
    "package-states": ("package_states", "compiling 1,000 minions of 200 entries, saving one, a long status", 1000, 3),
    "interfaces": ("interfaces", "interfaces of modules: first load of all, of pkg alone, a call", 1, 7),
    "query": ("query", "queries of nodes, systems and jobs beside cache.grains and manage.status", 10_000, 5),
    "fleet": ("fleet", "memory and CPU of simulated minions on a real master", 1000, 5),
}


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:<10} {about}" for name, (_, about, _, _) in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="nox -s bench --",
        description="Run one benchmark of a feature, stock and ours interleaved in one run.",
        epilog=f"benchmarks:\n{names}\n\nexample: nox -s bench -- pillar --rounds 100",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="the benchmark; without it they are listed")
    parser.add_argument("--minions", type=int, help="size of the fleet or of the data")
    parser.add_argument("--rounds", type=int, help="number of interleaved pairs")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder of NAME.json (build/bench)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    return parser


def _progress(done: int, total: int) -> None:
    """Show the progress in one live line on a terminal, and nothing in a pipe."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _run(arguments: argparse.Namespace) -> Outcome:
    try:
        module, _, minions, rounds = BENCHMARKS[arguments.name]
    except KeyError:
        raise UnknownBenchmark(
            f"There is no benchmark {arguments.name!r}; choose one of {', '.join(BENCHMARKS)}."
        ) from None
    options = Options(arguments.minions or minions, arguments.rounds or rounds, _progress, arguments.output)
    outcome: Outcome = importlib.import_module(f"benchmarks.{module}").run(options)
    return outcome


def _print(outcome: Outcome, path: Path) -> None:
    print(outcome.description)
    for name, value in outcome.ratios.items():
        print(f"  {name:<32} ours/stock {value.median:.3f}  ({value.low:.3f} to {value.high:.3f}, {value.pairs} pairs)")
    for name, figure in outcome.figures.items():
        print(f"  {name:<32} {figure:.3f}")
    print(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.name is None:
        if arguments.json:
            print(json.dumps({name: about for name, (_, about, _, _) in BENCHMARKS.items()}))
        else:
            for name, (_, about, _, _) in BENCHMARKS.items():
                print(f"{name:<10} {about}")
        return 0
    try:
        outcome = _run(arguments)
    except (BenchmarkError, HarnessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("bench: interrupted; nothing was written.", file=sys.stderr)
        return 130
    path = outcome.write(arguments.output)
    if arguments.json:
        print(json.dumps(outcome.document()))
    else:
        _print(outcome, path)
    return 0


if __name__ == "__main__":
    sys.exit(pipe.run(main))
