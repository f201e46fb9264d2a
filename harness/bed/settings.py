"""What a bed is made of, as its user asks for it.

Everything is checked before the first process starts, so that a wrong setting costs no wait.

Every Salt process of a bed runs from the tree's own scripts with the tree first in Python's search path, so that stock
and patched Salt share one virtual environment. A Salt of another release brings its own environment, with everything
that it depends on in the versions that it wants.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evil_minions import TRANSPORTS, Transport
from harness.choices import PILLARS, SOURCES, TRANSPORT, WITHOUT_API, Pillar, Source, minion_ids
from harness.errors import DiskError, SettingsError, disk_error
from harness.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

# Compiled modules halve the start of each of Salt's commands. They are kept out of the trees, whose content is checked.
COMPILED = ROOT / "build" / "pycache"
# a caller's Salt must not leak into the bed, nor what would change how Python behaves there
DROPPED = ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONWARNINGS", "SALT_MASTER_CONFIG", "SALT_MINION_CONFIG")
# systemd gives a service these folders, and an ordinary user's shell does not: Salt calls ip, service and others there
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Tree:
    """One version of Salt.

    `path` is a folder that holds the package `salt` and the folder `scripts`, or a virtual environment with Salt in it.
    """

    path: Path

    def found(self) -> bool:
        """Say whether there is a Salt."""
        return self.is_source() or self._installed()

    def is_source(self) -> bool:
        """Say whether it is a folder with the package and the scripts, which needs an environment from elsewhere."""
        return (self.path / "scripts" / "salt-master").is_file()

    def _installed(self) -> bool:
        """Say whether this is an environment of its own."""
        return (self.path / "bin" / "salt-master").is_file()

    def python(self) -> str:
        """Return the path of the Python that can import this Salt."""
        return str(self.path.absolute() / "bin" / "python") if self._installed() else sys.executable

    def command(self, name: str, config_dir: Path) -> list[str]:
        """Return the start of a command line; `name` is one of Salt's, such as salt, salt-run or salt-master."""
        if self._installed():
            return [str(self.path.absolute() / "bin" / name), f"--config-dir={config_dir}"]
        return [sys.executable, str(self.path.absolute() / "scripts" / name), f"--config-dir={config_dir}"]

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` changed so that Python finds this tree's Salt, no other, and Salt the system's tools."""
        kept = {name: value for name, value in environment.items() if name not in DROPPED}
        kept |= {"PYTHONPYCACHEPREFIX": str(COMPILED), "PYTHONUNBUFFERED": "1", "PATH": _with_sbin(environment)}
        # the fault handler lets a process that does not start tell its stack, see harness.processes.processes
        kept["PYTHONFAULTHANDLER"] = "1"
        if self._installed():
            kept.pop("PYTHONPATH", None)
            return kept
        return kept | {"PYTHONPATH": str(self.path.absolute())}


def _with_sbin(environment: Mapping[str, str]) -> str:
    """Return the PATH of an environment, with the folders of the system's tools last unless they are there."""
    path = environment.get("PATH", os.defpath)
    missing = [folder for folder in SBIN if folder not in path.split(os.pathsep)]
    return os.pathsep.join([path, *missing])


# older releases ask for a certifi that not every index has any more
OVERRIDE = "certifi>=2026\n"
TRUST = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}


def release(root: Path, version: str) -> Path:
    """Return the environment of a release without extensions, made once and kept in `build/releases/`."""
    folder = root / "build" / "releases"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / version
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            shutil.rmtree(made, ignore_errors=True)
            override = folder / "override.txt"
            override.write_text(OVERRIDE)
            subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(made)], check=True)
            install(made, "--override", str(override), f"salt=={version}", "psycopg2-binary", "pytest")
            (made / "complete").touch()
    return made


def install(environment: Path, *arguments: str) -> None:
    """Install packages into an environment."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    subprocess.run([*command, *arguments], env={**TRUST, **os.environ}, check=True)


# A Unix socket's path has room for 107 bytes; Salt's longest name below the temporary folder takes about 60 of them.
LONGEST_TEMPORARY = 40
# what a process of the master opens besides one connection for each minion
SPARE_FILES = 500
# megabytes below the temporary folder: keys, caches and jobs; an empty PostgreSQL; the pillar of one minion
DISK_BED_MB, DISK_POSTGRES_MB, DISK_MINION_MB = 50, 100, 0.03
# and below the folder for logs and samples
DISK_LOGS_MB = 20
# of free space: a disk with less is full
FULL_BYTES = 2**20


@dataclass(frozen=True)
class ApiSettings:
    """Settings of salt-api."""

    # how many processes of it there are, each on a port of its own
    processes: int = 1
    # further users, with what each may do, as Salt's `external_auth` has it
    users: Mapping[str, list[object]] = field(default_factory=dict)
    # merged into the section `rest_cherrypy` of the master's configuration
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class PortSettings:
    """Ports of one's own choice; the bed chooses free ones for those that are None."""

    # where minions and clients send requests to the master
    request: int | None = None
    # where the master publishes jobs
    publish: int | None = None


@dataclass(frozen=True)
class BedSettings:
    """Settings of one bed."""

    # the Salt to run, see `harness.bed.settings`
    tree: Path
    # where logs and samples stay
    folder: Path
    # merged into the master's configuration, with precedence over all that the bed sets there
    master_options: Mapping[str, Any] = field(default_factory=dict)
    # "sql" for pillars from the bed's PostgreSQL, "none" for none
    pillar: Pillar = "sql"
    # how many minions have a pillar in the database, and how many a fleet has unless it is told otherwise
    minions: int = 0
    # shares of the fleet's keys that the master does not accept, such as "pending=10%,denied=5%"; "" for none
    keys: str = ""
    # of the pillars' content, and of the fleet's random choices
    seed: int = 1
    # None for a bed without salt-api
    api: ApiSettings | None = ApiSettings()
    # where PostgreSQL comes from: "auto" tries the others in the order of `SOURCES`, "none" is a bed without it
    postgres: Source = "auto"
    # Salt's option of that name; the master, the fleet and real minions speak it
    transport: Transport = TRANSPORT
    ports: PortSettings = PortSettings()
    # where the folder of databases, caches, keys and sockets is made, which goes when the bed ends; None is the
    # machine's own place for temporary folders
    temporary: Path | None = None

    def minion_ids(self) -> list[str]:
        """Return the ids of the minions that the bed is made for."""
        return minion_ids(self.minions)


def temporary_parent(wanted: Path | None = None) -> Path:
    """Return where the temporary folder is made: its path has to be short, as sockets lie below it."""
    parent = wanted or Path(tempfile.gettempdir())
    if len(os.fsencode(parent.absolute())) > LONGEST_TEMPORARY and wanted is None:
        return Path("/tmp")  # noqa: S108 - the warden makes a folder of an unpredictable name there
    return parent.absolute()


def check(settings: BedSettings) -> None:
    """Raise a SettingsError for the first setting that can't work on this machine."""
    if not Tree(settings.tree).found():
        raise SettingsError(f"{settings.tree} holds no Salt: make the trees first with `nox -s apply`.")
    for name, value, choices in (
        ("pillar", settings.pillar, PILLARS),
        ("postgres", settings.postgres, SOURCES),
        ("transport", settings.transport, TRANSPORTS),
    ):
        if value not in choices:
            raise SettingsError(f"{value!r} is no choice for {name}: take one of {', '.join(choices)}.")
    if "transport" in settings.master_options:
        raise SettingsError("The fleet has to know the transport too: set `transport` itself, not the master's option.")
    if settings.pillar == "sql" and settings.postgres == "none":
        raise SettingsError('Pillars from SQL need a PostgreSQL: set postgres to "auto", or pillar to "none".')
    _check_api(settings)
    if settings.minions < 0:
        raise SettingsError("The number of minions can't be negative.")
    check_files(settings.minions)
    check_temporary(settings)


def _check_api(settings: BedSettings) -> None:
    if settings.api is None:
        return
    if settings.transport in WITHOUT_API:
        raise SettingsError(f"salt-api does not work over {settings.transport}: set `api` to None, or take another.")
    if settings.api.processes < 1:
        raise SettingsError("salt-api needs at least one process: set `processes` to 1, or `api` to None.")


def check_acl(acl: Mapping[str, list[object]]) -> None:
    """Raise SettingsError if `acl`, the users of Salt's commands with what each may do, can't work for this user."""
    if acl and os.geteuid():
        raise SettingsError(
            "Salt asks `publisher_acl` about users who became root: run the bed as root, or have these users ask over "
            "salt-api (the kind 'api')."
        )


def check_files(minions: int, limit: int | None = None) -> None:
    """Raise SettingsError if a process of the master can't hold one connection for each minion.

    `limit` is the hard limit of open files of a process, this process's own by default; the bed raises the soft one.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    needed = minions + SPARE_FILES
    if hard not in {resource.RLIM_INFINITY, -1} and needed > hard:
        raise SettingsError(
            f"{minions:,} minions need {needed:,} open files in one process of the master, but the hard limit is "
            f"{hard:,}: raise it as root (`ulimit -Hn {needed}`), or take at most {max(0, hard - SPARE_FILES):,}."
        )


def check_temporary(settings: BedSettings) -> None:
    """Raise an error if the temporary folder can't be made, its path is too long, or its disk too full."""
    parent = temporary_parent(settings.temporary)
    if not parent.is_dir():
        raise SettingsError(f"The temporary folder's place {parent} does not exist: make it, or set TMPDIR to another.")
    if len(os.fsencode(parent)) > LONGEST_TEMPORARY:
        raise SettingsError(
            f"{parent} is too long a path for the temporary folder, Unix sockets lie below it: "
            f"choose one of at most {LONGEST_TEMPORARY} bytes."
        )
    check_room(parent, needed_mb(settings))


def check_not_full(settings: BedSettings) -> None:
    """Raise DiskError if a disk that a bed writes to is full."""
    needed = {temporary_parent(settings.temporary): needed_mb(settings), settings.folder.absolute(): DISK_LOGS_MB}
    for folder, megabytes in needed.items():
        if shutil.disk_usage(folder).free < FULL_BYTES:
            raise disk_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder, megabytes)


def needed_mb(settings: BedSettings) -> int:
    """Return how many megabytes a bed needs about in its temporary folder."""
    needed = DISK_BED_MB
    if settings.postgres != "none":
        needed += int(DISK_POSTGRES_MB + DISK_MINION_MB * settings.minions * (settings.pillar == "sql"))
    return needed


def check_room(folder: Path, needed: int, free: int | None = None) -> None:
    """Raise DiskError if the disk of `folder` has less than `needed` MB left; `free` (bytes) is asked of the system."""
    left = (shutil.disk_usage(folder).free if free is None else free) // 2**20
    if left < needed:
        raise DiskError(
            f"The disk that holds {folder} has {left} MB left and the bed needs about {needed} MB there: "
            "free some space, or set TMPDIR or --folder to a folder on a larger disk."
        )
