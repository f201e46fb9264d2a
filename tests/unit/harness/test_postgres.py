"""Sources of PostgreSQL: which binaries are taken, what is said when there are none, how a container is held."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

from harness.database import Place, Postgres, cluster, sources
from harness.errors import SettingsError, StartError
from harness.paths import ROOT
from harness.processes.command import Command
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST, Ports
from harness.processes.processes import Processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from harness.choices import Source

POSTGRES = Postgres("a test", "127.0.0.1", 5433, "me", "it's secret", "mine")


def binaries(folder: Path) -> Path:
    """Make a folder that looks like one with a server's binaries."""
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).touch(mode=0o755)
    return folder


def test_binaries_on_path_come_first(tmp_path: Path) -> None:
    """The server on PATH is taken before those where distributions put them; links are followed."""
    other = binaries(tmp_path / "other" / "15" / "bin")
    own = binaries(tmp_path / "own")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "initdb").symlink_to(own / "initdb")
    places = [str(tmp_path / "other" / "*" / "bin")]
    assert cluster.local_binaries({"PATH": str(tmp_path / "link")}, places) == own
    assert cluster.local_binaries({"PATH": "/none"}, places) == other


def test_newest_binaries_are_taken(tmp_path: Path) -> None:
    """Of several versions the newest is taken, by number."""
    for version in ("9", "17", "16"):
        binaries(tmp_path / version / "bin")
    assert cluster.local_binaries({"PATH": "/none"}, [str(tmp_path / "*" / "bin")]) == tmp_path / "17" / "bin"


def test_binaries_without_a_server(tmp_path: Path) -> None:
    """A folder with client programs only is passed over."""
    (binaries(tmp_path / "bin") / "postgres").unlink()
    assert cluster.local_binaries({"PATH": "/none"}, [str(tmp_path / "bin")]) is None


def test_wheel_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel there are no binaries of it."""
    monkeypatch.setattr(cluster, "WHEEL", "no_such_package")
    assert cluster.wheel_binaries() is None


def test_connection_string_quotes() -> None:
    """A password is quoted as libpq wants it."""
    assert POSTGRES.dsn == r"host=127.0.0.1 port=5433 user=me password='it\'s secret' dbname=mine"


def test_options_for_salt() -> None:
    """Salt's own names carry the same connection."""
    assert POSTGRES.salt_options() == {
        "host": "127.0.0.1",
        "port": 5433,
        "user": "me",
        "pass": "it's secret",
        "db": "mine",
    }


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("dsn", r"^There is no PostgreSQL \(dsn: HARNESS_PG_DSN is not set\): set HARNESS_PG_DSN to the connection "),
        (
            "docker",
            r"^There is no PostgreSQL \(docker: no Docker engine answers at unix://.*/no\.sock\): start Docker, ",
        ),
        (
            "local",
            r"^There is no PostgreSQL \(local: neither PATH nor .*\): install one with `apt-get install postgresql`\.$",
        ),
        (
            "wheel",
            r"^There is no PostgreSQL \(wheel: the Python package no_such_package is not installed\): install one ",
        ),
    ],
)
def test_source_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source, sentence: str
) -> None:
    """Each source that a machine lacks is one sentence that says how to get it."""
    monkeypatch.setattr(cluster, "PLACES", ())
    monkeypatch.setattr(cluster, "WHEEL", "no_such_package")
    environment = {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    with Ports(SystemRandom()) as ports, Processes(tmp_path) as processes:
        place = Place(processes, ports, tmp_path, environment)
        with pytest.raises(StartError, match=sentence):
            sources.start(place, source)


def scripts(folder: Path, **bodies: str) -> Path:
    """Write shell scripts, and return their folder."""
    folder.mkdir()
    for name, body in bodies.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o700)
    return folder


def test_a_link_that_waits_for_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's user can put links into its folder: what root writes and gives away there is a new file."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "target").write_text("of root")
    (home / "password").symlink_to(tmp_path / "target")
    monkeypatch.setattr(cluster, "_own_folder", lambda *_: home)
    found = scripts(
        tmp_path / "bin", initdb='for one; do case $one in --pwfile=*) stat -c %a "${one#*=}";; esac; done; exit 1'
    )
    with Ports(SystemRandom()) as ports, Processes(tmp_path) as processes:
        place = Place(processes, ports, tmp_path, os.environ)
        with pytest.raises(StartError, match=r"(?s)initdb.*600"):
            cluster.start(place, found, None, "local")
    assert (tmp_path / "target").read_text() == "of root"
    assert list(home.iterdir()) == [home / "password"]


