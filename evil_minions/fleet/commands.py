"""The commands that ask, change and end a fleet while it runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evil_minions import defaults
from evil_minions.errors import UsageError
from evil_minions.fleet import client, ramp
from evil_minions.fleet.orders import ORDERS, Order, Selection
from evil_minions.fleet.settings import FleetSettings, Looks, Master, Replies, Shares, Size, Start
from evil_minions.fleet.supervisor import Supervisor, check_fleet
from evil_minions.network.path import NetworkPath, Region
from evil_minions.rng import Assignment, assignment_of, share_of

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

    def add(name: str, text: str, **defaults: object) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text.capitalize()}.",
            epilog=EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--folder", type=Path, required=True, help="the fleet's folder")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(**defaults)
        return command

    add("status", "print the state of a fleet", run=ask)
    add("stop", "end a fleet", run=ask)
    for order in ORDERS.values():
        command = add(order.word, order.text, run=change, order=order)
        if order.name == "scale":
            command.add_argument("minions", type=int, help="how many in all")
        if order.name == "network":
            command.add_argument("path", help="rtt_ms=MS jitter_ms=MS loss=SHARE bandwidth_mbit=MBIT, some of these")
        if order.name == "behaviour":
            command.add_argument("behaviour", help="name of a preset, or a TOML file")
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
    chosen = selection(options) if order.selects else Selection()
    argument = {order.argument: _READERS[order.argument](options)} if order.argument else {}
    with client.connect(options.folder) as fleet:
        count = fleet.order(order.name, chosen, **argument)
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


RUN_EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes):
  python -m evil_minions run --master 127.0.0.1 --request-port 4506 --minions 1000 --folder /tmp/fleet
  python -m evil_minions run --recording web1.json --master 127.0.0.1 --minions 1000 --folder /tmp/fleet

exit codes: 0 as asked, 1 the fleet failed, 2 options that can't be used, 3 not ready in time
"""
_LINE_SECONDS: Final = 0.5
_PIPE_SECONDS: Final = 5.0


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    run = commands.add_parser(
        "run",
        help="start a fleet and keep it until SIGTERM or `stop`",
        description="Start a fleet and keep it until SIGTERM or `stop`.",
        epilog=RUN_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--master", required=True, help="address of the master")
    run.add_argument(
        "--request-port", type=int, default=defaults.REQUEST_PORT, help="the master's ret_port (default %(default)s)"
    )
    run.add_argument("--minions", type=int, required=True, help="how many")
    run.add_argument("--folder", type=Path, required=True, help="for control socket, keys and samples")
    run.add_argument("--first", type=int, default=0, help="number of the first minion (default 0)")
    run.add_argument(
        "--per-process",
        type=int,
        default=defaults.PER_PROCESS,
        help="maximum of minions in a process (default %(default)s)",
    )
    run.add_argument("--id-format", default=defaults.ID_FORMAT, help="ids, default %(default)s")
    run.add_argument("--seed", type=int, default=defaults.SEED, help="of all random numbers (default %(default)s)")
    run.add_argument(
        "--auth-rate",
        type=float,
        default=defaults.AUTH_RATE,
        help="maximum of sign-ins that begin in a second (default %(default)g)",
    )
    run.add_argument("--grains", type=Path, help="another template for grains")
    run.add_argument("--population", type=Path, help="a TOML file of systems, roles and sites in shares")
    run.add_argument(
        "--behaviour",
        action="append",
        default=[],
        metavar="NAME[=SHARE]",
        help="a preset or a TOML file, for all or a share such as 10%%; may be given several times",
    )
    run.add_argument("--keys", metavar="STATE=SHARE,…", help="pending, denied, rejected: e.g. pending=10%%,denied=5%%")
    run.add_argument(
        "--autosign",
        type=Path,
        metavar="FILE",
        help="a file of the master's autosign_grains_dir: accepted minions have this grain when they sign in",
    )
    run.add_argument(
        "--transport",
        choices=defaults.TRANSPORTS,
        default=defaults.TRANSPORTS[0],
        help="the master's `transport` (default %(default)s)",
    )
    run.add_argument("--zmq-filtering", action="store_true", help="master and minions have the option `zmq_filtering`")
    run.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="NAME=VALUE…",
        help="of all, or of a share or target: 'rtt_ms=80 jitter_ms=5 loss=1%% bandwidth_mbit=10 share=30%%' or "
        "'rtt_ms=250 tgt=site:north tgt_type=grain'; may be given several times",
    )
    run.add_argument("--recording", type=Path, help="answer as this recording does, see `record`")
    run.add_argument(
        "--slowdown",
        type=float,
        default=defaults.SLOWDOWN,
        help="what recorded times are multiplied by (default %(default)g)",
    )
    run.add_argument(
        "--jitter", type=float, default=defaults.JITTER, help="random spread of recorded times (default %(default)g)"
    )
    run.add_argument(
        "--states",
        type=int,
        help="make up this many states for a highstate (default: run the master's own state files)",
    )
    run.add_argument(
        "--beacon-interval", type=float, default=0.0, metavar="SECONDS", help="between two beacon events of a minion"
    )
    run.add_argument(
        "--connects-from", metavar="ADDRESS", help="address the master sees, for the grains: makes minions present"
    )
    run.add_argument("--until-ready", type=float, metavar="SECONDS", help="end with 3 if not all are ready by then")
    run.add_argument("--check", action="store_true", help="check all options and their files, and start nothing")
    run.add_argument(
        "--asks",
        action="append",
        default=[],
        metavar="FUNCTION",
        help="with --check: a function that the minions have to know; may be given several times",
    )
    run.add_argument(
        "--later",
        action="append",
        default=[],
        metavar="NAME",
        help="with --check: a behaviour that they get while they run; may be given several times",
    )
    run.add_argument("--json", action="store_true", help="print the state as JSON lines")
    run.set_defaults(run=lambda options: asyncio.run(run_fleet(options)))


