"""What a bed is made of, as its user asks for it.

Everything is checked before the first process starts, so that a wrong setting costs no wait.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from evil_minions import Transport
from harness.bed.tree import Tree
from harness.errors import DiskError, LimitError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

Pillar = Literal["sql", "none"]
# salt-api takes the master for dead: it looks for a socket that no master of these makes
WITHOUT_API = frozenset({"ws"})
Source = Literal["auto", "dsn", "docker", "local", "wheel", "none"]

# A Unix socket's path has room for 107 bytes; Salt's longest name below the temporary folder takes about 60 of them.
LONGEST_TEMPORARY = 40
# what a process of the master opens besides one connection for each minion
SPARE_FILES = 500
# megabytes below the temporary folder: keys, caches and jobs; an empty PostgreSQL; the pillar of one minion
DISK_BED_MB, DISK_POSTGRES_MB, DISK_MINION_MB = 50, 100, 0.03
# and below the folder for logs and samples
DISK_LOGS_MB = 20


@dataclass(frozen=True)
class BedSettings:
    """Settings of one bed.

    tree: the Salt to run, see `harness.bed.tree`
    folder: where logs and samples stay
    master_options: merged into the master's configuration
    api_options: merged into its section `rest_cherrypy`
    pillar: "sql" for pillars from the bed's PostgreSQL, "none" for none
    minions, first, id_format: the minions whose pillars are in the database
    keys: shares of the fleet's keys that the master doesn't accept, such as "pending=10%,denied=5%"
    api: whether salt-api is started
    apis: how many processes of it, each on a port of its own
    users: further users of salt-api with what each may do, as Salt's `external_auth` has it
    acl: users of Salt's commands with what each may do, as Salt's `publisher_acl` has it
    postgres: where PostgreSQL comes from; "auto" tries the others in this order; "none" for a bed without
    transport: what Salt's own option is called; the master, the fleet and real minions speak it
    keep: whether the temporary folder (databases, caches, keys) is left behind
    request_port, publish_port, api_port, postgres_port: ports of one's own choice; the bed chooses free ones otherwise
    temporary: where the temporary folder is made, the machine's own place otherwise
    seed: of the pillars' content
    """

    tree: Path
    folder: Path
    master_options: Mapping[str, Any] = field(default_factory=dict)
    api_options: Mapping[str, Any] = field(default_factory=dict)
    pillar: Pillar = "sql"
    minions: int = 0
    first: int = 0
    id_format: str = "minion-{:05d}"
    keys: str = ""
    api: bool = True
    apis: int = 1
    users: Mapping[str, list[object]] = field(default_factory=dict)
    acl: Mapping[str, list[object]] = field(default_factory=dict)
    postgres: Source = "auto"
    transport: Transport = "zeromq"
    keep: bool = False
    request_port: int | None = None
    publish_port: int | None = None
    api_port: int | None = None
    postgres_port: int | None = None
    temporary: Path | None = None
    seed: int = 1

    def minion_ids(self) -> list[str]:
        """Return the ids of the minions that the bed is made for."""
        return [self.id_format.format(number) for number in range(self.first, self.first + self.minions)]

    def temporary_parent(self) -> Path:
        """Return where the temporary folder is made: its path has to be short, for sockets lie below it."""
        parent = self.temporary or Path(tempfile.gettempdir())
        if len(os.fsencode(parent.absolute())) > LONGEST_TEMPORARY and self.temporary is None:
            return Path("/tmp")  # noqa: S108 - the warden makes a folder of an unpredictable name there
        return parent.absolute()


def check(settings: BedSettings) -> None:
    """Raise a SettingsError for the first setting that can't work on this machine."""
    if not Tree(settings.tree).found():
        raise SettingsError(f"{settings.tree} holds no Salt: make the trees first with `nox -s apply`.")
    for name, value, choices in (
        ("pillar", settings.pillar, get_args(Pillar)),
        ("postgres", settings.postgres, get_args(Source)),
        ("transport", settings.transport, get_args(Transport)),
    ):
        if value not in choices:
            raise SettingsError(f"{value!r} is no choice for {name}: take one of {', '.join(choices)}.")
    if "transport" in settings.master_options:
        raise SettingsError("The fleet has to know the transport too: set `transport` itself, not the master's option.")
    if settings.pillar == "sql" and settings.postgres == "none":
        raise SettingsError('Pillars from SQL need a PostgreSQL: set postgres to "auto", or pillar to "none".')
    _check_api(settings)
    if settings.acl and os.geteuid():
        raise SettingsError(
            "Salt asks `publisher_acl` about users who became root: run the bed as root, or have these users ask over "
            "salt-api (the kind 'api')."
        )
    if settings.minions < 0 or settings.first < 0:
        raise SettingsError("The number of minions, and that of the first one, can't be negative.")
    try:
        settings.id_format.format(0)
    except (IndexError, KeyError, ValueError) as error:
        raise SettingsError(f"{settings.id_format!r} is no format for minion ids, minion-{{:05d}} is one.") from error
    check_files(settings.minions)
    check_temporary(settings)


def _check_api(settings: BedSettings) -> None:
    if settings.api and settings.transport in WITHOUT_API:
        raise SettingsError(f"salt-api does not work over {settings.transport}: set `api` to False, or take another.")
    if settings.apis < 1:
        raise SettingsError("At least one process of salt-api is needed: set `apis` to 1, or `api` to False.")


def check_files(minions: int, limit: int | None = None) -> None:
    """Raise LimitError if a process of the master can't hold one connection for each minion.

    `limit` is the hard limit of open files of a process, this process's own by default; the bed raises the soft one.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    needed = minions + SPARE_FILES
    if hard not in {resource.RLIM_INFINITY, -1} and needed > hard:
        raise LimitError(
            f"{minions:,} minions need {needed:,} open files in one process of the master, but the hard limit is "
            f"{hard:,}: raise it as root (`ulimit -Hn {needed}`), or take at most {max(0, hard - SPARE_FILES):,}."
        )


def check_temporary(settings: BedSettings) -> None:
    """Raise an error if the temporary folder can't be made, its path is too long, or its disk too full."""
    parent = settings.temporary_parent()
    if not parent.is_dir():
        raise SettingsError(f"The temporary folder's place {parent} does not exist: make it, or set TMPDIR to another.")
    if len(os.fsencode(parent)) > LONGEST_TEMPORARY:
        raise SettingsError(
            f"{parent} is too long a path for the temporary folder, Unix sockets lie below it: "
            f"choose one of at most {LONGEST_TEMPORARY} bytes."
        )
    check_room(parent, needed_mb(settings))


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
