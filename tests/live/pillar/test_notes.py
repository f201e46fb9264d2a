"""What is noted of changes of pillars when they meet each other, a restore, or what was pruned; who runs code in it."""

from __future__ import annotations

import shutil
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import sources
from tests.live.helpers.changed_pillars import CHANGES, EVERYBODY, KINDS, copied, model, since
from tests.live.helpers.pillar_files import as_role, install, psql

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: `apt-get install postgresql-client`"),
]
OLD = """INSERT INTO suseSaltPillarHistory (changed, server_id, category)
    SELECT now() - INTERVAL '92 days', 1, 'old' FROM generate_series(1, 5)"""
LEFT = "SELECT count(*) FROM suseSaltPillarHistory WHERE category = 'old'"
HOURS_OLD = """INSERT INTO suseSaltPillarAsked (asked) VALUES (now() - INTERVAL '2 hours')
    RETURNING transaction::TEXT || '/' || pg_current_snapshot()::TEXT"""
CHECKED = ("pillar.sql", "pillar_changes.sql", "pillar_role.sql")
PLANTED = [
    "CREATE FUNCTION suse_salt_pillar_keep() RETURNS INTERVAL LANGUAGE sql AS $$SELECT INTERVAL '0'$$",
    "CREATE FUNCTION suse_salt_pillar_restore(INTEGER) RETURNS VOID LANGUAGE sql AS $$$$",
    "CREATE FUNCTION suse_minion_pillars(VARCHAR) RETURNS TABLE (pillar JSONB) LANGUAGE sql AS $$SELECT '{}'::JSONB$$",
    "CREATE FUNCTION format(TEXT, REGCLASS) RETURNS TEXT LANGUAGE sql AS 'SELECT 1::TEXT'",
    "CREATE TABLE rhnServer (id NUMERIC PRIMARY KEY, org_id NUMERIC)",
    "CREATE TABLE suseSaltPillars (id INTEGER)",
    "CREATE TABLE suseSaltPillarHistory (id INTEGER)",
    """CREATE FUNCTION mine(VARCHAR, VARCHAR) RETURNS BOOLEAN LANGUAGE sql AS 'SELECT true';
    CREATE OPERATOR = (LEFTARG = VARCHAR, RIGHTARG = VARCHAR, PROCEDURE = mine)""",
]
# Of the type of a column: PostgreSQL takes it before its own, which is for TEXT
OPERATORS = """
CREATE FUNCTION public.same(VARCHAR, VARCHAR) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN RAISE 'the operator of another role runs as %', current_user; END $$;
CREATE OPERATOR public.= (LEFTARG = VARCHAR, RIGHTARG = VARCHAR, PROCEDURE = public.same);
CREATE FUNCTION public.to_jsonb(public.suseMinionInfo) RETURNS JSONB LANGUAGE plpgsql AS $$
BEGIN RAISE 'the function of another role runs as %', current_user; END $$;
"""


