"""The forms of the pillar storage: they give the same pillars, refuse bad rows, and the RFC's table becomes ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import schema, sources
from harness.saltprocess.patched import Salt, patched
from tests.live.helpers import pillar_layouts
from tests.live.helpers.pillar_files import UYUNI, install
from tests.live.helpers.pillar_layouts import AS_WRITTEN, FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = pytest.mark.live
# the RFC's own function leaves the order of the categories of one owner to the disk
ORDERED = ("four", "target", "improved")
IDS = sources.ids(1000)[:60]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


@pytest.fixture(scope="module")
def databases(server: Postgres) -> dict[str, sources.Database]:
    """Return a database of each form with the same rows."""
    return {name: pillar_layouts.filled(server, f"form_{name}", name, IDS) for name in FORMS}


@pytest.fixture
def empty(server: Postgres, request: pytest.FixtureRequest) -> sources.Database:
    """Return a database of the improved form with two organisations, three groups and one minion in all three."""
    made = sources.make(server, f"empty_{abs(hash(request.node.name))}", "improved")
    made.run("INSERT INTO web_customer VALUES (1, 'one'), (2, 'two')")
    made.run("INSERT INTO rhnServerGroup VALUES (1, 'a', '', 1), (2, 'b', '', 1), (10, 'c', '', 1)")
    made.run("INSERT INTO rhnServer VALUES (7, 1, 'web')")
    made.run("INSERT INTO suseMinionInfo VALUES (7, 'web')")
    made.run("INSERT INTO rhnServerGroupMembers VALUES (7, 1), (7, 2), (7, 10)")
    return made


def pillars(salt: Salt, database: sources.Database, form: str) -> list[str]:
    """Return the pillars of all minions as canonical JSON."""
    found = salt.compile(database.server, FORMS[form].options(), IDS)
    assert not any("_errors" in pillar for pillar in found), found[0]["_errors"]
    return [pillar_layouts.canonical(pillar) for pillar in found]


def ask(database: sources.Database, minion: str = "web") -> list[object]:
    """Return what the function gives."""
    return [pillar for (pillar,) in database.run("SELECT suse_minion_pillars(%s)", minion)]


def test_all_forms_give_identical_pillars(salt: Salt, databases: dict[str, sources.Database]) -> None:
    """Function, four queries and target queries: the same bytes for each minion."""
    expected = pillars(salt, databases["improved"], "improved")
    assert len(set(expected)) == len(IDS)
    for form in ORDERED:
        assert pillars(salt, databases[form], form) == expected


def keys(pillar: object) -> object:
    """Return a pillar without its values."""
    return {key: keys(value) for key, value in pillar.items()} if isinstance(pillar, dict) else None


@pytest.mark.parametrize("form", ["four", "target"])
def test_the_queries_of_the_rfc_work_as_written(salt: Salt, databases: dict[str, sources.Database], form: str) -> None:
    """Without an order every pillar is complete; only which of two groups wins is left to the disk."""
    as_written = salt.compile(databases[form].server, AS_WRITTEN[form].options(), IDS)
    ordered = salt.compile(databases[form].server, FORMS[form].options(), IDS)
    assert [keys({**pillar, "saltbed": None}) for pillar in as_written] == [
        keys({**pillar, "saltbed": None}) for pillar in ordered
    ]
    for one, other in zip(as_written, ordered, strict=True):
        assert set(one["saltbed"]["categories"]) == set(other["saltbed"]["categories"])


def test_function_returns_the_rows_of_the_rfc(databases: dict[str, sources.Database]) -> None:
    """The improved function gives the same rows, scope by scope; the RFC leaves the order within one of them open."""
    for minion in IDS:
        rows = [
            sorted(text for (text,) in databases[form].run("SELECT suse_minion_pillars(%s)::VARCHAR", minion))
            for form in ("rfc", "improved")
        ]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("form", ORDERED)
def test_order_on_the_disk_does_not_matter(salt: Salt, databases: dict[str, sources.Database], form: str) -> None:
    """Rows that are shuffled on the disk give the same pillars."""
    expected = pillars(salt, databases[form], form)
    for _ in range(3):
        pillar_layouts.shuffle(databases[form].server.dsn, FORMS[form])
        assert pillars(salt, databases[form], form) == expected


def test_scopes_override_in_order(salt: Salt, empty: sources.Database) -> None:
    """Everyone, organisation, group, minion: each overrides the one before, and nested keys merge."""
    scopes = (("NULL", "NULL", "NULL"), ("NULL", "NULL", "1"), ("NULL", "1", "NULL"), ("7", "NULL", "NULL"))
    for number, (minion, group, org) in reversed(list(enumerate(scopes))):
        keys = ", ".join(f"'v{key}', {number}" for key in range(4) if key >= number)
        empty.run(
            "INSERT INTO suseSaltPillars (server_id, group_id, org_id, category, pillar) "  # noqa: S608 - numbers
            f"VALUES ({minion}, {group}, {org}, 'a', jsonb_build_object('deep', jsonb_build_object({keys})))"
        )
    (found,) = salt.compile(empty.server, FORMS["improved"].options(), ["web"])
    assert found == {"deep": {"v0": 0, "v1": 1, "v2": 2, "v3": 3}}


def test_groups_are_in_order_of_id(empty: sources.Database) -> None:
    """The highest id wins, by number."""
    for group in (10, 2, 1):
        row = "INSERT INTO suseSaltPillars (group_id, category, pillar) VALUES (%s, %s, jsonb_build_object('v', %s))"
        empty.run(row, group, "b", group)
        empty.run(row, group, "a", group)
    assert ask(empty) == [{"v": 1}, {"v": 1}, {"v": 2}, {"v": 2}, {"v": 10}, {"v": 10}]


def test_pillars_are_compressed_with_lz4(empty: sources.Database) -> None:
    """A large pillar is, if the server can; if it cannot, the form is installed all the same."""
    algorithms = empty.run("SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'")
    empty.run("INSERT INTO suseSaltPillars (category, pillar) VALUES ('a', jsonb_build_object('b', repeat('c', 3000)))")
    if algorithms:
        ((best,),) = empty.run("SELECT pg_column_compression(pillar) FROM suseSaltPillars")
        assert best == ("lz4" if "lz4" in algorithms[0][0] else "pglz")


def test_unknown_minion_gets_nothing(empty: sources.Database) -> None:
    """Pillars of everyone are for everyone that is known."""
    empty.run("INSERT INTO suseSaltPillars (category, pillar) VALUES ('a', '{\"secret\": 1}')")
    assert ask(empty) == [{"secret": 1}]
    assert ask(empty, "stranger") == []


@pytest.fixture(params=["ours", "uyuni"])
def guarded(server: Postgres, request: pytest.FixtureRequest) -> sources.Database:
    """Return a database with one row of everyone, in our table, and in Uyuni's."""
    made = sources.make(server, f"guarded_{abs(hash(request.node.name))}")
    install(made, "uyuni.sql")
    made.run("INSERT INTO web_customer VALUES (1, 'one'); INSERT INTO rhnServerGroup VALUES (1, 'a', '', 1)")
    if request.param == "uyuni":
        made.run(UYUNI)
    install(made, "pillar.sql", "pillar.sql")
    made.run("INSERT INTO suseSaltPillars (category, pillar) VALUES ('a', '{}')")
    return made