def resolve(host: str) -> str:
    """Return the IP address of a host.

    Raises:
        UsageError: if it has none.

    """
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise UsageError(f"{host} has no address ({error}): give another --master.") from error


def reporter(*, as_json: bool) -> tuple[Callable[[Status], None], float]:
    """Return what prints the state and the seconds between prints: a live line on a terminal, plain lines in a pipe."""
    if as_json:
        return lambda status: print(json.dumps(status.to_dict()), flush=True), _PIPE_SECONDS
    if sys.stdout.isatty():
        return lambda status: print(f"\r\033[K{line(status)}", end="", flush=True), _LINE_SECONDS
    return lambda status: print(line(status), flush=True), _PIPE_SECONDS


def behaviour(text: str) -> Assignment:
    """Return a behaviour and its share, as `--behaviour` gives them; a file with its whole path."""
    found = assignment_of(text, "--behaviour")
    return Assignment(name_of(found.name), found.share)


def _absolute(path: Path | None) -> Path | None:
    """Return a path that holds in the folder of the worker processes as well."""
    return path.absolute() if path else None


def settings_of(options: argparse.Namespace) -> FleetSettings:
    """Return the settings that the options stand for.

    Raises:
        UsageError: for an option that can't be read.

    """
    return FleetSettings(
        master=Master(
            options.master,
            resolve(options.master),
            options.request_port,
            options.transport,
            options.zmq_filtering,
            _absolute(options.autosign),
        ),
        size=Size(options.minions, options.first, options.per_process, options.id_format),
        folder=options.folder.absolute(),
        seed=options.seed,
        start=Start(options.auth_rate),
        looks=Looks(_absolute(options.grains), _absolute(options.population), options.connects_from),
        replies=Replies(
            _absolute(options.recording),
            options.slowdown,
            options.jitter,
            options.states,
            options.beacon_interval,
        ),
        shares=Shares(
            tuple(behaviour(text) for text in options.behaviour),
            ramp.parts_of(options.keys) if options.keys else (),
            tuple(Region.parse(text) for text in options.network),
        ),
    )


async def run_fleet(options: argparse.Namespace) -> None:
    """Run a fleet until it is stopped, or only check its options."""
    settings = settings_of(options)
    if options.check:
        check_fleet(settings, options.asks, options.later)
        return
    report, every = reporter(as_json=options.json)
    async with Supervisor(settings) as supervisor:
        await supervisor.run(report, every, options.until_ready)
