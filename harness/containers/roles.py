"""What a container of a bed can be: its PostgreSQL, master, salt-api, fleet or clients.

These are the bed's own parts, each started within a container as it would be on a machine; a role returns facts for
the others and the actions that it can be asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import yaml

from harness.bed import LOSSES, Bed, BedSettings, api, fleet
from harness.bed.master import GRAIN
from harness.bed.settings import PortSettings, Tree
from harness.database import Place, Postgres, UnavailableError, schema, sources
from harness.errors import StartError
from harness.load import backend, clients
from harness.load.plan import COMMANDS, ApiAccess, Plan, Share
from harness.paths import ROOT, write_private
from harness.processes.command import Command, own_environment
from harness.processes.ports import Ports
from harness.processes.processes import Processes, Watch
from harness.samples import monitor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from harness.load.clients import Locust
    from harness.processes.processes import Process

FOLDER = Path("/bed")
LOGS, SAMPLES, FILES = FOLDER / "logs", FOLDER / "samples", FOLDER / "files"
# the volume that master, salt-api and clients share: Salt's own commands reach a master through its files and sockets
SHARED = FOLDER / "master"
TREE = ROOT / "tree"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - within the containers' own network
POSTGRES_PORT, API_PORT, REQUEST_PORT = 5432, 8000, 4506
SCENARIO = "scenario.toml"

Action = Callable[[dict[str, Any]], dict[str, Any]]
Role = Callable[[dict[str, Any], "ExitStack"], tuple[dict[str, Any], dict[str, Action]]]


@dataclass(frozen=True)
class Workplace:
    """A container's processes and ports, its monitor among them."""

    processes: Processes
    ports: Ports
    watch: Watch

    def spawn(self, name: str, argv: list[str], role: str, environment: Mapping[str, str]) -> Process:
        """Start a program of ours."""
        variables = own_environment(**environment)
        command = Command(role=role, argv=argv, environment=variables, output=LOGS / f"{name}.out", cwd=SAMPLES)
        return self.processes.start(name, command)


def workplace(stack: ExitStack) -> Workplace:
    """Make the folders and start the monitor."""
    for folder in (LOGS, SAMPLES):
        folder.mkdir(parents=True, exist_ok=True)
    processes = stack.enter_context(Processes(Path("/tmp")))  # noqa: S108 - the container's own
    place = Workplace(processes, stack.enter_context(Ports(SystemRandom())), Watch())
    process = place.spawn("monitor", monitor.command(processes.warden, processes.folder, SAMPLES), "harness", {})
    place.watch.add(process, LOSSES["monitor"], sign=lambda: monitor.written(SAMPLES / monitor.FILE))
    return place


def _action(do: Callable[[], object]) -> Action:
    """Return the action that calls `do`, and has nothing to answer."""

    def act(_: dict[str, Any]) -> dict[str, Any]:
        do()
        return {}

    return act


def postgres(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, Action]]:
    """Be the database: with the base's own server, or that of our requirements; filled with the minions' pillars."""
    place = workplace(stack)
    where = Place(place.processes, place.ports, LOGS, os.environ, POSTGRES_PORT, EVERYWHERE)
    server = _server(where)
    schema.install(server.dsn)
    minions = [request["id_format"].format(number) for number in range(request["minions"])]
    schema.fill(server.dsn, minions, request["seed"], schema.Scale())
    if server.process:
        place.watch.add(server.process, LOSSES["postgres"])
    return {"options": server.salt_options(), "source": server.source}, {"check": _action(place.watch.check)}


def _server(where: Place) -> Postgres:
    reasons = []
    for source in ("local", "wheel"):
        try:
            return sources.SOURCES[source](where)
        except UnavailableError as error:
            reasons.append(f"{source}: {error}")
    raise StartError(f"The base has no PostgreSQL ({'; '.join(reasons)}): install its package postgresql.")


