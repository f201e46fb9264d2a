"""What is noted of changes of pillars when they meet each other, a restore, or what was pruned; who runs code in it."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import scratch
from tests.live.pillar_files import OWNERS, UYUNI, as_role, install

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: `apt-get install postgresql-client`"),
]
ROWS = """
INSERT INTO suseSaltPillars (group_id, category, pillar) VALUES (1, 'group', '{"group": 1}');
INSERT INTO suseSaltPillars (server_id, category, pillar) VALUES (1, 'own', '{"own": 1}'), (3, 'own', '{"own": 3}');
"""
CHANGES = "SELECT snapshot, minions FROM suse_salt_pillar_changes(%s)"
EVERYBODY = ["other", "web1", "web2"]
OLD = """INSERT INTO suseSaltPillarHistory (changed, server_id, category)
    SELECT now() - INTERVAL '91 days', 1, 'old' FROM generate_series(1, 5)"""
LEFT = "SELECT count(*) FROM suseSaltPillarHistory WHERE category = 'old'"
# Of the type of a column: PostgreSQL takes it before its own, which is for TEXT
OPERATORS = """
CREATE FUNCTION public.same(VARCHAR, VARCHAR) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN RAISE 'the operator of another role runs as %', current_user; END $$;
CREATE OPERATOR public.= (LEFTARG = VARCHAR, RIGHTARG = VARCHAR, PROCEDURE = public.same);
CREATE FUNCTION public.to_jsonb(public.suseMinionInfo) RETURNS JSONB LANGUAGE plpgsql AS $$
BEGIN RAISE 'the function of another role runs as %', current_user; END $$;
"""


@pytest.fixture(scope="module", params=["ours", "uyuni"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[scratch.Database]:
    """Yield a database with pillars, over our table and over Uyuni's; that of each test is a copy."""
    with scratch.served(tmp_path_factory.mktemp("server")) as server:
        made = scratch.make(server, "model")
        install(made, "uyuni.sql")
        made.run(UYUNI if request.param == "uyuni" else "SELECT 1")
        install(made, "pillar.sql", "pillar_changes.sql")
        made.run(OWNERS + ROWS)
        yield made


@pytest.fixture
def database(template: scratch.Database, request: pytest.FixtureRequest) -> Iterator[scratch.Database]:
    """Yield a copy of the database."""
    name = f"copy_{abs(hash(request.node.name))}"
    yield scratch.make(template.server, name, template="model")
    template.alone(f'DROP DATABASE "{name}" WITH (FORCE)')


def since(database: scratch.Database, snapshot: str | None = None) -> tuple[str, list[str]]:
    """Return up to where changes are known, and the minions that they touch."""
    ((found, minions),) = database.run(CHANGES, snapshot)
    return str(found), list(minions)


@pytest.mark.parametrize(
    "last", ["DELETE FROM rhnServerGroupMembers WHERE server_id = 2", "DELETE FROM rhnServerGroup"]
)
def test_minion_that_leaves_after_the_pillar(database: scratch.Database, last: str) -> None:
    """The group's pillar goes first and the membership in a later transaction: its minion still has the old pillar."""
    snapshot, _ = since(database)
    database.run("DELETE FROM suseSaltPillars WHERE group_id = 1")
    database.run(last)
    assert "web2" in since(database, snapshot)[1]


def test_minion_that_joins_while_the_group_gets_its_first_pillar(database: scratch.Database) -> None:
    """Neither transaction sees the other's row, and the one that ends last is asked for last."""
    snapshot, _ = since(database)
    with closing(psycopg2.connect(database.server.dsn)) as late, late.cursor() as cursor:
        cursor.execute("INSERT INTO rhnServerGroupMembers (server_id, server_group_id) VALUES (3, 2)")
        database.run("INSERT INTO suseSaltPillars (group_id, category, pillar) VALUES (2, 'db', '{}')")
        snapshot, minions = since(database, snapshot)
        assert minions == ["web1"]
        late.commit()
    assert since(database, snapshot)[1] == ["other"]


def test_rows_of_another_server_are_not_new_for_ever(database: scratch.Database) -> None:
    """A dump has the transactions of the server that it was made of, which may be ahead."""
    database.run("INSERT INTO suseSaltPillarHistory (transaction, server_id, category) VALUES ('900000', 1, 'x')")
    database.run("INSERT INTO suseSaltPillarMoved (transaction, server_id) VALUES ('900000', 2)")
    snapshot, _ = since(database)
    assert since(database, snapshot)[1] == []


