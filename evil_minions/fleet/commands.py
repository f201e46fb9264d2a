"""The commands: start a fleet, ask, change and end it while it runs; record a minion; list and check behaviours."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evil_minions import defaults
from evil_minions.behaviour import example, load, names
from evil_minions.errors import ControlError, UsageError
from evil_minions.fleet import client, ramp
from evil_minions.fleet.orders import ORDERS, Order, Selection
from evil_minions.fleet.settings import FleetSettings
from evil_minions.fleet.supervisor import Supervisor, check_fleet
from evil_minions.network.path import Region
from evil_minions.rng import Assignment, assignment_of, share_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.behaviour import Behaviour
    from evil_minions.fleet.client import Status

    Parser = argparse.ArgumentParser
    Commands = argparse._SubParsersAction[Parser]  # noqa: SLF001 - argparse has no public name of it
    Run = Callable[[argparse.Namespace], int | None]

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


def add_command(commands: Commands, name: str, text: str, example: str, run: Run, **more: object) -> Parser:
    """Add one command to a parser: its help, and what carries it out."""
    command = commands.add_parser(
        name,
        help=text,
        description=f"{text[:1].upper()}{text[1:]}.",
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, **more)
    return command


def add_control(commands: Commands) -> None:
    """Add the commands for a fleet that runs."""

    def add(name: str, text: str, run: Run, **more: object) -> Parser:
        command = add_command(commands, name, text, EXAMPLE, run, **more)
        command.add_argument("--folder", type=Path, required=True, help="the fleet's folder")
        return command

    add("status", "print the state of a fleet", ask).add_argument("--json", action="store_true", help="print JSON")
    add("stop", "end a fleet", stop)
    for order in ORDERS.values():
        command = add(order.word, order.text, change, order=order)
        if order.argument:
            command.add_argument(order.argument, help=order.hint)
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


def change(options: argparse.Namespace) -> None:
    """Carry out one of the commands, and print how many minions it changed."""
    order: Order = options.order
    chosen = selection(options) if order.selects else Selection()
    try:
        argument = {order.argument: order.read(getattr(options, order.argument))} if order.argument else {}
    except ControlError as error:
        raise UsageError(str(error)) from None
    with client.connect(options.folder) as fleet:
        print(order.done.format(fleet.order(order.name, chosen, **argument)))


def ask(options: argparse.Namespace) -> None:
    """Print the state of a fleet."""
    with client.connect(options.folder) as fleet:
        status = fleet.status()
    print(json.dumps(status.to_dict()) if options.json else line(status))


def stop(options: argparse.Namespace) -> None:
    """End a fleet."""
    with client.connect(options.folder) as fleet:
        fleet.stop()
    print("The fleet ends.")


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
_LINE_S: Final = 0.5
_PIPE_S: Final = 5.0


def add_run(commands: Commands) -> None:
    """Add the command that starts a fleet."""
    text = "start a fleet and keep it until SIGTERM or `stop`"
    add = add_command(commands, "run", text, RUN_EXAMPLE, lambda options: asyncio.run(run_fleet(options))).add_argument
    add("--master", required=True, help="address of the master")
    add("--request-port", type=int, default=defaults.REQUEST_PORT, help="the master's ret_port (default %(default)s)")
    add("--minions", type=int, required=True, help="how many")
    add("--folder", type=Path, required=True, help="for control socket, keys and samples")
    add("--first", type=int, default=0, help="number of the first minion (default 0)")
    add(
        "--per-process",
        type=int,
        default=defaults.PER_PROCESS,
        help="maximum of minions in a process (default %(default)s)",
    )
    add("--id-format", default=defaults.ID_FORMAT, help="ids, default %(default)s")
    add("--seed", type=int, default=defaults.SEED, help="of all random numbers (default %(default)s)")
    add(
        "--auth-rate",
        type=float,
        default=defaults.AUTH_RATE,
        help="maximum of sign-ins that begin in a second (default %(default)g)",
    )
    add("--grains", type=Path, help="another template for grains")
    add("--population", type=Path, help="a TOML file of systems, roles and sites in shares")
    add(
        "--behaviour",
        action="append",
        default=[],
        metavar="NAME[=SHARE]",
        help="a preset or a TOML file, for all or a share such as 10%%; may be given several times",
    )
    add("--keys", metavar="STATE=SHARE,…", help="pending, denied, rejected: e.g. pending=10%%,denied=5%%")
    add(
        "--autosign",
        type=Path,
        metavar="FILE",
        help="a file of the master's autosign_grains_dir: accepted minions have this grain when they sign in",
    )
    add(
        "--transport",
        choices=defaults.TRANSPORTS,
        default=defaults.TRANSPORTS[0],
        help="the master's `transport` (default %(default)s)",
    )
    add("--zmq-filtering", action="store_true", help="master and minions have the option `zmq_filtering`")
    add(
        "--network",
        action="append",
        default=[],
        metavar="NAME=VALUE…",
        help="of all, or of a share or target: 'rtt_ms=80 jitter_ms=5 loss=1%% bandwidth_mbit=10 share=30%%' or "
        "'rtt_ms=250 tgt=site:north tgt_type=grain'; may be given several times",
    )
    add("--recording", type=Path, help="answer as this recording does, see `record`")
    add(
        "--slowdown",
        type=float,
        default=defaults.SLOWDOWN,
        help="what recorded times are multiplied by (default %(default)g)",
    )
    add("--jitter", type=float, default=defaults.JITTER, help="random spread of recorded times (default %(default)g)")
    add("--beacon-interval", type=float, default=0.0, metavar="SECONDS", help="between two beacon events of a minion")
    add("--connects-from", metavar="ADDRESS", help="address the master sees, for the grains: makes minions present")
    add("--until-ready", type=float, metavar="SECONDS", help="end with 3 if not all are ready by then")
    add("--check", action="store_true", help="check all options and their files, and start nothing")
    add(
        "--asks",
        action="append",
        default=[],
        metavar="FUNCTION",
        help="with --check: a function that the minions have to know; may be given several times",
    )
    add(
        "--later",
        action="append",
        default=[],
        metavar="NAME",
        help="with --check: a behaviour that they get while they run; may be given several times",
    )
    add("--json", action="store_true", help="print the state as JSON lines")


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
        return lambda status: print(json.dumps(status.to_dict()), flush=True), _PIPE_S
    if sys.stdout.isatty():
        return lambda status: print(f"\r\033[K{line(status)}", end="", flush=True), _LINE_S
    return lambda status: print(line(status), flush=True), _PIPE_S


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
    given = {field.name: getattr(options, field.name) for field in fields(FleetSettings) if field.name in options}
    return FleetSettings(
        **given
        | {name: _absolute(given[name]) for name in ("folder", "autosign", "grains", "population", "recording")}
        | {
            "address": resolve(options.master),
            "behaviours": tuple(behaviour(text) for text in options.behaviour),
            "keys": ramp.parts_of(options.keys) if options.keys else (),
            "network": tuple(Region.parse(text) for text in options.network),
        }
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


RECORD_EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes), on the minion's master:
  python -m evil_minions record --minion web1 --output web1.json --jobs 5

exit codes: 0 as asked, 2 options that can't be used
"""


