"""`python -m harness`: load runs, their results and reports, and a bed to play with.

Exit codes: 0 all is well; 1 a threshold of the scenario was missed, or a figure got worse than allowed; 2 wrong use or
settings; 3 the bed or the run failed; 130 interrupted; 141 nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from evil_minions import pipe
    from harness import campaign, figures, serve
    from harness.bed.settings import BedSettings
    from harness.containers import options as containers
    from harness.errors import HarnessError, SettingsError
    from harness.progress import Progress
    from harness.report import page
    from harness.report import verdict as verdicts
    from harness.results import comparison, runs
    from harness.results import result as results
    from harness.scenarios import scenario
except ModuleNotFoundError as error:
    if str(error.name).startswith("harness"):
        raise
    missing = f"{error.name} is missing: run `nox -s apply` first, then build/venv/bin/python -m harness."
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.results.result import Result

OK, MISSED, INTERRUPTED = 0, 1, 130
# where the beds of `up` have their folders
BEDS = Path("build/beds")
RUN = "folder or name of a run, or latest (the default)"
CODES = (
    "exit codes: 0 all is well, 1 a threshold of the scenario was missed or a figure got worse than --fail-if-worse "
    "allows, 2 wrong use or settings, 3 the bed or the run failed, 130 interrupted, 141 nobody reads on"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one line on standard error."""
    options = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    do: Callable[[argparse.Namespace], int] = options.do
    try:
        return do(options)
    except KeyboardInterrupt:
        print("Interrupted: everything that was started has been stopped.", file=sys.stderr)
        return INTERRUPTED
    except HarnessError as error:
        if options.debug:
            raise
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:  # a user gets a sentence for whatever goes wrong, the fleet's own errors included
        if options.debug or (isinstance(error, BrokenPipeError) and pipe.unread()):
            raise
        print(f"{error} ({type(error).__name__}; --debug shows where)", file=sys.stderr)
        return HarnessError.exit_code


def load(options: argparse.Namespace) -> int:
    """Run a scenario and write its result and report."""
    trees = scenario.TREES if options.tree == "both" else (options.tree,)
    changes = (options.minions, options.seed, options.transport, options.workers, containers.settings(options))
    order = campaign.Order(options.scenario, trees, options.folder, _command(options), *changes)
    outcome = campaign.run(order, Progress(sys.stderr), datetime.now(UTC))
    return _tell(outcome.folder, outcome.result, as_json=options.json)


def result(options: argparse.Namespace) -> int:
    """Compute a run's result again from its samples."""
    folder = runs.find(options.run, options.folder)
    found = results.compute(folder)
    results.write(found, folder)
    return _tell(folder, found, as_json=options.json)


def report(options: argparse.Namespace) -> int:
    """Write a run's report again, perhaps beside an earlier run."""
    folder = runs.find(options.run, options.folder)
    if options.against is None:
        if options.fail_if_worse is not None:
            raise SettingsError("--fail-if-worse needs --against RUN beside it.")
        path = page.write(folder)
        print(json.dumps({"format": results.FORMAT, "report": str(path)}) if options.json else campaign.shown(path))
        return OK
    found = comparison.compare(folder, runs.find(options.against, options.folder))
    path = page.write(folder, found)
    worse = found.worse(options.fail_if_worse) if options.fail_if_worse is not None else ()
    if options.json:
        names = [f"{line.tree} {line.name}" for line in worse]
        print(json.dumps({**found.to_dict(), "report": str(path), "worse": names}, indent=1))
    else:
        print("\n".join([*comparison.told(found), *(f"WORSE: {line.tree} {line.name}" for line in worse)]))
        print(f"report: {campaign.shown(path)}")
    if options.fail_if_worse is not None and not found.comparable:
        raise SettingsError(f"These runs can't be compared: {'; '.join(found.differences)}.")
    return MISSED if worse else OK


def scenarios(options: argparse.Namespace) -> int:
    """List the scenarios, or describe one."""
    found = [scenario.load(scenario.find(name)) for name in options.names or scenario.names()]
    if options.json:
        print(json.dumps({"format": results.FORMAT, "scenarios": [scenario.dump(entry) for entry in found]}, indent=1))
    elif options.names:
        print("\n\n".join(_described(entry) for entry in found))
    else:
        width = max(len(entry.name) for entry in found)
        print("\n".join(f"{entry.name:{width}}  {entry.description}" for entry in found))
    return OK


