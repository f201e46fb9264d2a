"""The commands that ask, change and end a fleet while it runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evil_minions.errors import UsageError
from evil_minions.fleet import client
from evil_minions.fleet.orders import ORDERS, Order, Selection
from evil_minions.network.path import NetworkPath, Region
from evil_minions.rng import share_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.fleet.status import Status

EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes):
  python -m evil_minions status --folder /tmp/fleet
  python -m evil_minions scale 2000 --folder /tmp/fleet
  python -m evil_minions kill --share 10% --folder /tmp/fleet
  python -m evil_minions revive --folder /tmp/fleet
  python -m evil_minions partition --tgt "site:north" --tgt-type grain --folder /tmp/fleet
  python -m evil_minions heal --folder /tmp/fleet
  python -m evil_minions network "rtt_ms=250 loss=1%" --share 0.3 --folder /tmp/fleet
  python -m evil_minions behave slow-tail --share 0.2 --folder /tmp/fleet
  python -m evil_minions stop --folder /tmp/fleet

exit codes: 0 as asked, 1 no fleet or it refused, 2 options that can't be used
"""


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to a parser."""
    for name, text in (("status", "print the state of a fleet"), ("stop", "end a fleet")):
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text.capitalize()}.",
            epilog=EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--folder", type=Path, required=True, help="the fleet's folder")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=ask)
    for order in ORDERS.values():
        name, text = order.word, order.text
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text.capitalize()}.",
            epilog=EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == "scale":
            command.add_argument("minions", type=int, help="how many in all")
        if name == "network":
            command.add_argument("path", help="rtt_ms=MS jitter_ms=MS loss=SHARE bandwidth_mbit=MBIT, some of these")
        if name == "behave":
            command.add_argument("behaviour", help="name of a preset, or a TOML file")
        command.add_argument("--folder", type=Path, required=True, help="the fleet's folder")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=change, order=order)
        if order.selects:
            command.add_argument("--share", help="a share of those that it can be done to: 10%% or 0.1")
            command.add_argument("--tgt", help="a target of Salt")
            command.add_argument("--tgt-type", default="glob", help="its type: glob, list, grain, compound, … (glob)")


def selection(options: argparse.Namespace) -> Selection:
    """Return the minions that the options mean.

    Raises:
        UsageError: if they contradict each other.

    """
    if options.share is None:
        return Selection(None, options.tgt, options.tgt_type)
    if options.tgt is not None:
        raise UsageError("--share and --tgt exclude each other: leave one out.")
    try:
        return Selection(share_of(options.share))
    except ValueError as error:
        raise UsageError(f"--share {options.share} is no share: give it as 10% or 0.1.") from error


def name_of(text: str) -> str:
    """Return a behaviour's name, or the absolute path of its file, as the fleet runs in another folder."""
    return str(Path(text).absolute()) if text.endswith(".toml") else text


def path_of(text: str) -> NetworkPath:
    """Return the network that words such as `rtt_ms=250 loss=1%` stand for.

    Raises:
        UsageError: if they say whose it is, which the other options do, or stand for none.

    """
    region = Region.parse(text)
    if region.share != 1.0 or region.tgt is not None:
        raise UsageError("Say whose network it is by --share or --tgt.")
    return region.path


def change(options: argparse.Namespace) -> None:
    """Carry out one of the commands, and print how many minions it changed."""
    order: Order = options.order
    request = selection(options).to_dict() if order.selects else {}
    if order.argument:
        request[order.argument] = _READERS[order.argument](options)
    with client.connect(options.folder) as fleet:
        count = int(fleet.ask(do=order.name, **request)["minions"])
    print(json.dumps({"minions": count}) if options.json else order.done.format(count))


# how the command line gives what an order needs
_READERS: Final[dict[str, Callable[[argparse.Namespace], object]]] = {
    "minions": lambda options: options.minions,
    "path": lambda options: path_of(options.path).to_dict(),
    "name": lambda options: name_of(options.behaviour),
}


def ask(options: argparse.Namespace) -> None:
    """Print the state of a fleet, or end it."""
    with client.connect(options.folder) as fleet:
        if options.command == "stop":
            fleet.stop()
            print(json.dumps({"stopped": True}) if options.json else "The fleet ends.")
            return
        status = fleet.status()
        print(json.dumps(status.to_dict()) if options.json else line(status))


def line(status: Status) -> str:
    """Return the state of a fleet as one line."""
    counters = status.counters
    others = ("pending", "rejected", "denied", "dead", "partitioned")
    rest = "".join(f", {getattr(status, name)} {name}" for name in others if getattr(status, name))
    return (
        f"{status.minions} minions: {status.connected} connected, {status.ready} ready{rest} · "
        f"{counters.publications} jobs, {counters.returns} returns, {counters.returns_acked} acknowledged · "
        f"{status.kb_per_minion:.1f} KB each"
    )
