"""The bed: a real salt-master, salt-api and PostgreSQL of its own, and whatever is started beside them.

    with Bed(BedSettings(tree=Path("build/stock"), folder=Path("build/runs/mine"))) as bed:
        print(bed.salt(["*", "test.ping"]).stdout)

Everything answers when the context is entered and is gone when it is left. What must end is a process of the warden,
see `harness.processes.warden`; what must go lies in one temporary folder; what stays, logs and samples, lies in
`settings.folder`.
"""

from __future__ import annotations

import itertools
import os
import secrets
from contextlib import ExitStack
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg2

from harness.bed import api, fleet, master, settings
from harness.bed.settings import BedSettings, Tree
from harness.database import Place, first_line, sources
from harness.database import schema as database
from harness.errors import DiskError, StartError, disk_error, is_full
from harness.processes.command import Command, own_environment
from harness.processes.ports import HOST, Ports
from harness.processes.processes import Processes, Watch
from harness.samples import monitor

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from harness.bed.api import Api
    from harness.bed.fleet import Fleet
    from harness.bed.master import Master
    from harness.database import Postgres
    from harness.processes.processes import Process
    from harness.samples.monitor import Monitor

LOSSES: Final = {
    "monitor": "CPU and memory are not measured from then on: start it again.",
    "fleet": "Its minions are gone with it: start it again.",
    "master": "Nothing of the bed works without it: start it again.",
    "api": "Clients of the kind `api` get no answer without it: start it again.",
    "postgres": "Minions get no pillars without it: start it again.",
}


__all__ = ["Bed", "BedSettings"]

SCALE = database.Scale()
CLI_S = 60.0
FLEET = "fleet"