def master(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, Action]]:
    """Be the master, and the place where its keys are rotated and its job cache is read."""
    SHARED.mkdir(parents=True, exist_ok=True)
    settings = BedSettings(
        tree=TREE,
        folder=FOLDER,
        master_options={"interface": EVERYWHERE, **request["options"]},
        pillar="none",
        postgres="none",
        api=None,
        transport=request["transport"],
        ports=PortSettings(request=REQUEST_PORT, publish=4505),
        temporary=SHARED,
    )
    bed = stack.enter_context(Bed(settings))

    def cache(asked: dict[str, Any]) -> dict[str, Any]:
        backend.read_cache(bed, asked["what"], asked["names"])
        return {}

    facts = {"home": str(bed.master.home), "config": str(bed.master.config_dir), "word": bed.master.word}
    return facts, {
        "cache": cache,
        "running": lambda _: {"running": bed.master.running()},
        "rotate": _action(partial(backend.rotate_keys, bed)),
        "restart": _action(bed.restart_master),
        "check": _action(bed.check),
    }


def salt_api(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, Action]]:
    """Be salt-api, which shares the master's network and files, as on a machine."""
    place = workplace(stack)
    first = api.Api(API_PORT, Path(request["home"]), LOGS / "api.log", request["user"], request["password"])
    wanted = api.beside(first, range(API_PORT + 1, API_PORT + request["apis"]))
    tree = Tree(TREE)
    environment = tree.environment(os.environ)
    # the master's configuration, with places of this container for what only salt-api writes
    config = yaml.safe_load((Path(request["config"]) / "master").read_text(encoding="utf-8"))
    started = []
    for one in wanted:
        folder = FOLDER / "etc" / one.name
        api.write(one, config, folder)
        started.append(api.start(one, tree, folder, environment, place.processes))
    for one, process in zip(wanted, started, strict=True):
        api.wait_ready(one, process)
        place.watch.add(process, LOSSES["api"], log=one.log)
    return {"urls": [one.url for one in wanted], "eauth": first.eauth}, {"check": _action(place.watch.check)}


def minions(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, Action]]:
    """Be a fleet, or a share of one."""
    place = workplace(stack)
    FILES.mkdir()
    for name, content in request["files"].items():
        (FILES / name).write_text(content, encoding="utf-8")
    word = place.processes.folder / GRAIN
    write_private(word, f"{request['word']}\n")
    spec = fleet.FleetSpec(
        minions=request["minions"],
        first=request["first"],
        id_format=request["id_format"],
        seed=request["seed"],
        extra=[*request["options"], f"--autosign={word}"],
        master="master",
    )
    # simulated minions use Salt's own matchers and keys; there is one tree only in a container
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(TREE)))}
    started = fleet.start(spec, REQUEST_PORT, SAMPLES, LOGS, environment, place.processes)
    place.watch.add(started.process, LOSSES["fleet"])

    def forward(asked: dict[str, Any]) -> dict[str, Any]:
        started.process.check()
        return {"answer": started.ask(asked["request"])}

    return {}, {"fleet": forward, "check": _action(place.watch.check)}


def load(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, Action]]:
    """Be the clients, beside the master, whose command line some of them use."""
    place = workplace(stack)
    tree = Tree(TREE)
    scenario = FOLDER / SCENARIO
    scenario.write_text(request["scenario"], encoding="utf-8")
    plan = Plan(
        scenario_file=scenario,
        minions=request["minions"],
        seed=request["seed"],
        expected=request["expected"],
        samples=SAMPLES,
        api=ApiAccess(tuple(request["urls"]), request["user"], request["password"], request["eauth"]),
        commands={kind: tuple(tree.command(name, Path(request["config"]))) for kind, name in COMMANDS.items()},
        command_environment=tree.environment(os.environ),
        share=Share(request["workers"]),
    )

    def spawn(locust: Locust) -> Process:
        return place.spawn(locust.name, locust.argv, "locust", locust.environment)

    at_work = clients.start(plan, place.ports.take("locust"), spawn)

    def state(_: dict[str, Any]) -> dict[str, Any]:
        code = at_work.code()
        ended = "" if code is None else at_work.tail()
        return {"code": code, "zero": at_work.zero(), "answered": at_work.answered(), "tail": ended}

    return {}, {"state": state, "check": _action(place.watch.check)}


ROLES: dict[str, Role] = {
    "postgres": postgres, "master": master, "api": salt_api, "fleet": minions, "clients": load
}  # fmt: skip
