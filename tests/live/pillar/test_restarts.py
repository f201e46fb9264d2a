"""Masters and databases that restart while pillars change: every minion gets every value soon after it is connected."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.bed import Bed, BedSettings, master
from harness.bed.settings import temporary_parent
from harness.database import schema, sources
from harness.processes.deadline import Deadline, until
from harness.processes.ports import Ports
from harness.processes.processes import Processes
from tests.live.helpers.handler_cluster import Server
from tests.live.helpers.pillar_files import install

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(3600)]
MINIONS, RESTARTS = 50, 20
# seconds after a minion is connected
SOON = 30
CHANGE = "UPDATE suseSaltPillars SET pillar = pillar || %s WHERE server_id IS NOT NULL AND category = 'custom-info'"


def answers(bed: Bed, *target: str) -> set[str]:
    """Return the minions that answer."""
    done = bed.salt([*target, "test.ping", "--out=json", "--static", "--timeout=5"], timeout=90)
    with suppress(ValueError):
        return {name for name, value in json.loads(done.stdout).items() if value is True}
    return set()


def test_no_change_is_lost_in_twenty_restarts(root: Path, tmp_path: Path) -> None:
    """The master and PostgreSQL in turn; each minion matches the new value by its own pillar, and by the master's."""
    with ExitStack() as stack:
        processes = stack.enter_context(Processes(temporary_parent()))
        logs = tmp_path / "postgres"
        logs.mkdir()
        server = Server(processes, stack.enter_context(Ports(SystemRandom())), logs)
        schema.install(server.postgres.dsn)
        names = [f"minion-{number:05d}" for number in range(MINIONS)]
        schema.fill(server.postgres.dsn, names, 1, schema.Scale())
        database = sources.Database(server.postgres)
        install(database, "pillar.sql", "pillar_changes.sql")
        settings = BedSettings(
            tree=root / "salt",
            folder=tmp_path / "bed",
            minions=MINIONS,
            api=None,
            postgres="none",
            pillar="none",
            master_options={
                "postgres": server.postgres.salt_options(),
                "ext_pillar": [{"postgres": ["SELECT suse_minion_pillars(%s)"]}],
                "engines": [{"pillar_changes": {"debounce": 0.2}}],
            },
        )
        bed = stack.enter_context(Bed(settings))
        fleet = bed.start_fleet()
        fleet.wait_ready(180)

        def connected() -> bool:
            return answers(bed, "*") == set(names)

        def arrived(value: int) -> bool:
            return answers(bed, "-I", f"news:{value}") == set(names)

        seconds = []
        for number in range(RESTARTS):
            value = 2 * number
            if number % 2:
                # committed, and nobody hears of it; another one before the master has connected again
                database.run(CHANGE, json.dumps({"news": value}))
                server.stop()
                server.start()
                change(database, value + 1)
            else:
                master.stop(bed._master_process)
                change(database, value)
                bed.restart_master()
                change(database, value + 1)
            until(connected, Deadline(120), lambda: "the minions do not connect")
            start = time.monotonic()
            until(partial(arrived, value + 1), Deadline(SOON), lambda: f"lost in round {number}: {missing(bed, names)}")  # noqa: B023 - used at once
            seconds.append(round(time.monotonic() - start, 1))
            print(f"round {number}: {seconds[-1]} s", flush=True)
        fleet.stop()
    print(f"{RESTARTS} restarts, {MINIONS} minions, 0 lost, longest {max(seconds)} s")


def change(database: sources.Database, value: int) -> None:
    """Change the pillars of all minions, as soon as the server takes it."""

    def is_changed() -> bool:
        with suppress(psycopg2.OperationalError):
            database.run(CHANGE, json.dumps({"news": value}))
            return True
        return False

    until(is_changed, Deadline(30), lambda: "the server takes no change")


def missing(bed: Bed, names: list[str]) -> list[str]:
    """Return the minions that lack the last value, each with the one that it has."""
    done = bed.salt(["*", "pillar.get", "news", "--out=json", "--static"], timeout=90)
    return [done.stdout[-2000:], *sorted(set(names) - answers(bed, "*"))]
