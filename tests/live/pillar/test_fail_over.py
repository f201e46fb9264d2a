"""Changes of pillars when a standby takes over, and when two masters listen: who is refreshed, what is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.database import sources
from harness.processes.deadline import Deadline, until
from tests.live.helpers.changed_pillars import EVERYBODY, ROWS, since
from tests.live.helpers.cut_network import cut_network
from tests.live.helpers.pillar_files import OWNERS, install
from tests.live.helpers.pillar_servers import ADMIN, DATABASE, PORTS, Servers, missing, servers

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.needs_root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(300),
]
CHANGE = "UPDATE suseSaltPillars SET pillar = %s WHERE server_id = %s"
LISTENING = """SELECT count(*) FROM pg_stat_activity
    WHERE query LIKE '%suse_salt_pillar%' AND state = 'idle' AND pid <> pg_backend_pid()"""
REPLAYED = "SELECT bool_and(replay_lsn = pg_current_wal_lsn()) FROM pg_stat_replication"


@pytest.fixture
def stage() -> Iterator[Servers]:
    """Yield a primary with pillars whose changes are noted, and its standby."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="over-") as name,
        cut_network() as network,
        servers(network, Path(name)) as found,
    ):
        made = sources.make(found.postgres(database="postgres"), DATABASE)
        install(made, "uyuni.sql", "pillar.sql", "pillar_changes.sql")
        made.run(OWNERS + ROWS)
        found.copy()
        yield found


def change(found: Servers, server: int, number: int) -> None:
    """Give a server another pillar."""
    found.database().run(CHANGE, json.dumps({"own": number}), server)


def fail_over(found: Servers, *, lossy: bool) -> None:
    """Let the standby take over; with a loss it lacks a change that was told of, and gives out its number again."""
    if not lossy:
        until(lambda: found.database().run(REPLAYED) == [(True,)], Deadline(60), lambda: "no standby")
    found.stop(found.primary, kill=True)
    if lossy:
        found.start(found.standby)
    found.promote()


@pytest.mark.parametrize("lossy", [False, True])
def test_change_after_a_fail_over_is_not_lost(stage: Servers, lossy: bool) -> None:  # noqa: FBT001 - of parametrize
    """The answer is exact if the standby had all that was told, and everyone if not: pillars went back."""
    snapshot, _ = since(stage.database())
    if lossy:
        stage.stop(stage.standby, kill=False)
    change(stage, 1, 2)
    snapshot, minions = since(stage.database(), snapshot)
    assert minions == ["web1"]
    fail_over(stage, lossy=lossy)
    # transactions are counted on from where the standby was
    change(stage, 3, 4)
    for _ in range(5):
        stage.database().run("CREATE TABLE other (id INTEGER); DROP TABLE other")
    snapshot, minions = since(stage.database(), snapshot)
    assert minions == (EVERYBODY if lossy else ["other"])
    change(stage, 1, 5)
    snapshot, minions = since(stage.database(), snapshot)
    assert minions == ["web1"]
    assert since(stage.database(), snapshot)[1] == []


@dataclass
class Master:
    """An engine, as each of several masters runs one, and the minions that it has refreshed."""

    refreshed: list[str] = field(default_factory=list)

    def read(self, lines: Iterator[str]) -> None:
        """Note who is refreshed, until the engine ends."""
        for line in lines:
            self.refreshed += json.loads(line)

    def taken(self) -> list[str]:
        """Return whom it has refreshed since this was asked last."""
        taken, self.refreshed = self.refreshed, []
        return sorted(taken)


@contextmanager
def engine(found: Servers, folder: Path) -> Iterator[Master]:
    """Run an engine that finds the primary among both servers."""
    place: dict[str, object] = {"host": ",".join([found.network.minions] * 2), "port": ",".join(map(str, PORTS))}
    place |= {"user": ADMIN, "pass": ADMIN, "db": DATABASE, "target_session_attrs": "read-write", "connect_timeout": 2}
    options = {"debounce": 0.1, "batch": 2, "check": 3600}
    given = {"opts": {"postgres": place, "cachedir": str(folder)}, "options": options}
    argv = [sys.executable, "-W", "ignore", str(Path(__file__).parents[1] / "helpers" / "changes_engine.py")]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=none, text=True)
    made = Master()
    assert process.stdin is not None
    assert process.stdout is not None
    reader = threading.Thread(target=made.read, args=(process.stdout,))
    reader.start()
    try:
        process.stdin.write(json.dumps(given))
        process.stdin.close()
        yield made
    finally:
        process.kill()
        process.wait(60)
        reader.join(60)
        process.stdout.close()


def heard(masters: list[Master], expected: list[str]) -> None:
    """Wait until each master has refreshed these minions, and see that they are all."""

    def told() -> Any:
        return [sorted(master.refreshed) for master in masters]

    until(lambda: all(len(names) >= len(expected) for names in told()), Deadline(60), lambda: f"{told()}")
    assert [master.taken() for master in masters] == [expected] * len(masters)


def test_two_masters_refresh_the_same_minions(stage: Servers, tmp_path: Path) -> None:
    """Each tells all that are touched, once, and goes on after a fail-over; a master that was away catches up."""
    with engine(stage, tmp_path / "one") as one:
        with engine(stage, tmp_path / "two") as two:
            until(lambda: stage.database().run(LISTENING) == [(2,)], Deadline(60), lambda: "nobody listens")
            stage.database().run("UPDATE suseSaltPillars SET pillar = '{}' WHERE group_id = 1")
            heard([one, two], ["web1", "web2"])
            change(stage, 1, 2)
            heard([one, two], ["web1"])
            fail_over(stage, lossy=False)
            change(stage, 3, 7)
            heard([one, two], ["other"])
            until(lambda: stage.database().run(LISTENING) == [(2,)], Deadline(60), lambda: "nobody listens again")
            change(stage, 1, 4)
            heard([one, two], ["web1"])
        # the second one is away
        change(stage, 3, 5)
        heard([one], ["other"])
        change(stage, 1, 6)
        heard([one], ["web1"])
    with engine(stage, tmp_path / "two") as two:
        heard([two], ["other", "web1"])
