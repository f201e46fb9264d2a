"""What decides about access by pillar: nothing has a role that the database did not have at the last request.

Targets, the mine and `publisher_acl` are asked on the master's own functions, after random sequences of outages,
revocations, SLS that a minion spoils with its grains, refreshes and other requests of pillars.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.bed.settings import temporary_parent
from harness.processes.ports import Ports
from harness.processes.processes import Processes
from harness.saltprocess.process import SaltProcess
from tests.live.helpers.handler_cluster import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.timeout(14_000)]
SEED, STEPS = 43, 5
# of a request, until a database that is back is asked again
TRIES = 1000
TASK, TASKS = "pillar_decisions", Path(__file__).parents[1] / "helpers" / "tasks"
MINION, OTHER = "web1", "web2"
ROLES = ["admin", "user"]
TABLE = """
CREATE TABLE pillars (minion_id TEXT PRIMARY KEY, pillar JSONB);
INSERT INTO pillars VALUES ('web1', '{}'), ('web2', '{}');
CREATE ROLE reader LOGIN PASSWORD 'reader'; GRANT SELECT ON pillars TO reader;
"""
WRITE = "UPDATE pillars SET pillar = %s WHERE minion_id = %s"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"
# how the database goes, and how it comes back
OUTAGES = {
    "refused": (f"ALTER ROLE reader NOLOGIN; {END}", "ALTER ROLE reader LOGIN"),
    "table": ("ALTER TABLE pillars RENAME TO away", "ALTER TABLE away RENAME TO pillars"),
    "right": ("REVOKE SELECT ON pillars FROM reader", "GRANT SELECT ON pillars TO reader"),
}
# of a hundred outages, how many stop the server itself
STOPS = 2
SLS = {"top.sls": "base:\n  '*':\n    - note\n", "note.sls": "note: {{ grains.get('note', 'x').upper() }}\n"}
SPOILT = {"note": {"a": "b"}}
# what a minion may add to the pillar that it gets
OVERRIDE = {"role": "admin"}


@dataclass
class Stage:
    """A database, a master before it, and what both have."""

    server: Server
    master: SaltProcess
    is_cached: bool
    count: Counter[str] = field(default_factory=Counter)
    wrong: list[object] = field(default_factory=list)
    # the role of the minion in the database, and how the database is away
    role: str | None = None
    away: str = ""
    grains: dict[str, Any] = field(default_factory=dict)
    # what the master has compiled last
    stored: dict[str, Any] = field(default_factory=dict)
    # the decisions that each role comes with
    decisions: dict[str, list[str]] = field(default_factory=dict)

    def run(self, statement: str, *values: object) -> None:
        """Execute a statement as the administrator of the database."""
        with closing(psycopg2.connect(self.server.postgres.dsn)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement, values or None)

    def give(self, minion: str, role: str | None) -> None:
        """Write the role of a minion, None takes it away."""
        pillar = {"role": role} if role else {}
        self.run(WRITE, json.dumps(pillar), minion)

    def lose(self, away: str) -> None:
        """Take the database away."""
        self.away = away
        if away == "stopped":
            self.server.stop()
        else:
            self.run(OUTAGES[away][0])

    def mend(self) -> None:
        """Bring the database back."""
        if self.away == "stopped":
            self.server.start()
        elif self.away:
            self.run(OUTAGES[self.away][1])
        self.away = ""

    def compiled(self) -> dict[str, Any]:
        """Return what a pillar is now, without the texts of its errors."""
        found: dict[str, Any] = {}
        if not self.away and self.role:
            found["role"] = self.role
        if not self.grains:
            found["note"] = "X"
        if self.away or self.grains:
            found["_errors"] = bool(self.away) + bool(self.grains)
        return found

    def request(self, *, is_refresh: bool, override: dict[str, Any]) -> None:
        """Let the minion ask for its pillar, and see whether that is right, and the decisions after it."""
        asked = {"clean_cache": is_refresh, "pillar_override": override}
        now = self.compiled()
        for _ in range(TRIES):
            found = self.master.run("pillar", MINION, self.grains, asked)[1]
            if "_errors" not in found or "_errors" in now:
                break
            # a server that has just refused a connection is not asked again for as long as that took
            self.count["paused"] += 1
        if "_errors" in found:
            found["_errors"] = len(found["_errors"])
        # what was compiled last is served for a time
        may_be = [now, self.stored] if self.is_cached and not is_refresh else [now]
        served = next((pillar for pillar in may_be if {**pillar, **override} == found), None)
        self.count["pillars"] += 1
        if served is None:
            self.wrong.append((found, may_be))
        # an answer with something of the minion's own is for it alone
        if not override:
            self.stored = served or now

    def check(self) -> None:
        """See that the minion is taken for one with the role that it was stored with, and with no other."""
        role = self.stored.get("role")
        found = self.master.run("decide", MINION)[1]
        expected = {name: decisions if name == role else [] for name, decisions in self.decisions.items()}
        self.count["decisions"] += sum(map(len, self.decisions.values()))
        self.count["granted"] += sum(map(len, found.values()))
        if found != expected:
            self.wrong.append((role, found))


@pytest.fixture(scope="module", params=[False, True], ids=["compiled", "cached"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a master with two minions, which compiles each pillar anew, and one that serves what it has."""
    folder = tmp_path_factory.mktemp("salt")
    (folder / "sls").mkdir()
    for name, text in SLS.items():
        (folder / "sls" / name).write_text(text)
    with ExitStack() as stack:
        processes = stack.enter_context(Processes(temporary_parent()))
        server = Server(processes, stack.enter_context(Ports(SystemRandom())), tmp_path_factory.mktemp("server"))
        changes = {
            "postgres": {**server.postgres.salt_options(), "user": "reader", "pass": "reader"},
            "ext_pillar": [{"postgres": ["SELECT pillar FROM pillars WHERE minion_id = %s"]}],
            "pillar_roots": {"base": [str(folder / "sls")]},
            "pillar_cache": request.param,
        }
        settings = {"folder": str(folder / "master"), "changes": changes, "roles": ROLES, "minions": [MINION, OTHER]}
        master = stack.enter_context(SaltProcess("patched", TASK, settings, TASKS))
        made = Stage(server, master, request.param)
        made.run(TABLE)
        for role in ROLES:
            begin(made, role)
            made.decisions[role] = master.run("decide", MINION)[1][role]
        yield made


