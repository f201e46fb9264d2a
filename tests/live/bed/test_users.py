"""Other users of the machine have no part in a bed: they read no secret of it, and nothing of it lets them in."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import psycopg2
import pytest

import evil_minions
from harness.bed import Bed, BedSettings, api, fleet, master
from harness.errors import SettingsError
from harness.paths import ROOT
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST, is_ours
from tests import exposed
from tests.live.helpers import real_minion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.live
MINION, MINIONS = "web1", 4
# of no user and no group of the machine
OTHER = 54_321
PRIVATE = 0o700
START = time.time()


@pytest.fixture(scope="module")
def places() -> Iterator[tuple[Path, Path]]:
    """Yield the places of a bed's logs and of its temporary folders, which everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="bed-test-") as name:
        found = Path(name, "kept"), Path(name, "tmp")
        Path(name).chmod(0o755)
        for place in found:
            place.mkdir()
            place.chmod(0o755)
        yield found


@pytest.fixture(scope="module")
def bed(stock: Path, places: tuple[Path, Path]) -> Iterator[Bed]:
    """Yield a bed with all that it can have, at work, started by somebody who hides nothing."""
    kept, temporary = places
    before = os.umask(0o022)
    try:
        settings = BedSettings(stock, kept / "bed", minions=MINIONS, temporary=temporary)
        with Bed(settings) as made:
            real_minion.start(made, MINION)
            made.start_fleet().wait_ready(120)
            assert api.login(made.api)
            assert made.salt(["*", "test.ping"]).returncode == 0
            yield made
    finally:
        os.umask(before)


def as_other(work: Callable[[], Any]) -> Any:
    """Do something as another user, who is root only where the tests are; return what that returns."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def test_files(bed: Bed, places: tuple[Path, Path]) -> None:
    """Of all secrets of a bed at work none is in a file that others may read, nor in a command line."""
    known = exposed.secrets(places)
    # the keys of the master, of the minion and of the fleet, of commands and sessions, and the two passwords
    assert len(known) > 15
    assert bed.api.password.encode() in known
    assert bed.postgres.password.encode() in known
    files = [path for place in places for path in exposed.readable(place)]
    assert exposed.in_files(known, [*files, *exposed.new(ROOT / "build", Path(tempfile.gettempdir()), START)]) == []
    assert exposed.in_command_lines(known) == []


def test_folders(bed: Bed, places: tuple[Path, Path]) -> None:
    """The folders of a bed are closed to all but their owner."""
    kept, temporary = places
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (*kept.iterdir(), *temporary.iterdir())}
    assert bed.temporary in modes
    assert bed.folder in modes
    assert set(modes.values()) == {PRIVATE}, modes
    assert [path for place in places for path in exposed.readable(place)] == []


@pytest.mark.parametrize("password", ["", "saltbed", "postgres"])
def test_postgres(bed: Bed, password: str) -> None:
    """PostgreSQL takes nobody without its password, over TCP or its Unix socket."""
    server = bed.postgres
    (path,) = [path for place in bed.temporary.parent.iterdir() for path in place.rglob(".s.PGSQL.*[0-9]")]
    for host in (server.host, str(path.parent)):
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(host=host, port=server.port, user=server.user, dbname=server.database, password=password)


@pytest.mark.parametrize("eauth", ["sharedsecret", "pam", "auto", "file", "rest", "keystone", "django"])
def test_salt_api(bed: Bed, eauth: str) -> None:
    """salt-api lets nobody in who does not know its password."""
    for user in (bed.api.user, "root"):
        connection = http.client.HTTPConnection(HOST, bed.api.port, timeout=60)
        form = {"username": user, "password": "", "eauth": eauth}
        kind = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", urlencode(form), kind)
        answer = connection.getresponse()
        assert (answer.status, answer.read())[0] == http.HTTPStatus.UNAUTHORIZED
        connection.close()


def stranger(bed: Bed, name: str, id_format: str, *options: str) -> Callable[[], evil_minions.Status]:
    """Start a minion that does not know the bed, and return what asks for its state."""
    folder = bed.temporary / name
    spec = fleet.FleetSpec(1, id_format=id_format, extra=options)
    argv = [sys.executable, "-m", "evil_minions", *spec.arguments(folder, bed.master.request_port)]
    bed.spawn(name, argv)

    def status() -> evil_minions.Status:
        with evil_minions.connect(folder) as control:
            return control.status()

    path = evil_minions.socket_path(folder)
    until(path.exists, Deadline(60), lambda: f"{path} is not there")
    return status


def test_key_of_a_stranger(bed: Bed) -> None:
    """A minion without the bed's word waits, whatever it guesses, and one of a name that is taken is denied."""
    guess = bed.temporary / "guess" / master.GRAIN
    guess.parent.mkdir()
    guess.write_text("0" * 32)
    waiting = [stranger(bed, "none", "none-{}"), stranger(bed, "wrong", "wrong-{}", f"--autosign={guess}")]
    denied = stranger(bed, "taken", "minion-{:05d}")
    until(lambda: all(status().pending == 1 for status in waiting), Deadline(60), lambda: "they do not wait")
    until(lambda: denied().rejected == 1, Deadline(60), lambda: "it is not denied")
    accepted = json.loads(bed.run("salt-key", ["--list=accepted", "--out=json"]).stdout)["minions"]
    assert sorted(accepted) == [*(f"minion-{number:05d}" for number in range(MINIONS)), MINION]


@pytest.mark.needs_root
def test_another_user(bed: Bed, places: tuple[Path, Path]) -> None:
    """Another user can read no file of a bed that root runs, and connect to none of its sockets."""
    files, sockets = [], []
    for path in (path for place in places for path in place.rglob("*")):
        mode = path.lstat().st_mode
        files += [path] if stat.S_ISREG(mode) else []
        sockets += [path] if stat.S_ISSOCK(mode) else []
    # the master's bus, its workers, PostgreSQL, the control of the fleet
    assert {path.name for path in sockets} >= {"master_event_pub.ipc", "control.sock", f".s.PGSQL.{bed.postgres.port}"}

    def reached() -> list[str]:
        found = []
        for path in files:
            try:
                path.open("rb").close()
            except OSError:
                continue
            found.append(str(path))
        for path in sockets:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    found.append(str(path))
        return found

    assert as_other(reached) == []
    known = exposed.secrets(places)
    assert as_other(lambda: exposed.in_command_lines(known)) == []


@pytest.mark.needs_root
def test_port_of_another_user() -> None:
    """A server of another user at a port of the bed is not taken for the bed's own."""
    os.seteuid(OTHER)
    try:
        server = socket.create_server((HOST, 0))
    finally:
        os.seteuid(0)
    with server, pytest.raises(SettingsError, match=rf"another user \(number {OTHER}\)"):
        is_ours(server.getsockname()[1])