@pytest.mark.parametrize(
    ("columns", "values", "constraint"),
    [
        ("category, pillar", "'a', '{}'", "suse_salt_pillar_global_uq"),
        ("org_id, category, pillar", "1, 'a', '5'", "suse_salt_pillar_object"),
        ("org_id, category, pillar", "1, 'a', '[1]'", "suse_salt_pillar_object"),
        ("org_id, group_id, category, pillar", "1, 1, 'a', '{}'", "violates check constraint"),
    ],
    ids=["second global row", "scalar", "array", "two targets"],
)
def test_bad_rows_are_refused(guarded: sources.Database, columns: str, values: str, constraint: str) -> None:
    """The schema refuses what no pillar can be, in Uyuni's own table as well."""
    with pytest.raises(psycopg2.IntegrityError, match=constraint):
        guarded.run(f"INSERT INTO suseSaltPillars ({columns}) VALUES ({values})")  # noqa: S608 - from above
    assert guarded.count() == 1


@pytest.mark.parametrize("form", ["rfc", "improved", "target"])
@pytest.mark.parametrize(
    ("table", "left"),
    [
        ("rhnServer", {"*", "org_id:1", "org_id:2", "group_id:1", "group_id:2"}),
        ("rhnServerGroup", {"*", "org_id:1", "org_id:2", "a", "b"}),
        ("web_customer", {"*"}),
    ],
)
def test_no_orphans(server: Postgres, form: str, table: str, left: set[str]) -> None:
    """The pillars of a minion, a group or an organisation go with it."""
    made = pillar_layouts.make(server, f"orphans_{form}_{table}", form)
    pillar_layouts.fill(made, form, ["a", "b"], 1, schema.Scale(organisations=2, groups=2, memberships=1))
    target = """SELECT DISTINCT coalesce('org_id:' || org_id, 'group_id:' || group_id, minion_id, '*')
                FROM suseSaltPillars LEFT JOIN suseMinionInfo USING (server_id)"""
    if form == "target":
        target = "SELECT DISTINCT target FROM suseSaltPillars"
    assert {one for (one,) in made.run(target)} == {"*", "org_id:1", "org_id:2", "group_id:1", "group_id:2", "a", "b"}
    made.run(f"DELETE FROM {table}")  # noqa: S608 - from above
    if form == "target" and table == "web_customer":
        # Uyuni's procedure delete_org has to delete them, as the RFC says
        left = {"*", "org_id:1", "org_id:2"}
    assert {one for (one,) in made.run(target)} == left