def begin(stage: Stage, role: str) -> None:
    """Begin a sequence: nothing is wrong, and the minion has a role."""
    stage.mend()
    stage.role, stage.grains = role, {}
    stage.give(MINION, role)
    stage.request(is_refresh=True, override={})


def step(stage: Stage, draw: random.Random) -> None:
    """Do one of the things that may happen."""
    act = draw.choice(("outage", "role", "spoilt", "refresh", "refresh", "request"))
    stage.count[act] += 1
    if act == "outage":
        away = "stopped" if draw.random() < STOPS / 100 else draw.choice(list(OUTAGES))
        stage.mend() if stage.away else stage.lose(away)
    elif act == "role":
        role = draw.choice([*ROLES, None])
        # a row that is not there now is written after the outage
        if stage.away not in {"stopped", "table"}:
            stage.role = role
            stage.give(MINION, role)
    elif act == "spoilt":
        stage.grains = {} if stage.grains else SPOILT
    else:
        stage.request(is_refresh=act == "refresh", override=draw.choice([{}, {}, OVERRIDE]))
        stage.check()


@pytest.mark.parametrize("sequences", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_no_decision_on_what_was_taken_back(stage: Stage, sequences: int) -> None:
    """Each pillar is whole or has errors, and each decision is by the role that the database had when it was made.

    By the way the other minion has a role as well, so that those who may have something are some, or none.
    """
    # a target is of all kinds, of both roles; the mine is given, and the ACL allows, for the first one
    assert {len(stage.decisions["admin"]), len(stage.decisions["user"])} == {14, 9}
    stage.count.clear()
    for number in range(sequences):
        draw = random.Random(f"{SEED} {sequences} {number}")  # noqa: S311 - repeatable
        begin(stage, draw.choice(ROLES))
        if number % 5 == 0:
            stage.give(OTHER, draw.choice(ROLES))
            stage.master.run("pillar", OTHER, {}, {"clean_cache": True})
        for _ in range(STEPS):
            step(stage, draw)
        stage.request(is_refresh=True, override={})
        stage.check()
    print(f"{sequences} sequences: {dict(stage.count)}, {len(stage.wrong)} wrong")
    assert stage.wrong == []
    assert stage.count["granted"] > stage.count["pillars"]