def test_table_that_is_emptied_is_everyone(database: scratch.Database) -> None:
    """TRUNCATE has no rows to be noted."""
    table = "SELECT coalesce(to_regclass('suseSaltPillar'), to_regclass('suseSaltPillars'))::TEXT"
    ((name,),) = database.run(table)
    snapshot, _ = since(database)
    database.run(f"TRUNCATE {name}")
    snapshot, minions = since(database, snapshot)
    assert minions == EVERYBODY
    assert since(database, snapshot)[1] == []


def test_priority_that_stays_is_no_change(database: scratch.Database) -> None:
    """An UPDATE that writes what is there touches nobody, and another priority all of the group."""
    database.run("INSERT INTO suseSaltPillarPriority (group_id, priority) VALUES (1, 5)")
    snapshot, _ = since(database)
    database.run("UPDATE suseSaltPillarPriority SET priority = 5")
    assert since(database, snapshot)[1] == []
    database.run("UPDATE suseSaltPillarPriority SET priority = 6")
    assert since(database, snapshot)[1] == ["web1", "web2"]


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_old_notes_hold_up_no_writer(database: scratch.Database, isolation: str) -> None:
    """Two transactions write at once though there is something to prune: neither waits, neither fails."""
    database.run(OLD)
    with (
        closing(psycopg2.connect(database.server.dsn)) as first,
        closing(psycopg2.connect(database.server.dsn)) as second,
        first.cursor() as one,
        second.cursor() as other,
    ):
        second.set_session(isolation_level=isolation)
        other.execute("SET lock_timeout = '1s'; SELECT 1")
        one.execute("UPDATE suseSaltPillars SET pillar = '{}' WHERE server_id = 1")
        other.execute("UPDATE suseSaltPillars SET pillar = '{}' WHERE server_id = 3")
        first.commit()
        other.execute("UPDATE suseSaltPillars SET pillar = '{\"a\": 1}' WHERE server_id = 3")
        second.commit()
    assert database.run(LEFT) == [(5,)]


def test_old_notes_go_a_bit_at_a_time(database: scratch.Database) -> None:
    """As many as wanted, and none that another session prunes, for which it does not wait."""
    database.run(OLD)
    prune = "SELECT suse_salt_pillar_prune(%s)"
    with closing(psycopg2.connect(database.server.dsn)) as other, other.cursor() as cursor:
        cursor.execute(prune, [2])
        assert cursor.fetchall() == [(2,)]
        ((snapshot, _),) = database.run(CHANGES, None)
        other.rollback()
    assert database.run(prune, 2) == [(2,)]
    assert database.run(LEFT) == [(3,)]
    assert database.run(prune, 1000) == [(3,)]
    assert database.run(prune, 1000) == [(0,)]
    assert since(database, snapshot)[1] == []


def test_snapshot_before_what_was_pruned_is_everyone(database: scratch.Database) -> None:
    """Nobody knows any more what has changed since; and it is asked for once."""
    snapshot, _ = since(database)
    database.run(OLD)
    later, _ = since(database)
    database.run("SELECT suse_salt_pillar_prune(1000)")
    assert since(database, later)[1] == []
    snapshot, minions = since(database, snapshot)
    assert minions == EVERYBODY
    assert since(database, snapshot)[1] == []


def test_functions_use_no_operator_of_another_role(database: scratch.Database) -> None:
    """Whoever may create in the schema gets nothing run as the owner of the triggers, or of the role's functions."""
    roles = ("evil", "writer", "reader")
    for role in roles[:2]:
        database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        database.run("GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC")
        scratch.Database(as_role(database, "evil", "x")).run(OPERATORS)
        install(database, "pillar.sql", "pillar_changes.sql")
        install(database, "pillar_role.sql", role="reader")
        assert database.run("SELECT has_schema_privilege('evil', 'public', 'CREATE')") == [(False,)]
        database.run(
            "ALTER ROLE reader PASSWORD 'x'; GRANT SELECT, UPDATE ON suseSaltPillars, suseMinionInfo TO writer"
        )
        writer = scratch.Database(as_role(database, "writer", "x"))
        writer.run("UPDATE suseSaltPillars SET pillar = '{\"own\": 2}' WHERE server_id = 1")
        writer.run("UPDATE suseMinionInfo SET minion_id = 'renamed' WHERE server_id = 1")
        reader = scratch.Database(as_role(database, "reader", "x"))
        assert reader.run("SELECT suse_minion_pillars('renamed')") == [({"group": 1},), ({"own": 2},)]
        assert reader.run(CHANGES, None)[0][1] == []
        assert reader.run("SELECT suse_salt_pillar_prune(1)") == [(0,)]
    finally:
        database.run(f"DROP OWNED BY {', '.join(roles[:2])} CASCADE; DROP ROLE {', '.join(roles[:2])}")