def up(options: argparse.Namespace) -> int:
    """Start a bed that stays until Ctrl-C."""
    _, tree = campaign.find(options.tree)
    folder = options.folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    serve.serve(BedSettings(tree, folder, minions=options.minions, transport=options.transport))
    return OK


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m harness", description="Load runs of Salt, their results and reports.", epilog=CODES
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(
        do: Callable[[argparse.Namespace], int],
        text: str,
        example: str,
        *,
        definitions: str = "",
        folder: Path = runs.FOLDER,
    ) -> argparse.ArgumentParser:
        entry: argparse.ArgumentParser = commands.add_parser(
            do.__name__,
            help=text,
            description=f"{text[:1].upper()}{text[1:]}.",
            epilog=f"example:\n  {example}\n\n{definitions}{CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        entry.set_defaults(do=do)
        entry.add_argument("--folder", type=Path, default=folder, help="where its folders are (default: %(default)s)")
        entry.add_argument("--json", action="store_true", help="print a machine's answer")
        entry.add_argument("--debug", action="store_true", help="print tracebacks")
        return entry

    entry = command(
        load, "run a scenario, then write result and report", "python -m harness load --scenario burst --tree both"
    )
    entry.add_argument(
        "--scenario", default="default", help="name of a scenario, or a TOML file (default: %(default)s)"
    )
    entry.add_argument(
        "--tree",
        default="both",
        help="which Salt: stock, patched, both, or a folder with another tree or a virtual environment with Salt in it "
        "(default: %(default)s)",
    )
    entry.add_argument("--transport", choices=scenario.TRANSPORTS, help="another transport than the scenario's")
    entry.add_argument("--minions", type=_count, help="another number of minions than the scenario's")
    entry.add_argument("--seed", type=_count, help="another seed than the scenario's")
    entry.add_argument(
        "--workers", type=_count, default=1, help="processes that share the sending of requests (default: %(default)s)"
    )
    containers.add(entry)

    definitions = "\n".join(f"  {figure.name}: {figure.definition}" for figure in figures.FIGURES)
    entry = command(
        result,
        "compute a run's result again from its samples",
        "python -m harness result",
        definitions=f"fields:\n{definitions}\n\n",
    )
    entry.add_argument("run", nargs="?", help=RUN)
    entry = command(report, "write a run's report again", "python -m harness report 20260102T030405Z-quick")
    entry.add_argument("run", nargs="?", help=RUN)
    entry.add_argument("--against", metavar="RUN", help="an earlier run to compare it to, or latest")
    entry.add_argument(
        "--fail-if-worse",
        type=_share,
        metavar="SHARE",
        help="exit code 1 if a figure became worse by more, such as 20%%",
    )
    entry = command(scenarios, "list the scenarios, or describe some", "python -m harness scenarios burst")
    entry.add_argument("names", nargs="*", metavar="NAME", help="name of a scenario, or a TOML file")
    entry = command(
        up, "start a bed that stays up until Ctrl-C", "python -m harness up --tree stock --minions 100", folder=BEDS
    )
    entry.add_argument("--tree", default="patched", help="which Salt, as for `load` (default: %(default)s)")
    entry.add_argument(
        "--transport", choices=scenario.TRANSPORTS, default="zeromq", help="Salt's transport (default: %(default)s)"
    )
    entry.add_argument("--minions", type=_count, default=100, help="simulated minions (default: %(default)s)")
    return top


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number, and has to be at least 1")
    return int(text)


def _share(text: str) -> float:
    number, percent, _ = text.partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no share: give it as 20% or 0.2")
    return value


def _command(options: argparse.Namespace) -> str:
    """Return the command line that repeats a load run."""
    words = ["python", "-m", "harness", "load", "--scenario", options.scenario, "--tree", options.tree]
    for name in ("minions", "seed", "transport"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    words += containers.words(options)
    if options.workers > 1:
        words += ["--workers", str(options.workers)]
    return shlex.join(words)


def _tell(folder: Path, found: Result, *, as_json: bool) -> int:
    """Print what became of a run, and return the exit code."""
    if as_json:
        print((folder / "result.json").read_text(encoding="utf-8"), end="")
        return OK if found.passed else MISSED
    for name, tree in found.trees.items():
        print(f"{name}:")
        for figure in figures.FIGURES:
            shown = page.row(figure, {name: tree}).values[name]
            if figure.name not in figures.BY_ROLE:
                print(f"  {figure.label:26} {shown}")
    for verdict in found.verdicts:
        print(f"{'met' if verdict.passed else 'MISSED'}: {verdict.tree} {verdict.text}")
    print(verdicts.sentence(found.trees))
    print(f"report: {campaign.shown(folder / page.FILE)}")
    return OK if found.passed else MISSED


def _described(entry: scenario.Scenario) -> str:
    lines = [
        f"{entry.name}: {entry.description}",
        f"  {entry.minions:,} minions, pillars from {entry.pillar}, seed {entry.seed}",
    ]
    lines += [f"  {clients.text}" for clients in entry.clients]
    lines += [f"  has to hold: {threshold.text}" for threshold in entry.thresholds]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(pipe.run(main))