@pytest.mark.parametrize("form", list(FORMS))
def test_installing_twice_changes_nothing(databases: dict[str, sources.Database], form: str) -> None:
    """A second run of the files leaves tables and rows as they are."""
    made = databases[form]
    shape = """SELECT table_name, column_name, data_type FROM information_schema.columns
               WHERE table_schema = 'public' ORDER BY 1, 2"""
    before = made.run(shape), made.run("SELECT indexname FROM pg_indexes ORDER BY 1"), made.count()
    schema.install_form(made.server.dsn, FORMS[form])
    assert (made.run(shape), made.run("SELECT indexname FROM pg_indexes ORDER BY 1"), made.count()) == before


def test_upgrade_keeps_the_rows(salt: Salt, server: Postgres) -> None:
    """The RFC's table becomes the improved one in place, and gives the same pillars."""
    made = sources.filled(server, "upgraded", "rfc", IDS)
    rows = "SELECT id, server_id, group_id, org_id, category, pillar FROM suseSaltPillars ORDER BY id"
    before, expected = made.run(rows), pillars(salt, made, "rfc")
    schema.install_form(made.server.dsn, FORMS["improved"])
    assert made.run(rows) == before
    assert pillars(salt, made, "improved") == expected
    assert made.run("SELECT DISTINCT level FROM suseSaltPillars ORDER BY 1") == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("kind", ["rfc", "uyuni"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("(1, 'a', '{}'), (2, 'a', '{}'), (3, 'b', '{}')", "more than one global row of these categories: a"),
        ("(1, 'a', '{}'), (2, 'b', '[1]'), (3, 'c', '5')", "no JSON object in these rows of suseSaltPillars?: 2, 3"),
    ],
)
def test_upgrade_names_the_rows_that_it_refuses(server: Postgres, kind: str, rows: str, message: str) -> None:
    """Rows that break the new rules stop the upgrade before it changes anything, of the RFC's table and of Uyuni's."""
    made = sources.make(server, f"refused_{abs(hash(rows + kind))}", "rfc")
    table = "suseSaltPillars"
    if kind == "uyuni":
        made.run(f"DROP TABLE suseSaltPillars; {UYUNI}")
        table = "suseSaltPillar"
    made.run(f"INSERT INTO {table} (id, category, pillar) OVERRIDING SYSTEM VALUE VALUES {rows}")  # noqa: S608 - from above
    shape = (
        "SELECT count(*) FROM pg_attribute WHERE attrelid = %s::regclass UNION ALL SELECT count(*) FROM pg_constraint"
    )
    before = made.run(shape, table)
    with pytest.raises(psycopg2.errors.RaiseException, match=message):
        schema.install_form(made.server.dsn, FORMS["improved"])
    assert made.run(f"SELECT count(*) FROM {table}") == [(3,)]  # noqa: S608 - from above
    assert made.run(shape, table) == before


def test_function_uses_indexes(server: Postgres) -> None:
    """With many rows the improved form never reads the whole table, with a plan for one minion and with one for all."""
    ids = [f"minion-{number:05d}" for number in range(2000)]
    made = sources.filled(server, "many", "improved", ids)
    # one session: it makes a plan for each of the first five, and one for all others
    asked = ids[::100]
    assert made.run(sources.CALL * len(asked) + sources.SCANS, *asked) == [(0,)]
    assert made.run(f"TABLE suseSaltPillars; {sources.SCANS}") == [(1,)]


def test_function_uses_indexes_of_uyuni(server: Postgres) -> None:
    """So it does over Uyuni's own table, whose view has the levels, and installing twice changes nothing."""
    ids = [f"minion-{number:05d}" for number in range(2000)]
    made = sources.filled(server, "many_uyuni", "rfc", ids)
    columns = "id, server_id, group_id, org_id, category, pillar"
    made.run(f"CREATE TABLE kept AS SELECT {columns} FROM suseSaltPillars; DROP TABLE suseSaltPillars; {UYUNI}")  # noqa: S608 - own text
    made.run(f"INSERT INTO suseSaltPillar ({columns}) TABLE kept; CREATE TABLE suseSaltPillars (id NUMERIC)")
    with pytest.raises(psycopg2.errors.WrongObjectType, match="is not a view"):
        schema.install_form(made.server.dsn, FORMS["improved"])
    made.run("DROP TABLE suseSaltPillars; ANALYZE suseSaltPillar")
    for _ in range(2):
        schema.install_form(made.server.dsn, FORMS["improved"])
    asked, scans = ids[::100], sources.SCANS.replace("suseSaltPillars", "suseSaltPillar")
    assert made.run(sources.CALL * len(asked) + scans, *asked) == [(0,)]
    assert made.run(f"TABLE suseSaltPillar; {scans}") == [(1,)]
    many = sources.filled(server, "many_ours", "improved", ids)
    for minion in asked:
        found = [one.run("SELECT suse_minion_pillars(%s)", minion) for one in (made, many)]
        assert found[0] == found[1]
