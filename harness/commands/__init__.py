"""The commands: what each does with its options. Each returns its exit code."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evil_minions import TRANSPORTS
from harness import figures
from harness import report as page
from harness import verify as verification
from harness.bed import fleet
from harness.bed.settings import ApiSettings, BedSettings
from harness.choices import TRANSPORT, WITHOUT_API
from harness.commands import campaign, serve
from harness.containers import backend as containers
from harness.errors import Faults
from harness.paths import shown_path
from harness.progress import Progress
from harness.report import rows
from harness.report import verdict as verdicts
from harness.results import comparison, differences, runs
from harness.results import result as results
from harness.scenarios import scenario, thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.figures import Figure
    from harness.scenarios.scenario import Scenario

OK, MISSED = 0, 1
"""Exit codes of commands that came to their end."""


def tell(finished: campaign.FinishedRun, *, as_json: bool) -> int:
    """Print what became of a run, and return the exit code."""
    folder, found, written = finished.folder, finished.result, finished.written
    code = OK if found.passed and not written["disagrees"] else MISSED
    if as_json:
        print(json.dumps(written, indent=1))
        return code
    width = max(len(figure.label) for figure in figures.FIGURES)
    for name, tree in found.trees.items():
        print(f"{name}:")
        for figure in (figure for figure in figures.FIGURES if figure.name not in figures.BY_ROLE):
            shown = rows.shown(figure, thresholds.lookup(tree, figure.name)) + rows.of_how_many(figure, tree)
            print(f"  {figure.label:{width}} {shown}{_range(figure, [one[name] for one in found.each])}")
    for verdict in found.verdicts:
        print(f"{'met' if verdict.passed else 'MISSED'}: {verdict.tree} {verdict.text}")
    for name, tree in found.trees.items():
        for gap in tree["gaps"]:
            print(f"{name}: {gap}; what needs it is not measured.")
    for name, remark in page.remarks(found.each[0]):
        print(f"{name}: {remark}")
    for pair in found.differences:
        print(verdicts.compared(pair))
    totals = {name: differences.totals([one[name] for one in found.each]) for name in found.trees}
    print(verdicts.sentence(totals, len(found.each)))
    for sentence in written["why"]:
        print(f"{'WRONG' if sentence in written['disagrees'] else 'NOT TRUSTWORTHY'}: {sentence}")
    print(f"report: {shown_path(folder / page.FILE)}")
    return code


def _range(figure: Figure, runs_of_tree: Sequence[Mapping[str, object]]) -> str:
    """Return the range of a figure over the repeats of a tree, "" of one run."""
    found = differences.values(runs_of_tree, figure.name)
    if len(found) < 2:  # noqa: PLR2004 - a number of things
        return ""
    return f"  ({rows.shown(figure, min(found))} to {rows.shown(figure, max(found))} in {len(found)} runs)"


def described(entry: Scenario) -> str:
    """Return a scenario in words."""
    lines = [
        f"{entry.name}: {entry.description}",
        f"  {entry.minions:,} minions, pillars from {entry.pillar}, seed {entry.seed}",
    ]
    lines += [f"  the fleet: {option.removeprefix('--').replace('=', ' ', 1)}" for option in entry.fleet]
    lines += [f"  {clients.text}" for clients in entry.clients]
    lines += [f"  after {moment.at_s:g} s: {moment.name}" for moment in entry.timeline]
    lines += [f"  has to hold: {threshold.text}" for threshold in entry.thresholds]
    return "\n".join(lines)


def load(options: argparse.Namespace) -> int:
    """Run a scenario and write its result and report."""
    changes = (options.minions, options.seed, options.transport, options.workers)
    where = (containers.settings_of(options), options.repeat, options.watch)
    trees = _trees(options.tree)
    command = shlex.join(["python", "-m", "harness", *options.words])
    request = campaign.RunRequest(options.scenario, trees, options.folder, command, *changes, *where)
    finished = campaign.run(request, Progress(sys.stderr), datetime.now(UTC))
    return tell(finished, as_json=options.json)


def result(options: argparse.Namespace) -> int:
    """Compute a run's result again from its samples."""
    return tell(campaign.evaluate(runs.find(options.run, options.folder)), as_json=options.json)


def verify(options: argparse.Namespace) -> int:
    """Compare the samples of a run with each other and with its result, and mark its report."""
    folder = runs.find(options.run, options.folder)
    found = verification.verify(folder)
    verification.record(folder, found)
    page.mark(folder)
    print(json.dumps(found.to_dict(), indent=1) if options.json else "\n".join(verification.describe(found)))
    return OK if found.agrees else MISSED


def report(options: argparse.Namespace) -> int:
    """Write a run's report again, perhaps beside an earlier run."""
    folder = runs.find(options.run, options.folder)
    if options.against is None:
        path = page.write(folder)
        print(json.dumps({"format": results.FORMAT, "report": str(path)}) if options.json else shown_path(path))
        return OK
    found = comparison.compare(folder, runs.find(options.against, options.folder))
    path = page.write(folder, found)
    if options.json:
        print(json.dumps({**found.to_dict(), "report": str(path)}, indent=1))
    else:
        print("\n".join([*comparison.describe(found), f"report: {shown_path(path)}"]))
    return OK


