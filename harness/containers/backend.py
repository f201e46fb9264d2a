"""The backend of containers; `harness.load.backend` says what each method has to do."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from evil_minions import ID_FORMAT, Status
from harness.bed import api, master
from harness.bed.fleet import shared_options
from harness.bed.settings import temporary_parent
from harness.containers import engine, image, relay, roles, swarm
from harness.containers.channel import Channel, Offset, measure
from harness.database.container import address
from harness.errors import DockerError, HarnessError, MasterError, RunError, SettingsError, StartError
from harness.load.backend import Backend
from harness.processes.deadline import Deadline
from harness.processes.processes import Processes
from harness.samples import ClockSample, SampleFile
from harness.scenarios.clients import CLI, OVER_API

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.load.backend import Job
    from harness.load.watch import Watch


@dataclass(frozen=True)
class ContainerSettings:
    """How a bed of containers is made."""

    # the image that all containers are made on
    base: str = image.BASE
    # the number of containers with minions; 0 for one, or one for each node of a swarm
    fleets: int = 0
    # whether they are tasks on the nodes of the engine's swarm
    swarm: bool = False

    @property
    def description(self) -> str:
        """Return what the bed is made of, for those who compare runs."""
        where = (" on a swarm" if self.fleets else " on each node of a swarm") if self.swarm else ""
        return f"containers on {self.base}, {self.fleets or 1} with minions{where}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("a bed of containers (docs/docker.md)")
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--docker", action="store_true", help="make the bed of containers instead of processes")
    kind.add_argument("--swarm", action="store_true", help="the same, with the minions on all nodes of a Docker swarm")
    group.add_argument("--base", metavar="IMAGE", help=f"image with Python to make them on (default: {image.BASE})")
    group.add_argument(
        "--fleets", type=int, metavar="N", help="containers with minions (default: 1, or 1 for each node of the swarm)"
    )


def settings_of(options: argparse.Namespace) -> ContainerSettings | None:
    """Return how the bed's containers are made, None for a bed of processes.

    Raises:
        SettingsError: for options that need others, or a number that makes no sense.
    """
    if not (options.docker or options.swarm):
        for name in ("base", "fleets"):
            if getattr(options, name) is not None:
                raise SettingsError(f"--{name} needs --docker or --swarm beside it.")
        return None
    if options.fleets is not None and options.fleets < 1:
        raise SettingsError("--fleets has to be at least 1.")
    return ContainerSettings(options.base or image.BASE, options.fleets or 0, options.swarm)


@dataclass
class RemoteClients:
    """The clients' container, whose clock is so many seconds `ahead`."""

    channel: Channel
    ahead: float = 0.0
    last: dict[str, Any] = field(default_factory=lambda: {"code": None, "zero": None, "answered": 0, "tail": ""})

    def code(self) -> int | None:
        """Return the exit code, None while they are at work; the other answers are of the same moment."""
        self.last = self.channel.ask("state")
        code: int | None = self.last["code"]
        return code

    def zero(self) -> float | None:
        """Return the schedule's zero."""
        zero: float | None = self.last["zero"] or self.channel.ask("state")["zero"]
        return None if zero is None else zero - self.ahead

    def answered(self) -> int:
        """Return how many requests have been answered."""
        return int(self.last["answered"])

    def patience(self, seconds: float) -> Deadline:
        """Return a deadline for what takes `seconds` on a quiet machine."""
        return Deadline(seconds)

    def late(self, what: str, deadline: Deadline) -> str:
        """Return the error text for clients that did not do `what` in time."""
        return f"The clients did not {what} after {deadline.waited()}: see the logs of their container."

    def tail(self) -> str:
        """Return the last lines that they printed."""
        return str(self.last["tail"])