def add_record(commands: Commands) -> None:
    """Add the command that records a minion."""
    text = "record the answers of a real minion, on its master"
    add = add_command(commands, "record", text, RECORD_EXAMPLE, record).add_argument
    add("--minion", required=True, help="id of a real minion of the master that runs here")
    add("--output", type=Path, required=True, help="the recording to write")
    add("--config", type=Path, default=Path("/etc/salt/master"), help="the master's configuration")
    add("--jobs", type=int, help="end after this many returns (default: Ctrl-C ends)")
    add("--seconds", type=float, help="end after so long")
    add("--public", action="append", default=[], metavar="PATH", help="part of the pillar that is no secret: 'roles:*'")


def record(options: argparse.Namespace) -> None:
    """Record a real minion."""
    # Salt's client, pillar and file server would cost every fleet 30 MB
    from evil_minions.recording import record as recorder  # noqa: PLC0415 - as said above

    ends = {"jobs": options.jobs, "seconds": options.seconds}
    recording = recorder.record(options.config, options.minion, options.output, public=options.public, **ends)
    answers, events = len(recording.answers), len(recording.events)
    print(f"{options.output}: {answers} answers and {events} further events of {recording.minion}.")


BEHAVIOURS_EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes):
  python -m evil_minions behaviours
  python -m evil_minions behaviours slow-tail
  python -m evil_minions behaviours --check my.toml

exit codes: 0 as asked, 1 an example of the file doesn't hold, 2 no such behaviour, or one that makes no sense
"""


def add_behaviours(commands: Commands) -> None:
    """Add the command that knows behaviours."""
    text = "list behaviours, describe one, check one"
    add = add_command(commands, "behaviours", text, BEHAVIOURS_EXAMPLE, behaviours).add_argument
    add("name", nargs="?", help="a preset, or a TOML file")
    add("--check", metavar="NAME", help="check a preset or a TOML file, and run its examples")


def describe(behaviour: Behaviour) -> str:
    """Return a behaviour for people."""
    lines = [f"{behaviour.name}: {behaviour.description}", f"  file: {behaviour.source}"]
    lines += [f"  {rule.name}: {rule.describe()}" for rule in (*behaviour.rules, *behaviour.timers)]
    if not behaviour.paced:
        lines.append("  starts at once, without the fleet's pace")
    if behaviour.process_count_max:
        lines.append(f"  runs {behaviour.process_count_max} jobs at a time, the others wait in the minion's queue")
    return "\n".join([*lines, *(f"  example: {example.name}" for example in behaviour.examples)])


def behaviours(options: argparse.Namespace) -> int:
    """Carry the command out; return its exit code."""
    if options.check is not None:
        behaviour = load(options.check)
        problems = example.failures(behaviour)
        if problems:
            print("\n".join(problems))
        else:
            count = len(behaviour.examples)
            print(f"{behaviour.name}: {'1 example holds' if count == 1 else f'{count} examples hold'}.")
        return 1 if problems else 0
    if options.name is not None:
        print(describe(load(options.name)))
        return 0
    presets = [load(name) for name in names()]
    width = max(len(behaviour.name) for behaviour in presets)
    print("\n".join(f"{behaviour.name:{width}}  {behaviour.description}" for behaviour in presets))
    return 0