def scenarios(options: argparse.Namespace) -> int:
    """List the scenarios, or check and describe some."""
    faults = Faults()
    found = []
    for name in options.names or scenario.names():
        with faults.part():
            file = scenario.find(name)
            found.append(scenario.load(file))
            if options.names:
                campaign.check_fleet(found[-1], file.parent)
    faults.end()
    if options.names:
        print("\n\n".join(described(entry) for entry in found))
    else:
        width = max(len(entry.name) for entry in found)
        print("\n".join(f"{entry.name:{width}}  {entry.description}" for entry in found))
    return OK


def up(options: argparse.Namespace) -> int:
    """Start a bed that stays until Ctrl-C."""
    _, tree = campaign.find(options.tree)
    folder = options.folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    settings = BedSettings(
        tree,
        folder,
        minions=options.minions,
        transport=options.transport,
        api=None if options.transport in WITHOUT_API else ApiSettings(),
    )
    fleet.check_capacity(settings.minions, pillars=settings.pillar == "sql")
    serve.serve(settings, as_json=options.json)
    return OK


def _trees(text: str) -> tuple[str, ...]:
    """Return the trees that `--tree` names; a folder may have a comma in its name."""
    words = [text] if Path(text).exists() else text.split(",")
    return tuple(tree for word in words for tree in (scenario.TREES if word == "both" else (word,)))


# where the beds of `up` have their folders
BEDS = Path("build/beds")
RUN = "folder or name of a run, or latest (the default)"
CODES = (
    "exit codes: 0 all is well, 1 a threshold of the scenario was missed, or a result does not agree with its samples, "
    "2 wrong use or settings, 3 the bed or the run failed, 130 interrupted, 141 the reader of the output has ended"
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m harness",
        description="Load runs of Salt, their results and reports.",
        epilog=f"example:\n  python -m harness load --scenario quick\n\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = top.add_subparsers(required=True, metavar="COMMAND")

    def command(
        do: Callable[[argparse.Namespace], int],
        text: str,
        example: str,
        *,
        definitions: str = "",
        folder: Path = runs.FOLDER,
        answers: bool = True,
    ) -> argparse.ArgumentParser:
        entry: argparse.ArgumentParser = subparsers.add_parser(
            do.__name__,
            help=text,
            description=f"{text[:1].upper()}{text[1:]}.",
            epilog=f"example:\n  {example}\n\n{definitions}{CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        entry.set_defaults(do=do)
        entry.add_argument("--folder", type=Path, default=folder, help="where its folders are (default: %(default)s)")
        if answers:
            entry.add_argument("--json", action="store_true", help="print JSON")
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
        help="which Salt: stock, patched, both, or a folder with another tree or a virtual environment with Salt in "
        "it; or several with commas between them, where stock,stock shows the noise of the machine "
        "(default: %(default)s)",
    )
    entry.add_argument(
        "--repeat",
        type=_count,
        default=1,
        metavar="N",
        help="how often each tree is run, in turn; from 5 on ranges alone tell trees apart (default: %(default)s)",
    )
    entry.add_argument("--transport", choices=TRANSPORTS, help="another transport than the scenario's")
    entry.add_argument("--minions", type=_count, help="another number of minions than the scenario's")
    entry.add_argument("--seed", type=_count, help="another seed than the scenario's")
    entry.add_argument(
        "--workers", type=_count, default=1, help="processes that share the sending of requests (default: %(default)s)"
    )
    entry.add_argument(
        "--watch",
        type=Path,
        metavar="FOLDER",
        help="serve the page in this folder (`nox -s load` names the console) with salt-api, and show the run there",
    )
    containers.add_options(entry)

    definitions = "\n".join(f"  {figure.name}: {figure.definition}" for figure in figures.FIGURES)
    entry = command(
        result,
        "compute a run's result again from its samples",
        "python -m harness result",
        definitions=f"fields:\n{definitions}\n\n",
    )
    entry.add_argument("run", nargs="?", help=RUN)
    entry = command(
        verify,
        "verify a run: compare its samples, the job cache, the master's log and its result",
        "python -m harness verify latest",
    )
    entry.add_argument("run", nargs="?", help=RUN)
    entry = command(report, "write a run's report again", "python -m harness report 20260102T030405Z-quick")
    entry.add_argument("run", nargs="?", help=RUN)
    entry.add_argument("--against", metavar="RUN", help="an earlier run to compare it to, or latest")
    entry = command(
        scenarios, "list the scenarios, or check and describe some", "python -m harness scenarios burst", answers=False
    )
    entry.add_argument("names", nargs="*", metavar="NAME", help="name of a scenario, or a TOML file")
    entry = command(
        up, "start a bed that stays up until Ctrl-C", "python -m harness up --tree stock --minions 100", folder=BEDS
    )
    entry.add_argument("--tree", default="patched", help="which Salt, as for `load` (default: %(default)s)")
    entry.add_argument(
        "--transport", choices=TRANSPORTS, default=TRANSPORT, help="Salt's transport (default: %(default)s)"
    )
    entry.add_argument("--minions", type=_count, default=100, help="simulated minions (default: %(default)s)")
    return top


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number, and has to be at least 1")
    return int(text)
