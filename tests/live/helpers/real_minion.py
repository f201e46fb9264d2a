"""A real salt-minion in the bed, of the same tree as the master.

Simulated minions are compared with it. Like every part of a bed it keeps to its own folder and touches nothing of the
machine.
"""

from __future__ import annotations

import getpass
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg2
import yaml

from harness.bed import SCALE
from harness.bed.master import LOGS
from harness.choices import TRANSPORT
from harness.database import schema
from harness.paths import write_private
from harness.processes.command import Command, Layer
from harness.processes.deadline import until
from harness.processes.ports import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from harness.bed import Bed
    from harness.processes.processes import Process

READY_S = 90.0
# killed at once: it would take ten seconds to stop, and has nothing to save
STOP_S = 1.0
READY_LINE = "Minion is ready to receive requests!"


def options(
    minion: str, home: Path, log: Path, request_port: int, transport: str = TRANSPORT, host: str = HOST
) -> dict[str, Any]:
    """Return the minion's configuration; its timers and all else keep Salt's defaults."""
    return {
        "id": minion,
        "master": host,
        "master_port": request_port,
        "transport": transport,
        "user": getpass.getuser(),
        "root_dir": str(home),
        "pki_dir": str(home / "pki"),
        "cachedir": str(home / "cache"),
        "sock_dir": str(home / "run"),
        "pidfile": str(home / "minion.pid"),
        "log_file": str(home / LOGS / log.name),
        "log_level": "error",
        # readiness is read from the log
        "log_level_logfile": "info",
    }


def start(bed: Bed, minion: str) -> Process:
    """Start a minion with pillars in the database, and wait until the master has accepted it and it takes jobs."""
    if bed.settings.pillar == "sql":
        _add_pillars(bed, minion)
    home, log, master = bed.temporary / f"minion-{minion}", bed.logs / f"{minion}.log", bed.master
    (home / "etc").mkdir(parents=True)
    (home / LOGS).symlink_to(log.parent)
    wanted = options(minion, home, log, master.request_port, master.transport, master.host)
    wanted |= {"zmq_filtering": master.zmq_filtering, **master.minion_options()}
    write_private(home / "etc" / "minion", yaml.safe_dump(wanted, sort_keys=False))
    # an earlier minion of this name may have left its log in the folder, and readiness is read from it
    log.unlink(missing_ok=True)
    command = Command(
        role="minion",
        argv=bed.tree.command("salt-minion", home / "etc"),
        environment=bed.environment,
        output=log.with_suffix(".out"),
        layer=Layer.MINION,
        patience=STOP_S,
    )
    process = bed._processes.start(minion, command)
    deadline = process.patience(READY_S)

    def ready() -> bool:
        process.check(log)
        return log.exists() and READY_LINE in log.read_text(errors="replace")

    until(
        ready,
        deadline,
        lambda: process.late(f"The minion {minion} is not ready", deadline, log),
    )
    return process


def _add_pillars(bed: Bed, minion: str) -> None:
    """Add a minion with its pillars to the bed's database, unless it is there."""
    with closing(psycopg2.connect(bed.postgres.dsn)) as connection, connection, connection.cursor() as cursor:
        # one at a time: two at once would choose the same number
        cursor.execute("LOCK TABLE rhnServer")
        cursor.execute("SELECT 1 FROM suseMinionInfo WHERE minion_id = %s", (minion,))
        if cursor.fetchone() is None:
            cursor.execute("SELECT coalesce(max(id), 0) + 1 FROM rhnServer")
            (number,) = cursor.fetchone() or (1,)
            servers = [schema.Server(int(number), minion)]
            schema.add(connection, servers, SCALE)
            schema.add_pillars(connection, servers, bed.settings.seed, SCALE)
