"""The command: run a fleet, ask for its state, stop it."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

try:
    from evil_minions import pipe
    from evil_minions.assignments import Part, part_of
    from evil_minions.behaviour import command as shelf
    from evil_minions.errors import EvilMinionsError, UsageError
    from evil_minions.fleet import commands as orders
    from evil_minions.fleet import control, keystates
    from evil_minions.fleet.settings import DEFAULT_ID_FORMAT, DROP, KEEP, FleetSettings
    from evil_minions.fleet.supervisor import Supervisor
    from evil_minions.network.path import Region
    from evil_minions.network.transports.transport import TRANSPORTS
except ModuleNotFoundError as error:
    if str(error.name).startswith("evil_minions"):
        raise
    missing = f"{error.name} is missing: run `nox -s apply` first, then build/venv/bin/python -m evil_minions."
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evil_minions.fleet.status import Status

_EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes):
  python -m evil_minions run --master 127.0.0.1 --request-port 4506 --minions 1000 --folder /tmp/fleet
  python -m evil_minions status --folder /tmp/fleet
  python -m evil_minions stop --folder /tmp/fleet
  python -m evil_minions record --minion web1 --output web1.json --jobs 5
  python -m evil_minions run --recording web1.json --master 127.0.0.1 --minions 1000 --folder /tmp/fleet

exit codes: 0 as asked, 1 the fleet failed, 2 options that can't be used, 3 not ready in time, 141 nobody reads on
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
        description="Start a fleet and keep it until SIGTERM or `stop`.",
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
        "--transport", choices=list(TRANSPORTS), default="zeromq", help="the master's `transport` (default zeromq)"
    )
    run.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="NAME=VALUE…",
        help="of all, or of a share or target: 'rtt_ms=80 jitter_ms=5 loss=1%% bandwidth_mbit=10 share=30%%' or "
        "'rtt_ms=250 tgt=site:north tgt_type=grain'; may be given several times",
    )
    run.add_argument("--recording", type=Path, help="answer as this recording does, see `record`")
    run.add_argument("--slowdown", type=float, default=1.0, help="what recorded times are multiplied by (default 1)")
    run.add_argument("--jitter", type=float, default=0.1, help="spread of recorded times by chance (default 0.1)")
    run.add_argument(
        "--states", type=int, help="make up so many states for a highstate (default: run the master's own state files)"
    )
    run.add_argument(
        "--file-cache",
        choices=(KEEP, DROP),
        default=KEEP,
        help="whether minions keep the master's files: keep, as real ones do, or drop, and each run is a first one",
    )
    run.add_argument(
        "--beacon-interval", type=float, default=0.0, metavar="SECONDS", help="between two beacon events of a minion"
    )
    run.add_argument(
        "--connects-from", metavar="ADDRESS", help="address the master sees, for the grains: makes minions present"
    )
    run.add_argument("--until-ready", type=float, metavar="SECONDS", help="end with 3 if not all are ready by then")
    run.add_argument("--json", action="store_true", help="print the state as JSON lines")
    record = commands.add_parser(
        "record",
        help="learn from a real minion, on its master, what it answers",
        description="Learn from a real minion, on its master, what it answers.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument("--minion", required=True, help="id of a real minion of the master that runs here")
    record.add_argument("--output", type=Path, required=True, help="the recording to write")
    record.add_argument("--config", type=Path, default=Path("/etc/salt/master"), help="the master's configuration")
    record.add_argument("--jobs", type=int, help="end after so many returns (default: Ctrl-C ends)")
    record.add_argument("--seconds", type=float, help="end after so long")
    record.add_argument(
        "--public", action="append", default=[], metavar="PATH", help="part of the pillar that is no secret: 'roles:*'"
    )
    record.add_argument("--json", action="store_true", help="print what was recorded as JSON")
    for name, text in (("status", "print the state of a fleet"), ("stop", "end a fleet")):
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text.capitalize()}.",
            epilog=_EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--folder", type=Path, required=True, help="the fleet's folder")
        command.add_argument("--json", action="store_true", help="print JSON")
    orders.add_parsers(commands)
    shelf.add_parser(commands)
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


def behaviour(text: str) -> Part:
    """Return a behaviour and its share, as `--behaviour` gives them; a file with its whole path."""
    part = part_of(text, "--behaviour")
    return Part(orders.name_of(part.role), part.share)


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
        population=options.population.absolute() if options.population else None,
        behaviours=tuple(behaviour(text) for text in options.behaviour),
        keys=keystates.parts_of(options.keys) if options.keys else (),
        transport=options.transport,
        network=tuple(Region.parse(text) for text in options.network),
        recording=options.recording.absolute() if options.recording else None,
        slowdown=options.slowdown,
        jitter=options.jitter,
        states=options.states,
        file_cache=options.file_cache,
        beacon_interval=options.beacon_interval,
        connects_from=options.connects_from,
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


def learn(options: argparse.Namespace) -> None:
    """Record a real minion."""
    # Salt's client, pillar and file server would cost every fleet 30 MB
    recorder = importlib.import_module("evil_minions.recording.record")
    recording = recorder.record(
        options.config,
        options.minion,
        options.output,
        jobs=options.jobs,
        seconds=options.seconds,
        public=options.public,
    )
    answers, events = len(recording.answers), len(recording.events)
    if options.json:
        print(json.dumps({"minion": recording.minion, "answers": answers, "events": events}))
    else:
        print(f"{options.output}: {answers} answers and {events} further events of {recording.minion}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "run":
            asyncio.run(run_fleet(options))
        elif options.command in orders.NAMES:
            orders.run(options)
        elif options.command == "behaviours":
            return shelf.run(options)
        elif options.command == "record":
            learn(options)
        else:
            ask(options)
    except EvilMinionsError as error:
        print(f"evil_minions: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(pipe.run(main))
