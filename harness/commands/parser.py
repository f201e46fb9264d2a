"""The command line: which commands there are, and their options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evil_minions import TRANSPORTS
from harness import figures
from harness.choices import TRANSPORT
from harness.commands import actions
from harness.containers import options as containers
from harness.load import coordinator
from harness.results import runs

if TYPE_CHECKING:
    from collections.abc import Callable

# where the beds of `up` have their folders
BEDS = Path("build/beds")
RUN = "folder or name of a run, or latest (the default)"
CODES = (
    "exit codes: 0 all is well, 1 a threshold of the scenario was missed, a figure got worse than --fail-if-worse "
    "allows, or a result does not agree with its samples, 2 wrong use or settings, 3 the bed or the run failed, 130 "
    "interrupted, 141 the reader of the output has ended"
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
        entry.add_argument("--json", action="store_true", help="print JSON")
        entry.add_argument("--debug", action="store_true", help="print tracebacks")
        return entry

    entry = command(
        actions.load,
        "run a scenario, then write result and report",
        "python -m harness load --scenario burst --tree both",
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
        help="serve the page in this folder with salt-api, and show the run there while it goes on",
    )
    containers.add(entry)
    coordinator.add(entry)

    definitions = "\n".join(f"  {figure.name}: {figure.definition}" for figure in figures.FIGURES)
    entry = command(
        actions.result,
        "compute a run's result again from its samples",
        "python -m harness result",
        definitions=f"fields:\n{definitions}\n\n",
    )
    entry.add_argument("run", nargs="?", help=RUN)
    entry = command(
        actions.verify,
        "verify a run: compare its samples, the job cache, the master's log and its result",
        "python -m harness verify latest",
    )
    entry.add_argument("run", nargs="?", help=RUN)
    entry = command(actions.report, "write a run's report again", "python -m harness report 20260102T030405Z-quick")
    entry.add_argument("run", nargs="?", help=RUN)
    entry.add_argument("--against", metavar="RUN", help="an earlier run to compare it to, or latest")
    entry.add_argument(
        "--fail-if-worse",
        type=_share,
        metavar="SHARE",
        help="exit code 1 if a figure became worse by more, such as 20%%",
    )
    entry = command(
        actions.scenarios, "list the scenarios, or check and describe some", "python -m harness scenarios burst"
    )
    entry.add_argument("names", nargs="*", metavar="NAME", help="name of a scenario, or a TOML file")
    entry = command(
        actions.up,
        "start a bed that stays up until Ctrl-C",
        "python -m harness up --tree stock --minions 100",
        folder=BEDS,
    )
    entry.add_argument("--tree", default="patched", help="which Salt, as for `load` (default: %(default)s)")
    entry.add_argument(
        "--transport", choices=TRANSPORTS, default=TRANSPORT, help="Salt's transport (default: %(default)s)"
    )
    entry.add_argument("--minions", type=_count, default=100, help="simulated minions (default: %(default)s)")
    entry = command(
        actions.worker,
        "send a part of the requests of load runs that another host runs, until Ctrl-C",
        "python -m harness worker 10.0.0.1:4700 --key-file workers.key",
    )
    entry.add_argument("address", metavar="IP[:PORT]", help="what the load run was given as --workers-address")
    entry.add_argument(
        "--key-file", type=Path, required=True, help="a copy of the file with the word that lets in, see the load run"
    )
    entry.add_argument(
        "--loads", type=_count, metavar="N", help="end after this many loads; a run has one for each tree"
    )
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