def samples(channels: Mapping[str, Channel], ahead: Mapping[str, float], output: Path) -> None:
    """Fetch the samples of all containers into `output`, and put them together as those of one machine.

    `ahead` has the seconds by which the clock of each container is ahead of ours.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folders = {
            name: engine.fetch_folder(channel, str(roles.SAMPLES), Path(temporary, name))
            for name, channel in channels.items()
        }
        engine.merge_processes(((folder, ahead[name]) for name, folder in folders.items()), output / "processes.csv")
        fleets = [name for name in folders if name.startswith("fleet-")]
        engine.merge_fleet(((folders[name] / "fleet", ahead[name]) for name in fleets), output / "fleet")
        for path in folders["clients"].iterdir():
            if path.is_file() and path.name != "processes.csv":
                engine.set_back(path, output / path.name, ahead["clients"])


def logs(channel: Channel, folder: Path) -> None:
    """Fetch the logs of a container into `folder`, as far as it is still there."""
    from docker.errors import APIError  # noqa: PLC0415 - takes half a second, and a run without --docker needs none

    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(APIError, OSError):
        (folder / "container.log").write_bytes(channel.container.logs(stdout=False))
    # nobody may be at the other end of a relay
    if channel.asked:
        with contextlib.suppress(RunError, OSError):
            engine.fetch_folder(channel, str(roles.LOGS), folder)


# what may take as long as a fleet takes to start
REQUEST_S = 600.0


@dataclass(frozen=True)
class Share:
    """The minions of one container: numbers `first` to `first + minions - 1`, by the line to it."""

    channel: Channel
    first: int
    minions: int


def split(minions: int, containers: int) -> list[tuple[int, int]]:
    """Return the first number and the number of minions of each container, as equal as can be."""
    sizes = [minions // containers + (number < minions % containers) for number in range(containers)]
    return [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


def sizes(shares: Sequence[tuple[int, int]], minions: int) -> list[int]:
    """Return how many minions each container has when the fleet has `minions`; every container keeps one.

    Ids are numbered through, so that only the last container can grow; a fleet shrinks from its end.
    """
    wanted = [max(1, min(size, minions - first)) for first, size in shares]
    first, size = shares[-1]
    wanted[-1] = max(wanted[-1], minions - first) if minions > first + size else wanted[-1]
    return wanted


class Fleets:
    """The fleets of all containers as one."""

    def __init__(self, shares: Iterable[Share]) -> None:
        """Take the containers, in order of their minions' numbers."""
        self._shares = tuple(shares)

    def status(self) -> Status:
        """Return the state of all together; a publication is one whichever containers saw it."""
        return Status.of([Status.from_dict(answer) for answer in self._each(lambda _: {"do": "status"})])

    def match(self, tgt: str, tgt_type: str) -> int:
        """Return how many minions a target matches."""
        request = {"do": "match", "tgt": tgt, "tgt_type": tgt_type, "delimiter": ":"}
        return sum(len(answer["ids"]) for answer in self._each(lambda _: request))

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Send a request to every container and return the answer with the sum of the minions affected."""
        if request["do"] == "scale":
            shares = [(share.first, share.minions) for share in self._shares]
            wanted = sizes(shares, int(str(request["minions"])))
            answers = self._each(lambda number: {"do": "scale", "minions": wanted[number]})
        else:
            answers = self._each(lambda _: request)
        return {"minions": sum(int(answer.get("minions", 0)) for answer in answers)}

    def unseen(self, jids: Sequence[str]) -> list[str]:
        """Return those of the job ids that no minion of any container has heard of."""
        found = [set(answer["unseen"]) for answer in self._each(lambda _: {"do": "unseen", "jids": list(jids)})]
        return [jid for jid in jids if all(jid in unseen for unseen in found)]

    def flush(self) -> None:
        """Have all samples written."""
        self._each(lambda _: {"do": "flush"})

    def close(self) -> None:
        """Leave the fleets to the end of their containers."""

    def _each(self, request: Callable[[int], Mapping[str, object]]) -> list[dict[str, Any]]:
        return [
            dict(share.channel.ask("fleet", {"request": dict(request(number))}, REQUEST_S)["answer"])
            for number, share in enumerate(self._shares)
        ]


def options(extra: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the options of the fleet's command as they are within a container, and the files that they name."""
    found: list[str] = []
    files: dict[str, str] = {}
    for option in extra:
        name, _, text = option.partition("=")
        file, share = (text, "") if Path(text).is_file() else text.rpartition("=")[::2]
        path = Path(file)
        if path.is_absolute() and path.is_file():
            inside = f"{len(files)}-{path.name}"
            files[inside] = path.read_text(encoding="utf-8")
            found.append(f"{name}={roles.FILES}/{inside}{f'={share}' if share else ''}")
        else:
            found.append(option)
    return found, files