@pytest.fixture(scope="module", params=KINDS)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with pillars, over our table and over Uyuni's."""
    with model(request.param, tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
def database(template: sources.Database, request: pytest.FixtureRequest) -> Iterator[sources.Database]:
    """Yield a copy of the database."""
    with copied(template, request.node.name) as made:
        yield made


@pytest.mark.parametrize(
    "last", ["DELETE FROM rhnServerGroupMembers WHERE server_id = 2", "DELETE FROM rhnServerGroup"]
)
def test_minion_that_leaves_after_the_pillar(database: sources.Database, last: str) -> None:
    """The group's pillar goes first and the membership in a later transaction: its minion still has the old pillar."""
    snapshot, _ = since(database)
    database.run("DELETE FROM suseSaltPillars WHERE group_id = 1")
    database.run(last)
    assert "web2" in since(database, snapshot)[1]


def test_minion_that_joins_while_the_group_gets_its_first_pillar(database: sources.Database) -> None:
    """Neither transaction sees the other's row, and the one that ends last is asked for last."""
    snapshot, _ = since(database)
    with closing(psycopg2.connect(database.server.dsn)) as late, late.cursor() as cursor:
        cursor.execute("INSERT INTO rhnServerGroupMembers (server_id, server_group_id) VALUES (3, 2)")
        database.run("INSERT INTO suseSaltPillars (group_id, category, pillar) VALUES (2, 'db', '{}')")
        snapshot, minions = since(database, snapshot)
        assert minions == ["web1"]
        late.commit()
    assert since(database, snapshot)[1] == ["other"]


def test_rows_of_another_server_are_not_new_for_ever(database: sources.Database) -> None:
    """A dump has the transactions of the server that it was made of, which may be ahead."""
    database.run("INSERT INTO suseSaltPillarHistory (transaction, server_id, category) VALUES ('900000', 1, 'x')")
    database.run("INSERT INTO suseSaltPillarMoved (transaction, server_id) VALUES ('900000', 2)")
    snapshot, _ = since(database)
    assert since(database, snapshot)[1] == []


def test_table_that_is_emptied_is_everyone(database: sources.Database) -> None:
    """TRUNCATE has no rows to be noted."""
    table = "SELECT coalesce(to_regclass('suseSaltPillar'), to_regclass('suseSaltPillars'))::TEXT"
    ((name,),) = database.run(table)
    snapshot, _ = since(database)
    database.run(f"TRUNCATE {name}")
    snapshot, minions = since(database, snapshot)
    assert minions == EVERYBODY
    assert since(database, snapshot)[1] == []


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_old_notes_hold_up_no_writer(database: sources.Database, isolation: str) -> None:
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


def test_old_notes_go_a_bit_at_a_time(database: sources.Database) -> None:
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


def test_snapshot_before_what_was_pruned_is_everyone(database: sources.Database) -> None:
    """Nobody knows any more what has changed since; and it is asked for once."""
    snapshot, _ = since(database)
    later, _ = since(database)
    database.run(
        "UPDATE suseSaltPillarAsked SET asked = now() - INTERVAL '91 days' WHERE transaction::TEXT = %s",
        snapshot.partition("/")[0],
    )
    database.run("SELECT suse_salt_pillar_prune(1000)")
    assert since(database, later)[1] == []
    snapshot, minions = since(database, snapshot)
    assert minions == EVERYBODY
    assert since(database, snapshot)[1] == []


def test_function_of_another_role_is_replaced(template: sources.Database) -> None:
    """The check itself stays nobody else's."""
    database = sources.make(template.server, "planted_check")
    with roles(database, "evil"):
        database.run("GRANT CREATE ON SCHEMA public TO PUBLIC")
        planted = "CREATE FUNCTION suse_salt_pillar_trusted() RETURNS VOID LANGUAGE sql AS $$$$"
        sources.Database(as_role(database, "evil", "x")).run(planted)
        install(database, "uyuni.sql", "pillar.sql")
        owner = "SELECT proowner = 'evil'::regrole FROM pg_proc WHERE proname = 'suse_salt_pillar_trusted'"
        assert database.run(owner) == [(False,)]


def test_answer_that_says_nothing_writes_nothing(database: sources.Database) -> None:
    """It is the snapshot that was given, for an hour; then there is a new one, from which nothing is missed."""
    snapshot, _ = since(database)
    written = "SELECT count(*) FROM suseSaltPillarAsked"
    before = database.run(written)
    assert since(database, snapshot) == (snapshot, [])
    assert database.run(written) == before
    ((snapshot,),) = database.run(HOURS_OLD)
    later, minions = since(database, snapshot)
    assert (minions, later == snapshot) == ([], False)
    database.run("UPDATE suseSaltPillars SET pillar = '{}' WHERE server_id = 1")
    assert since(database, snapshot)[1] == since(database, later)[1] == ["web1"]


def test_backup_that_is_older_is_everyone(template: sources.Database, database: sources.Database) -> None:
    """Restored into the same server, whose numbers of transactions go on: pillars are what they were."""
    snapshot, _ = since(database)
    with copied(template, "older") as older:
        database.run("UPDATE suseSaltPillars SET pillar = '{}' WHERE server_id = 1")
        snapshot, minions = since(database, snapshot)
        assert minions == ["web1"]
        snapshot, minions = since(older, snapshot)
        assert minions == EVERYBODY
        assert since(older, snapshot)[1] == []


def test_rows_of_a_dump_know_nothing(database: sources.Database) -> None:
    """They have the numbers of transactions that another server has given out."""
    snapshot, _ = since(database)
    database.run("CREATE TABLE dumped AS TABLE suseSaltPillarAsked; TRUNCATE suseSaltPillarAsked")
    database.run("INSERT INTO suseSaltPillarAsked TABLE dumped")
    snapshot, minions = since(database, snapshot)
    assert minions == EVERYBODY
    assert since(database, snapshot)[1] == []


@pytest.mark.parametrize("text", ["", "x", "1:1:", "1/", "999999999999/1:1:"])
def test_snapshot_that_is_none_is_everyone(database: sources.Database, text: str) -> None:
    """So is one of an earlier version."""
    assert since(database, text)[1] == EVERYBODY


def test_old_answers_are_pruned(database: sources.Database) -> None:
    """Who comes back later refreshes everyone."""
    database.run("INSERT INTO suseSaltPillarAsked (asked) VALUES (now() - INTERVAL '91 days')")
    database.run("SELECT suse_salt_pillar_prune(1000)")
    assert database.run("SELECT count(*) FROM suseSaltPillarAsked WHERE asked < now() - INTERVAL '1 day'") == [(0,)]


def test_functions_use_no_operator_of_another_role(database: sources.Database) -> None:
    """Who may create in the schema gets nothing run by those who write, read or go back; PUBLIC may not any more."""
    with roles(database, "evil", "writer", "reader"):
        database.run("GRANT CREATE ON SCHEMA public TO PUBLIC")
        install(database, "pillar_changes.sql")
        install(database, "pillar_role.sql", role="reader")
        assert database.run("SELECT has_schema_privilege('evil', 'public', 'CREATE')") == [(False,)]
        database.run("GRANT SELECT, UPDATE ON suseSaltPillars, suseMinionInfo TO writer")
        database.run("GRANT CREATE ON SCHEMA public TO evil")
        sources.Database(as_role(database, "evil", "x")).run(OPERATORS)
        writer = sources.Database(as_role(database, "writer", "x"))
        writer.run("UPDATE suseSaltPillars SET pillar = '{\"own\": 2}' WHERE server_id = 1")
        writer.run("UPDATE suseMinionInfo SET minion_id = 'renamed' WHERE server_id = 1")
        reader = sources.Database(as_role(database, "reader", "x"))
        assert reader.run("SELECT suse_minion_pillars('renamed')") == [({"group": 1},), ({"own": 2},)]
        assert reader.run(CHANGES, None)[0][1] == []
        assert reader.run("SELECT suse_salt_pillar_prune(1)") == [(0,)]
        database.run("SELECT suse_salt_pillar_restore(max(id)) FROM suseSaltPillarHistory WHERE server_id = 1")
        assert reader.run("SELECT suse_minion_pillars('renamed')") == [({"group": 1},), ({"own": 1},)]


@pytest.mark.parametrize("planted", PLANTED)
def test_what_another_role_has_planted_is_refused(template: sources.Database, planted: str) -> None:
    """It would be called as the owner of the triggers, or be what they write to: nothing is installed beside it."""
    database = sources.make(template.server, f"planted_{PLANTED.index(planted)}")
    files = ("uyuni.sql", "pillar.sql", "pillar_changes.sql")
    with roles(database, "evil"):
        database.run("GRANT CREATE ON SCHEMA public TO PUBLIC")
        sources.Database(as_role(database, "evil", "x")).run(planted)
        done = psql(database, *files)
        assert done.returncode == 3
        assert "of evil" in done.stderr
        assert database.run("SELECT to_regprocedure('suse_salt_pillar_moved()')") == [(None,)]
        database.run("DROP OWNED BY evil")
        install(database, *files)


def test_function_that_another_role_has_planted_gets_no_owner(template: sources.Database) -> None:
    """The function of changes is there without its file: it would run as who may read all pillars."""
    database = sources.make(template.server, "planted_later")
    with roles(database, "evil"):
        install(database, "uyuni.sql", "pillar.sql")
        database.run("GRANT CREATE ON SCHEMA public TO evil")
        sources.Database(as_role(database, "evil", "x")).run(
            "CREATE FUNCTION suse_salt_pillar_changes(TEXT) RETURNS TEXT LANGUAGE sql AS 'SELECT 1::TEXT'"
        )
        for name in ("pillar.sql", "pillar_changes.sql", "pillar_role.sql"):
            done = psql(database, name)
            assert (done.returncode, "suse_salt_pillar_changes(text) of evil" in done.stderr) == (3, True), done.stderr


def test_role_that_owns_the_database_is_trusted(template: sources.Database) -> None:
    """It has installed the files, and a superuser installs them again."""
    database = sources.make(template.server, "owned")
    with roles(database, "writer"):
        # before PostgreSQL 15 the schema is not the database owner's
        database.run("ALTER DATABASE owned OWNER TO writer; ALTER SCHEMA public OWNER TO writer")
        files = ("uyuni.sql", "pillar.sql", "pillar_changes.sql")
        install(sources.Database(as_role(database, "writer", "x")), *files)
        install(database, *files, "pillar_role.sql")
        database.run("ALTER DATABASE owned OWNER TO CURRENT_USER; ALTER SCHEMA public OWNER TO CURRENT_USER")


@contextmanager
def roles(database: sources.Database, *names: str) -> Iterator[None]:
    """Make roles that can log in; they are gone in the end, with what they own."""
    for name in names:
        database.run(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN PASSWORD 'x'")
    try:
        yield
    finally:
        database.run(f"DROP OWNED BY {', '.join(names)} CASCADE; DROP ROLE {', '.join(names)}")
