"""`python -m harness`: load runs, their results and reports, and a bed to play with.

Exit codes: 0 all is well; 1 a threshold of the scenario was missed; 2 wrong use or settings; 3 the bed or the run
failed; 130 interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness import campaign, figures, serve
from harness.bed.settings import BedSettings
from harness.containers.image import BASE
from harness.containers.stage import Settings
from harness.errors import HarnessError, SettingsError
from harness.progress import Progress
from harness.report import page
from harness.results import result as results
from harness.results import runs
from harness.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.results.result import Result

OK, MISSED, USAGE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
CODES = (
    "exit codes: 0 all is well, 1 a threshold of the scenario was missed, 2 wrong use or settings, "
    "3 the bed or the run failed, 130 interrupted"
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
        return USAGE if isinstance(error, SettingsError) else FAILED
    except Exception as error:  # a user gets a sentence for whatever goes wrong, the fleet's own errors included
        if options.debug:
            raise
        print(f"{error} ({type(error).__name__}; --debug shows where)", file=sys.stderr)
        return FAILED


def load(options: argparse.Namespace) -> int:
    """Run a scenario and write its result and report."""
    trees = scenario.TREES if options.tree == "both" else (options.tree,)
    changes = (options.minions, options.seed, options.workers, _docker(options))
    order = campaign.Order(options.scenario, trees, options.folder, _command(options), *changes)
    outcome = campaign.run(order, Progress(sys.stderr), datetime.now(UTC))
    return _tell(outcome.folder, outcome.result, as_json=options.json)


def _docker(options: argparse.Namespace) -> Settings | None:
    """Return how the bed's containers are made, None for a bed of processes; raise SettingsError for half an order."""
    further = [
        name for name in ("base", "fleets", "fleet_engine", "master_address") if getattr(options, name) is not None
    ]
    if not options.docker:
        if further:
            raise SettingsError(f"--{further[0].replace('_', '-')} needs --docker beside it.")
        return None
    if bool(options.fleet_engine) != bool(options.master_address):
        raise SettingsError(
            "--fleet-engine and --master-address belong together: fleets on other machines need to know where the "
            "master's machine is."
        )
    found = Settings(engines=tuple(options.fleet_engine or ()), master_address=options.master_address or "")
    return dataclasses.replace(found, base=options.base or found.base, fleets=options.fleets or found.fleets)


def result(options: argparse.Namespace) -> int:
    """Compute a run's result again from its samples."""
    folder = runs.find(options.run, options.folder)
    found = results.compute(folder)
    results.write(found, folder)
    return _tell(folder, found, as_json=options.json)


def report(options: argparse.Namespace) -> int:
    """Write a run's report again."""
    path = page.write(runs.find(options.run, options.folder))
    print(json.dumps({"format": results.FORMAT, "report": str(path)}) if options.json else campaign.shown(path))
    return OK


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
    tree = campaign.TREES[options.tree]
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    serve.serve(BedSettings(tree, options.folder.parent / "beds" / stamp, minions=options.minions))
    return OK


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m harness", description="Load runs of Salt, their results and reports.", epilog=CODES
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--folder", type=Path, default=runs.FOLDER, help="where run folders are (default: %(default)s)")
    folder.add_argument("--json", action="store_true", help="print a machine's answer")
    folder.add_argument("--debug", action="store_true", help="print tracebacks")

    def command(
        do: Callable[[argparse.Namespace], int], text: str, example: str, *, definitions: str = ""
    ) -> argparse.ArgumentParser:
        entry: argparse.ArgumentParser = commands.add_parser(
            do.__name__,
            help=text,
            description=f"{text[:1].upper()}{text[1:]}.",
            epilog=f"example:\n  {example}\n\n{definitions}{CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[folder],
        )
        entry.set_defaults(do=do)
        return entry

    entry = command(
        load, "run a scenario, then write result and report", "python -m harness load --scenario burst --tree both"
    )
    entry.add_argument(
        "--scenario", default="default", help="name of a scenario, or a TOML file (default: %(default)s)"
    )
    entry.add_argument(
        "--tree", choices=[*scenario.TREES, "both"], default="both", help="which Salt (default: %(default)s)"
    )
    entry.add_argument("--minions", type=_count, help="another number of minions than the scenario's")
    entry.add_argument("--seed", type=_count, help="another seed than the scenario's")
    entry.add_argument(
        "--workers", type=_count, default=1, help="processes that share the sending of requests (default: %(default)s)"
    )
    entry.add_argument("--docker", action="store_true", help="make the bed of containers, see docs/docker.md")
    entry.add_argument("--base", metavar="IMAGE", help=f"image with Python to make them on (default: {BASE})")
    entry.add_argument("--fleets", type=_count, help="containers with minions on each engine (default: 1)")
    entry.add_argument(
        "--fleet-engine", action="append", metavar="URL", help="a further engine for minions; may be repeated"
    )
    entry.add_argument("--master-address", metavar="IP", help="where further engines reach the first one's machine")

    definitions = "\n".join(f"  {figure.name}: {figure.definition}" for figure in figures.FIGURES)
    entry = command(
        result,
        "compute a run's result again from its samples",
        "python -m harness result",
        definitions=f"fields:\n{definitions}\n\n",
    )
    entry.add_argument("run", nargs="?", help="folder or name of a run (default: the latest)")
    entry = command(report, "write a run's report again", "python -m harness report 20260102T030405Z-quick")
    entry.add_argument("run", nargs="?", help="folder or name of a run (default: the latest)")
    entry = command(scenarios, "list the scenarios, or describe some", "python -m harness scenarios burst")
    entry.add_argument("names", nargs="*", metavar="NAME", help="name of a scenario, or a TOML file")
    entry = command(up, "start a bed that stays up until Ctrl-C", "python -m harness up --tree stock --minions 100")
    entry.add_argument("--tree", choices=scenario.TREES, default="patched", help="which Salt (default: %(default)s)")
    entry.add_argument("--minions", type=_count, default=100, help="simulated minions (default: %(default)s)")
    return top


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("has to be at least 1")
    return value


def _command(options: argparse.Namespace) -> str:
    """Return the command line that repeats a load run."""
    words = ["python", "-m", "harness", "load", "--scenario", options.scenario, "--tree", options.tree]
    for name in ("minions", "seed"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    words += _docker_words(options)
    if options.workers > 1:
        words += ["--workers", str(options.workers)]
    return shlex.join(words)


def _docker_words(options: argparse.Namespace) -> list[str]:
    """Return the part of the command line that is about containers."""
    if not options.docker:
        return []
    words = ["--docker"]
    for name in ("base", "fleets", "master_address"):
        if getattr(options, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return [*words, *(word for url in options.fleet_engine or () for word in ("--fleet-engine", url))]


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
    sys.exit(main())
