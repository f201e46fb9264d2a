"""The command: run a fleet, ask for its state, stop it."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evil_minions import control, orders
from evil_minions.errors import EvilMinionsError, UsageError
from evil_minions.settings import DEFAULT_ID_FORMAT, FleetSettings
from evil_minions.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evil_minions.status import Status

_EXAMPLE: Final = """\
example:
  python -m evil_minions run --master 127.0.0.1 --request-port 4506 --minions 1000 --folder /tmp/fleet
  python -m evil_minions status --folder /tmp/fleet
  python -m evil_minions stop --folder /tmp/fleet

exit codes: 0 as asked, 1 the fleet failed, 2 options that can't be used, 3 not ready in time
"""
_LINE_SECONDS: Final = 0.5
_PIPE_SECONDS: Final = 5.0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m evil_minions",
        description="Simulated Salt minions for a real master.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="start a fleet and keep it until SIGTERM or `stop`",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--master", required=True, help="address of the master")
    run.add_argument("--request-port", type=int, default=4506, help="the master's ret_port (default 4506)")
    run.add_argument("--minions", type=int, required=True, help="how many")
    run.add_argument("--folder", type=Path, required=True, help="for control socket, keys and samples")
    run.add_argument("--first", type=int, default=0, help="number of the first minion (default 0)")
    run.add_argument("--per-process", type=int, default=2500, help="most minions of a process (default 2500)")
    run.add_argument("--id-format", default=DEFAULT_ID_FORMAT, help="ids, default minion-{:05d}")
    run.add_argument("--seed", type=int, default=1, help="source of all chance (default 1)")
    run.add_argument("--auth-rate", type=float, default=300.0, help="most sign-ins begun a second (default 300)")
    run.add_argument("--grains", type=Path, help="another template for grains")
    run.add_argument("--until-ready", type=float, metavar="SECONDS", help="end with 3 if not all are ready by then")
    run.add_argument("--json", action="store_true", help="print the state as JSON lines")
    for name, text in (("status", "print the state of a fleet"), ("stop", "end a fleet")):
        command = commands.add_parser(
            name, help=text, epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument("--folder", type=Path, required=True, help="the fleet's folder")
        command.add_argument("--json", action="store_true", help="print JSON")
    orders.add_parsers(commands)
    return top


def resolve(host: str) -> str:
    """Return the IP address of a host.

    Raises:
        UsageError: if it has none.

    """
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise UsageError(f"{host} has no address ({error}): give another --master.") from error


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


def reporter(*, as_json: bool) -> tuple[Callable[[Status], None], float]:
    """Return what prints the state and the seconds between prints: a live line on a terminal, plain lines in a pipe."""
    if as_json:
        return lambda status: print(json.dumps(status.to_dict()), flush=True), _PIPE_SECONDS
    if sys.stdout.isatty():
        return lambda status: print(f"\r\033[K{line(status)}", end="", flush=True), _LINE_SECONDS
    return lambda status: print(line(status), flush=True), _PIPE_SECONDS


async def run_fleet(options: argparse.Namespace) -> None:
    """Run a fleet until it is stopped."""
    settings = FleetSettings(
        master=options.master,
        address=resolve(options.master),
        request_port=options.request_port,
        minions=options.minions,
        folder=options.folder.absolute(),
        first=options.first,
        per_process=options.per_process,
        id_format=options.id_format,
        seed=options.seed,
        auth_rate=options.auth_rate,
        grains=options.grains.absolute() if options.grains else None,
    )
    report, every = reporter(as_json=options.json)
    async with Supervisor(settings) as supervisor:
        await supervisor.run(report, every, options.until_ready)


def ask(options: argparse.Namespace) -> None:
    """Print the state of a fleet, or end it."""
    with control.connect(options.folder) as fleet:
        if options.command == "stop":
            fleet.stop()
            print(json.dumps({"stopped": True}) if options.json else "The fleet ends.")
            return
        status = fleet.status()
        print(json.dumps(status.to_dict()) if options.json else line(status))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "run":
            asyncio.run(run_fleet(options))
        elif options.command in orders.NAMES:
            orders.run(options)
        else:
            ask(options)
    except EvilMinionsError as error:
        print(f"evil_minions: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
