"""The command: run one benchmark and write its measurement.

Exit codes: 0 the benchmark ran to its end, 2 usage, 3 it could not, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from benchmarks.benchmark import FORMAT, BenchmarkError, Measurement, Options, UnknownBenchmark, here
    from benchmarks.registry import ALL, BENCHMARKS
    from evil_minions import pipe
    from harness.errors import HarnessError
except ModuleNotFoundError as error:
    if str(error.name).startswith(("benchmarks", "harness", "evil_minions")):
        raise
    print(f"bench: {error.name} is missing: use `nox -s bench -- NAME`, which makes it.", file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CODES = "exit codes: 0 the benchmark ran to its end, 2 wrong use, 3 it could not, 130 interrupted, 141 no reader"
LINE = "{:<20} {:>8} min  {}"


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {line}" for line in _listed())
    parser = argparse.ArgumentParser(
        prog="nox -s bench --",
        description="Run one benchmark of a feature, stock and ours interleaved in one run.",
        epilog=f"benchmarks:\n{names}\n\n{CODES}\n\nexample: nox -s bench -- pillar --rounds 100",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="the benchmark; without it they are listed")
    parser.add_argument("--minions", type=_count, help="size of the fleet or of the data")
    parser.add_argument("--rounds", type=_count, help="number of interleaved pairs")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder of NAME.json (build/bench)")
    parser.add_argument("--json", action="store_true", help="print the measurement as JSON")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _listed() -> list[str]:
    return [LINE.format(one.name, f"{one.minutes:g}", one.about) for one in ALL]


def _progress(done: int, total: int) -> None:
    """Show the progress in one live line on a terminal, and nothing in a pipe."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _run(arguments: argparse.Namespace) -> Measurement:
    """Run the benchmark that was asked for; where and when is noted before it begins."""
    if arguments.name not in BENCHMARKS:
        known = ", ".join(BENCHMARKS)
        raise UnknownBenchmark(f"There is no benchmark {arguments.name!r}; choose one of {known}.")
    benchmark = BENCHMARKS[arguments.name]
    minions, rounds = arguments.minions or benchmark.minions, arguments.rounds or benchmark.rounds
    options = Options(minions, rounds, _progress)
    date, machine, own = datetime.now(UTC), here(), benchmark.own()
    return Measurement(benchmark, options, benchmark.run(options), date, machine, own)


def _print(found: Mapping[str, Any]) -> None:
    print(f"{found['about']} ({found['command']})")
    for figure in found["figures"]:
        said = [f"{name} {figure[name]:g}" for name in ("stock", "ours", "ratio") if figure[name] is not None]
        for name, spread in figure["spread"].items():
            if spread["n"] > 1:
                said.append(f"{name} {spread['min']:g} to {spread['max']:g}")
        verdict = {True: "aim met", False: "AIM MISSED", None: ""}[figure["met"]]
        print(f"  {figure['what']:<60} {figure['unit']:<6} {', '.join(said)}  (n = {figure['n']}) {verdict}".rstrip())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.name is None:
        listed = {one.name: {"about": one.about, "minutes": one.minutes} for one in ALL}
        print(json.dumps({"format": FORMAT, "benchmarks": listed}) if arguments.json else "\n".join(_listed()))
        return 0
    try:
        measurement = _run(arguments)
        path = measurement.write(arguments.output)
    except (BenchmarkError, HarnessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, BenchmarkError) else 3
    except KeyboardInterrupt:
        print("bench: interrupted; no measurement was written.", file=sys.stderr)
        return 130
    if arguments.json:
        print(json.dumps(measurement.document()))
    else:
        _print(measurement.document())
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(pipe.run(main))