class Bed:
    """One test bed; a context manager.

    settings, folder, logs, temporary: what was asked for, and the folders (the temporary one goes at the end)
    master, api, apis, postgres: where they are; all but the master are there unless the settings leave them out
    ports: gives further ports
    environment: the environment of Salt's commands
    """

    master: Master
    api: Api
    postgres: Postgres
    monitor: Monitor
    ports: Ports
    temporary: Path

    def __init__(self, settings: BedSettings) -> None:
        """Take the settings; nothing is started before the context is entered."""
        self.settings = settings
        self.folder = settings.folder.absolute()
        self.logs = self.folder / "logs"
        self.samples = self.folder / "samples"
        self.tree = Tree(settings.tree)
        self.environment = self.tree.environment(os.environ)
        self._numbers = itertools.count(1)
        self._watch = Watch()
        self.apis: list[Api] = []

    def __enter__(self) -> Self:
        """Start everything and wait until it answers.

        Raises:
            SettingsError: for settings that can't work here, and StartError, with the end of the log, for what does not
                start.
        """
        settings.check(self.settings)
        with ExitStack() as stack:
            try:
                self._start(stack)
            except psycopg2.Error as error:
                settings.check_not_full(self.settings)
                raise StartError(f"The bed's database can't be filled: {first_line(error)}") from error
            except OSError as error:
                if is_full(error) or error.filename:
                    raise disk_error(error, error.filename or self.folder) from error
                raise
            except DiskError:
                raise
            except StartError:
                # a full disk causes many errors, most of which do not name it
                settings.check_not_full(self.settings)
                raise
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything and remove what does not stay.

        Raises:
            DiskError: if an error ends a bed whose disk is full: that shows in many ways, most of which don't say so.
        """
        full = None
        if isinstance(error, Exception) and not isinstance(error, DiskError):
            # looked at now, as stopping everything makes room
            try:
                settings.check_not_full(self.settings)
            except DiskError as found:
                full = found
        self._stack.__exit__(kind, error, traceback)
        if full:
            raise full from error

    def _start(self, stack: ExitStack) -> None:
        """Start the bed's parts; what has been started is stopped by `stack`."""
        for folder in (self.folder, self.logs, self.samples):
            # what logs and samples hold is for nobody else on the machine
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.check_room(self.folder, settings.DISK_LOGS_MB)
        ports = self.ports = stack.enter_context(Ports(SystemRandom()))
        wanted = self.settings
        request_port = ports.take("request", wanted.ports.request)
        publish_port = ports.take("publish", wanted.ports.publish)
        apis = wanted.api.processes if wanted.api else 0
        api_ports = [ports.take("API") for _ in range(apis)]
        self._processes = stack.enter_context(Processes(settings.temporary_parent(wanted.temporary)))
        self.temporary = self._processes.folder
        self.monitor = self._start_monitor()
        home, log = self.temporary / "master", self.logs / "master.log"
        options: dict[str, Any] = {}
        if wanted.master_options.get("ipc_mode") == "tcp":
            options |= {name: ports.take(name) for name in master.IPC_PORTS}
        filtering = bool(wanted.master_options.get("zmq_filtering"))
        event_port = options.get(master.EVENT_PORT)
        host = wanted.master_options.get("interface", HOST)
        self.master = master.Master(
            home, log, request_port, publish_port, wanted.transport, event_port, zmq_filtering=filtering, host=host
        )
        if wanted.postgres != "none":
            place = Place(self._processes, ports, self.logs, os.environ)
            self.postgres = sources.start(place, wanted.postgres)
            if self.postgres.process:
                self._watch.add(self.postgres.process, LOSSES["postgres"])
            options |= master.pillar_options(self.postgres.salt_options()) if wanted.pillar == "sql" else {}
        if wanted.api:
            password = secrets.token_hex(16)
            self.api = api.Api(
                api_ports[0], self.master.home, self.logs / "api.log", "saltbed", password, users=wanted.api.users
            )
            self.apis = api.beside(self.api, api_ports[1:])
            options |= self.api.options(wanted.api.options)
        if wanted.keys:
            options |= master.key_options(self.master, self.samples / FLEET)
        master.write(self.master, {**options, **wanted.master_options})
        self._master_process = master.start(self.master, self.tree, self.environment, self._processes)
        self._watch.add(self._master_process, LOSSES["master"], log=log)
        self._api_processes = [
            api.start_beside(one, self.master, self.tree, self.environment, self._processes) for one in self.apis
        ]
        for one, process in zip(self.apis, self._api_processes, strict=True):
            self._watch.add(process, LOSSES["api"], log=one.log)
        if wanted.postgres != "none":
            # while the master starts
            database.install(self.postgres.dsn)
            database.fill(self.postgres.dsn, wanted.minion_ids(), wanted.seed, SCALE)
        master.wait_ready(self.master, self._master_process)
        for one, process in zip(self.apis, self._api_processes, strict=True):
            api.wait_ready(one, process)

    def _start_monitor(self) -> Monitor:
        argv = monitor.command(self._processes.warden, self.temporary, self.samples)
        found = monitor.Monitor(self.spawn("monitor", argv, role="harness"), self.samples / monitor.FILE)
        self._watch.add(found.process, LOSSES["monitor"], sign=lambda: monitor.written(found.path))
        return found

    @property
    def warden(self) -> int:
        """Return the process id that all processes of the bed descend from."""
        return self._processes.warden

    def command(self, name: str) -> list[str]:
        """Return the start of a command line of Salt's, such as "salt" or "salt-run", for this bed's master."""
        return self.tree.command(name, self.master.config_dir)

    def run(self, name: str, arguments: Sequence[str], timeout: float = CLI_S) -> subprocess.CompletedProcess[str]:
        """Run one of Salt's commands to its end; raise ProcessError, and end it, after `timeout` seconds."""
        number = next(self._numbers)
        command = Command(
            role="cli",
            argv=[*self.command(name), *arguments],
            environment=self.environment,
            output=self.temporary / f"{name}-{number}.out",
            errors=self.temporary / f"{name}-{number}.err",
            cwd=self.temporary,
        )
        return self._processes.run(name, command, timeout)

    def salt(self, arguments: Sequence[str], timeout: float = CLI_S) -> subprocess.CompletedProcess[str]:
        """Run `salt` with these arguments; `timeout` (seconds) is that of the command, not Salt's own."""
        return self.run("salt", arguments, timeout)

    def salt_run(self, arguments: Sequence[str], timeout: float = CLI_S) -> subprocess.CompletedProcess[str]:
        """Run `salt-run` with these arguments."""
        return self.run("salt-run", arguments, timeout)

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        role: str | None = None,
    ) -> Process:
        """Start a further process that ends with the bed at the latest.

        name: its output goes to `logs/<name>.out`
        env: variables added to the harness's own environment, in which Python finds the project's packages
        role: its name in the samples, `name` by default
        """
        command = Command(
            role=role or name,
            argv=argv,
            environment={**own_environment(), **(env or {})},
            output=self.logs / f"{name}.out",
            cwd=cwd or self.temporary,
        )
        return self._processes.start(name, command)

    def start_fleet(self, minions: int | None = None, extra: Sequence[str] = (), name: str = FLEET) -> Fleet:
        """Start simulated minions, as many as the settings say by default.

        `extra` are further options of their command. The fleet answers when this returns, but is not ready yet, see
        `Fleet.wait_ready`.
        """
        wanted = self.settings
        count = wanted.minions if minions is None else minions
        settings.check_files(count)
        keys = [f"--keys={wanted.keys}"] if wanted.keys and name == FLEET else []
        extra = (*fleet.shared_options(wanted.transport, wanted.master_options, self.master.word_file), *keys, *extra)
        spec = fleet.FleetSpec(count, seed=wanted.seed, extra=extra, name=name, master=self.master.host)
        started = fleet.start(
            spec, self.master.request_port, self.samples, self.logs, own_environment(), self._processes
        )
        self._stack.callback(started.control.close)
        self._watch.add(started.process, LOSSES["fleet"])
        return started

    @property
    def master_pid(self) -> int:
        """Return the id of the master's first process."""
        return self._master_process.pid

    def restart_master(self) -> None:
        """Stop the master, start it again with the same configuration, and wait until it answers."""
        master.stop(self._master_process)
        self._master_process = master.start(self.master, self.tree, self.environment, self._processes)
        master.wait_ready(self.master, self._master_process)
        self._watch.add(self._master_process, LOSSES["master"], log=self.master.log)

    def watch(self, process: Process, loss: str = "", *, may_end: bool = False) -> None:
        """Let `check` look after a further process; see `harness.processes.processes` for `loss` and `may_end`."""
        self._watch.add(process, loss, may_end=may_end)

    def check(self) -> None:
        """Raise an error, with when and how and the end of its log, if a process of the bed has ended or is silent.

        Raises:
            DiskError: if a disk that the bed writes to is full.
        """
        settings.check_not_full(self.settings)
        self._watch.check()