class Taken(Processes):
    """Processes during whose start another server takes the port of PostgreSQL."""

    server: socket.socket

    def __init__(self, folder: Path, port: int) -> None:
        """Take the port."""
        super().__init__(folder)
        self.port = port

    def run(self, name: str, command: Command, seconds: float) -> subprocess.CompletedProcess[str]:
        """Take the port, then run the command."""
        self.server = socket.create_server((HOST, self.port))
        return super().run(name, command, seconds)


def test_another_server_is_not_told_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of another user that has taken the port meanwhile ends the start, and sees no connection."""
    found = scripts(tmp_path / "bin", initdb="", postgres="exec sleep 60")
    with Ports(SystemRandom()) as ports, socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
        free.close()
        other = os.geteuid() + 1
        monkeypatch.setattr("harness.processes.ports.os.geteuid", lambda: other)
        with Taken(tmp_path, port) as processes:
            place = Place(processes, ports, tmp_path, os.environ, port)
            with pytest.raises(SettingsError, match="another user"):
                cluster.start(place, found, None, "local")
            with processes.server as server:
                server.setblocking(False)
                with pytest.raises(BlockingIOError):
                    server.accept()


class Engine(socketserver.ThreadingUnixStreamServer):
    """As much of a Docker engine as holding a container takes."""

    daemon_threads = True

    def __init__(self, path: Path, images: list[str]) -> None:
        """Listen on `path`; have these images, and none to pull."""
        self.images = images
        self.calls: list[str] = []
        super().__init__(str(path), EngineHandler)


class EngineHandler(BaseHTTPRequestHandler):
    """Answers one client of the engine."""

    protocol_version = "HTTP/1.1"
    server: Engine

    def address_string(self) -> str:
        """Return nothing: a Unix socket's client has no address."""
        return ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Keep quiet."""

    def answer(self, code: int, body: object = None) -> None:
        """Send an answer."""
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def call(self) -> str:
        """Note and return what is asked for, without the version in front."""
        path = self.path.partition("?")[0]
        call = f"{self.command} /{path.split('/', 2)[2] if path.startswith('/v1') else path[1:]}"
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.calls.append(call)
        return call

    def do_GET(self) -> None:
        """Answer questions."""
        call = self.call()
        if call == "GET /version":
            self.answer(200, {"ApiVersion": "1.43", "MinAPIVersion": "1.24"})
        elif call.startswith("GET /images/"):
            name = call.removeprefix("GET /images/").removesuffix("/json")
            self.answer(*((200, {"Id": name}) if name in self.server.images else (404, {"message": "no such image"})))
        else:
            self.answer(200, {"Id": "abc"})

    def do_POST(self) -> None:
        """Create and start the container; pulling fails."""
        call = self.call()
        if call == "POST /images/create":
            self.answer(404, {"message": "pull access denied"})
        elif call == "POST /containers/create":
            self.answer(201, {"Id": "abc", "Warnings": []})
        else:
            self.answer(204)

    def do_DELETE(self) -> None:
        """Remove the container."""
        self.call()
        self.answer(204)


@contextmanager
def engine(path: Path, images: list[str]) -> Iterator[Engine]:
    """Run an engine."""
    with Engine(path, images) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_container_ends_with_its_holder(tmp_path: Path) -> None:
    """The process that holds a container starts it, and removes it when told to stop."""
    with engine(tmp_path / "d.sock", ["postgres:16"]) as server, Processes(tmp_path) as processes:
        argv = [sys.executable, "-m", "harness.database.container", "postgres:16", "5432"]
        environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{tmp_path}/d.sock",
            "PYTHONPATH": str(ROOT),
            "POSTGRES_PASSWORD": "x",
        }
        holder = processes.start("holder", Command("container", argv, environment, tmp_path / "out"))
        until(lambda: "POST /containers/abc/start" in server.calls, Deadline(20), holder.tail)
        assert "DELETE /containers/abc" not in server.calls
        assert holder.stop() == 0
    assert server.calls[-1] == "DELETE /containers/abc"


def test_image_that_cannot_be_had(tmp_path: Path) -> None:
    """An image that the engine neither has nor can pull is one sentence."""
    environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/d.sock", "HARNESS_PG_IMAGE": "none:1"}
    with (
        engine(tmp_path / "d.sock", []),
        Ports(SystemRandom()) as ports,
        Processes(tmp_path) as processes,
        pytest.raises(StartError, match=r"Docker brings no server of the image none:1: .*pull access denied"),
    ):
        sources.start(Place(processes, ports, tmp_path, environment), "docker")