# a large fleet's pillars take minutes to write, and what starts within a container is waited for there, see
# harness.processes.deadline
START_S = 1800.0
JOB_CACHE_S = 330.0
MASTER = "master"


class ContainerBackend(Backend):
    """The bed in containers, for one job."""

    def __init__(self, job: Job, settings: ContainerSettings, say: Callable[[str], None]) -> None:
        """Take the job; nothing is started before the context is entered. `say` takes lines for the user."""
        self._job = job
        self._settings = settings
        self._say = say
        self.postgresql = self.watched = ""
        self.watch: Watch | None = None
        self.here = False
        self._run = f"{secrets.token_hex(4)}-{job.name}"
        self._channels: dict[str, Channel] = {}
        self._secret = secrets.token_hex(16)
        self._stack = ExitStack()
        self._facts: dict[str, Any] = {}
        self._offsets: dict[str, Offset] = {}

    def __enter__(self) -> Self:
        """Start master, salt-api and PostgreSQL; raise DockerError if an engine is missing or refuses."""
        from docker.errors import APIError  # noqa: PLC0415 - slow to import, and most beds need none

        with ExitStack() as stack:
            try:
                self._start(stack)
            except APIError as error:
                raise DockerError(f"Docker refuses: {error.explanation or error}") from error
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        wanted, url = self._settings, address(os.environ)
        self._client = stack.enter_context(contextlib.closing(engine.connect(url, os.environ)))
        nodes = swarm.nodes(self._client) if wanted.swarm else 1
        self._fleets = wanted.fleets or nodes
        self.here = nodes == 1 and self._client.info().get("Name") == socket.gethostname()
        engine.remove(self._client, engine.abandoned)
        processes = stack.enter_context(Processes(temporary_parent()))
        stack.callback(engine.start_janitor(processes, self._job.folder / "logs", self._run, url, START_S))
        stack.callback(self._hang_up)
        stack.callback(self._fetch_logs)
        environment = image.environment(self._client, wanted.base, self._say)
        self._image = image.code(self._client, environment, self._job.tree, self._run)
        kind = {"driver": "overlay", "attachable": True} if wanted.swarm else {"driver": "bridge"}
        name = f"saltbed-{self._run}"
        self._network = self._client.networks.create(name, labels=engine.labels(self._run), **kind)
        if wanted.swarm:
            for number in range(self._fleets):
                alias = f"{relay.ALIAS}{number + 1}"
                self._launch(f"fleet-{number}", alias, command=[image.PYTHON, "-m", "harness.containers.relay"])
            swarm.start_tasks(self._client, environment, name, self._run, self._fleets)
        self._start_services()

    def _start_services(self) -> None:
        """Start PostgreSQL, master and salt-api, each when the one before answers."""
        job, scenario = self._job, self._job.scenario
        options: dict[str, Any] = {}
        if scenario.pillar == "sql":
            self._launch("postgres")
            values: dict[str, Any] = {"minions": scenario.largest, "seed": scenario.seed, "id_format": ID_FORMAT}
            database = self._be("postgres", values)
            self.postgresql = str(database["source"])
            self._say(f"{job.name}: PostgreSQL comes from {self.postgresql}")
            options |= master.pillar_options({**database["options"], "host": "postgres"})
        self._launch(MASTER, volumes=[str(roles.SHARED)])
        users = scenario.permissions(OVER_API)
        login = api.Api(roles.API_PORT, Path(), Path("api.log"), "saltbed", self._secret, users=users)
        # the container of salt-api decides itself where its files go
        options |= {key: value for key, value in login.options({}).items() if not key.startswith("api_")}
        options |= master.acl_options(scenario.permissions({CLI}))
        options |= scenario.master_options(job.name)
        self._facts = self._be(MASTER, {"transport": scenario.transport, "options": options})
        apis = scenario.salt_api if scenario.asks_api else 0
        self._facts |= {"user": login.user, "password": login.password, "apis": apis, "urls": [], "eauth": login.eauth}
        if apis:
            self._launch("api", beside_master=True)
            self._facts |= self._be("api", self._facts)

    def _launch(self, name: str, alias: str = "", *, beside_master: bool = False, **options: Any) -> None:
        """Start a container on the run's network, or within the master's, and open the line to it."""
        if beside_master:
            id_ = self._channels[MASTER].container.id
            options |= {"network_mode": f"container:{id_}", "volumes_from": [id_]}
        else:
            endpoint = self._client.api.create_endpoint_config(aliases=[alias or name])
            network = self._network.name
            options |= {"hostname": name, "network": network, "networking_config": {network: endpoint}}
        container = self._client.containers.create(
            self._image,
            name=f"saltbed-{self._run}-{name}",
            labels=engine.labels(self._run),
            stdin_open=True,
            init=True,
            auto_remove=True,
            **options,
        )
        self._channels[name] = Channel(self._client, name, container)

    def _be(self, name: str, values: Mapping[str, Any], role: str = "") -> dict[str, Any]:
        """Give a container its role, and return its facts once it has started."""
        try:
            return self._channels[name].ask("be", {"role": role or name, **values}, START_S)
        except HarnessError as error:
            kind = MasterError if name == MASTER else StartError
            raise kind(f"The container {name} does not start: {error}") from error

    def start_fleet(self) -> Fleets:
        """Start the fleet's containers, or give the swarm's tasks their roles, and return them once they answer."""
        scenario = self._job.scenario
        extra, files = options(self._job.fleet_options)
        shares = []
        for number, (first, minions) in enumerate(split(scenario.minions, self._fleets)):
            name = f"fleet-{number}"
            if not self._settings.swarm:
                self._launch(name)
            values = {
                "first": first,
                "minions": minions,
                "id_format": ID_FORMAT,
                "seed": scenario.seed,
                "options": [*shared_options(scenario.transport, scenario.master_options(self._job.name)), *extra],
                "files": files,
                "word": self._facts["word"],
            }
            self._be(name, values, "fleet")
            shares.append(Share(self._channels[name], first, minions))
        return Fleets(shares)

    def start_clients(self, expected: Mapping[str, int]) -> RemoteClients:
        """Start locust in a container beside the master."""
        job = self._job
        self._launch("clients", beside_master=True)
        values = {
            "scenario": job.file.read_text(encoding="utf-8"),
            "minions": job.scenario.minions,
            "seed": job.scenario.seed,
            "expected": dict(expected),
            "workers": job.workers,
        }
        self._be("clients", {**self._facts, **values})
        self._offsets = self._clocks()
        return RemoteClients(self._channels["clients"], self._offsets["clients"].correction)

    def _clocks(self) -> dict[str, Offset]:
        """Measure the clock of every container: their machines may have different ones."""
        return {
            name: measure(lambda channel=channel: float(channel.ask("clock")["time"]))  # type: ignore[misc]  # a default can't be annotated
            for name, channel in self._channels.items()
        }

    def check(self) -> None:
        """Have every container look after its processes."""
        for channel in self._channels.values():
            channel.ask("check")

    def rotate_keys(self) -> None:
        """Have the master rotate its key."""
        self._channels[MASTER].ask("rotate", seconds=JOB_CACHE_S)

    def restart_master(self) -> None:
        """Restart the master within its container."""
        self._channels[MASTER].ask("restart", seconds=JOB_CACHE_S)

    def collect(self) -> None:
        """Fetch the samples of all containers and put them together as those of one machine."""
        output = self._job.samples
        samples(self._channels, {name: offset.correction for name, offset in self._offsets.items()}, output)
        now = self._clocks()
        rows = SampleFile(output / "clocks.csv", ClockSample)
        for name, offset in self._offsets.items():
            rows.write(offset.sample(name, now[name]))
        rows.close()

    def read_cache(self, what: str, names: Sequence[str]) -> None:
        """Have the master's container read the job cache, and fetch what it found."""
        self._channels[MASTER].ask("cache", {"what": what, "names": list(names)}, JOB_CACHE_S)
        engine.fetch(self._channels[MASTER], f"{roles.SAMPLES}/{what}.csv", self._job.samples / f"{what}.csv")

    def running(self) -> list[str]:
        """Return the ids of runners and batches at work in the master's container."""
        return list(self._channels[MASTER].ask("running")["running"])

    def _fetch_logs(self) -> None:
        """Fetch the logs of all containers that are still there."""
        for name, channel in self._channels.items():
            logs(channel, self._job.folder / "logs" / name)

    def _hang_up(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
