"""The bed's salt-api: rest_cherrypy, for load as Salt's API clients make it.

Its user exists in this bed only: Salt's `sharedsecret` takes a secret of the bed's own, so no account of the machine
is involved.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import yaml

from harness.bed.master import LOGS
from harness.paths import write_private
from harness.processes import deadline
from harness.processes.command import Command, Layer
from harness.processes.deadline import until
from harness.processes.ports import HOST, is_ours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.bed.master import Master
    from harness.bed.settings import Tree
    from harness.processes.processes import Process, Processes

READY_S = 60.0
ANSWER_S = 10.0
EAUTH = "sharedsecret"


@dataclass(frozen=True)
class Api:
    """Where a process of salt-api is, and who may use it.

    `users` are further users, all with the same password, and what each may do. The first process has the number 1.
    """

    port: int
    home: Path
    log: Path
    user: str
    password: str
    eauth: str = EAUTH
    users: Mapping[str, list[object]] = field(default_factory=dict)
    number: int = 1

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://{HOST}:{self.port}"

    @property
    def name(self) -> str:
        """Return the name of its process."""
        return "salt-api" if self.number == 1 else f"salt-api-{self.number}"

    def options(self, api_options: Mapping[str, Any]) -> dict[str, Any]:
        """Return its part of the master's configuration; `api_options` go into the section of rest_cherrypy."""
        return {
            "rest_cherrypy": {"host": HOST, "port": self.port, "disable_ssl": True, **api_options},
            "api_logfile": str(self.home / LOGS / self.log.name),
            "api_pidfile": str(self.home / f"{self.log.stem}.pid"),
            EAUTH: self.password,
            "external_auth": {EAUTH: {**self.users, self.user: [".*", "@wheel", "@runner", "@jobs"]}},
        }


def beside(first: Api, ports: Sequence[int]) -> list[Api]:
    """Return `first` and further processes like it, as a balancer would have behind it."""
    more = [
        replace(first, port=port, number=number, log=first.log.with_stem(f"{first.log.stem}-{number}"))
        for number, port in enumerate(ports, start=2)
    ]
    return [first, *more]


def write(api: Api, config: Mapping[str, Any], folder: Path) -> None:
    """Write the configuration of one process into `folder`: that of the master, with this process's own places."""
    folder.mkdir(parents=True)
    options = api.options(config["rest_cherrypy"])
    places = {key: options[key] for key in ("api_logfile", "api_pidfile")}
    served = {**options["rest_cherrypy"], "port": api.port}
    text = yaml.safe_dump({**config, **places, "rest_cherrypy": served}, sort_keys=False)
    write_private(folder / "master", text)


def start(api: Api, tree: Tree, config_dir: Path, environment: Mapping[str, str], processes: Processes) -> Process:
    """Start salt-api."""
    command = Command(
        role="api",
        argv=tree.command("salt-api", config_dir),
        environment=environment,
        output=api.log.with_suffix(".out"),
        layer=Layer.API,
    )
    return processes.start(api.name, command)


def start_beside(api: Api, master: Master, tree: Tree, environment: Mapping[str, str], processes: Processes) -> Process:
    """Start a process of salt-api for a master; all but the first have a configuration of their own."""
    folder = master.config_dir
    if api.number > 1:
        config = yaml.safe_load((folder / "master").read_text(encoding="utf-8"))
        folder = master.home / api.name
        write(api, config, folder)
    return start(api, tree, folder, environment, processes)


def login(api: Api) -> str:
    """Return a token of the API's user; raise OSError or HTTPException if the API does not answer as it should."""
    connection = http.client.HTTPConnection(HOST, api.port, timeout=deadline.patient(ANSWER_S))
    form = {"username": api.user, "password": api.password, "eauth": api.eauth}
    try:
        connection.request(
            "POST",
            "/login",
            urlencode(form),
            {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
        )
        response = connection.getresponse()
        body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise http.client.HTTPException(f"{response.status} {response.reason}")
        return str(json.loads(body)["return"][0]["token"])
    finally:
        connection.close()


def wait_ready(api: Api, process: Process, seconds: float = READY_S) -> None:
    """Wait until the API lets its user in; `seconds` are those of a quiet machine."""
    deadline = process.patience(seconds)
    reasons: list[str] = []

    def ready() -> bool:
        process.check(api.log)
        try:
            # no other server gets the password
            return is_ours(api.port) and bool(login(api))
        except (OSError, http.client.HTTPException) as error:
            reasons[:] = [str(error)]
            return False

    until(
        ready,
        deadline,
        lambda: process.late(f"salt-api does not answer at {api.url} ({' '.join(reasons)})", deadline, api.log),
    )
