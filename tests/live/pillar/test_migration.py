"""Pillars of Uyuni from files to the database, with what is wrong in real folders among them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.database import schema, sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched
from harness.saltprocess.process import SaltProcess
from tests.live.helpers.pillar_files import UYUNI

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = pytest.mark.live
Files = dict[str, str]
IDS = ["web", "web_1", "web_1.example.com", "db_custom", "a.b_c-d"]
ROWS = "SELECT server_id, group_id, org_id, category, pillar FROM suseSaltPillars ORDER BY 1, 2, 3, 4"


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


@pytest.fixture(params=["ours", "uyuni"])
def database(server: Postgres, request: pytest.FixtureRequest) -> sources.Database:
    """Return a database with two organisations, two groups and five minions, and no pillar; also over Uyuni's table."""
    made = sources.make(server, f"migration_{abs(hash(request.node.name))}")
    schema.install_form(made.server.dsn, schema.Form("owners", ("uyuni.sql",), ()))
    if request.param == "uyuni":
        made.run(UYUNI)
    schema.install_form(made.server.dsn, schema.Form(request.param, ("pillar.sql",), ()))
    made.run("INSERT INTO web_customer VALUES (1, 'one'), (2, 'two')")
    made.run("INSERT INTO rhnServerGroup VALUES (3, 'a', '', 1), (12, 'b', '', 1)")
    for number, minion in enumerate(IDS, 1):
        made.run("INSERT INTO rhnServer VALUES (%s, 1, %s)", number, minion)
        made.run("INSERT INTO suseMinionInfo VALUES (%s, %s)", number, minion)
    made.run("INSERT INTO rhnServerGroupMembers VALUES (1, 3), (1, 12), (2, 12)")
    return made


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Write files of all kinds, and return the folders as the master's option has them."""
    pillar, formulas = tmp_path / "pillar_data", tmp_path / "formula_data"
    groups = {"web": [3, 12], "web_1": [12]}
    documents: dict[Path, Any] = {
        tmp_path / "static_data" / "gpgkeys.yml": {"gpgkeys": {"a": {"name": "a"}}, "v": "everyone"},
        pillar / "mgr_conf.yml": {"mgr_server": "uyuni.example.com"},
        pillar / "images" / "kiwi.sls": {"images": {"kiwi": {"1.0": {"url": "everyone"}}}},
        pillar / "images" / "org1" / "kiwi.sls": {"images": {"kiwi": {"1.0": {"url": "org"}}}, "v": "org"},
        pillar / "images" / "group3" / "kiwi.sls": {"images": {"kiwi": {"2.0": {"url": "group"}}}, "v": "group"},
        formulas / "group_formulas.json": {"3": ["users", "bare"], "12": ["ntp"]},
        formulas / "minion_formulas.json": {"web": ["own"], "a.b_c-d": ["alone"]},
        formulas / "formula_order.json": ["ntp", "own", "users", "bare", "alone"],
        formulas / "group_pillar" / "3_users.json": {"users": {"root": 0}},
        formulas / "group_pillar" / "12_ntp.json": {"ntp": {"server": "a", "port": 123}},
        formulas / "pillar" / "web_ntp.json": {"ntp": {"server": "b"}},
    }
    for minion in IDS:
        documents[pillar / f"pillar_{minion}.yml"] = {"org_id": 1, "id": minion, "number": 1.5, "nothing": None}
        documents[pillar / f"pillar_{minion}_group_memberships.yml"] = {"group_ids": groups.get(minion, [])}
        documents[pillar / f"pillar_{minion}_custom_info.yml"] = {"custom_info": {"text": "on", "é": ["1", 1, True]}}
    for path, document in documents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML
        path.write_text(json.dumps(document))
    return {name: str(tmp_path / name) for name in ("pillar_data", "static_data", "formula_data")}


def ask(salt: Salt, postgres: Postgres, files: Files, **arguments: object) -> dict[str, Any]:
    """Return the answer of the import."""
    settings = {**options(postgres, []), "pillar_sql": files}
    answer: dict[str, Any] = salt.act("run", settings, "pillar_sql.import_files", arguments)
    return answer


def done(salt: Salt, postgres: Postgres, files: Files, **arguments: object) -> dict[str, Any]:
    """Return the result of an import that does all that it was asked for."""
    answer = ask(salt, postgres, files, **arguments)
    assert answer["retcode"] == 0, answer
    result: dict[str, Any] = answer["result"]
    return result


def test_import_and_import_again(salt: Salt, database: sources.Database, files: Files) -> None:
    """Each file becomes a row, a second import changes nothing, and the pillars are those of the files."""
    report = done(salt, database.server, files)
    # 23 pillars in files, the order, four formulas without data
    assert (report["added"], report["bad"], report["ignored"]) == (database.count(), {}, [])
    rows = database.run(ROWS)
    again = done(salt, database.server, files)
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, len(rows))
    assert database.run(ROWS) == rows
    (web,) = salt.compile(database.server, [{"uyuni": {"lenient": True}}], ["web"])
    expected = json.loads((Path(files["pillar_data"]) / "pillar_web.yml").read_text())
    assert {name: web[name] for name in expected} == expected
    assert (web["v"], web["custom_info"]) == ("group", {"text": "on", "é": ["1", 1, True]})
    assert web["images"] == {"kiwi": {"1.0": {"url": "org"}, "2.0": {"url": "group"}}}
    formulas = database.run("SELECT category FROM suseSaltPillars WHERE category LIKE 'formula-%' AND server_id = 1")
    assert sorted(formulas) == [("formula-ntp",), ("formula-own",)]


def test_dry_run_changes_nothing(salt: Salt, database: sources.Database, files: Files) -> None:
    """The report of a dry run is that of an import, and the table stays as it is."""
    report = done(salt, database.server, files, dry_run=True)
    assert (report["imported"], database.count()) == (False, 0)
    assert {**report, "imported": True} == done(salt, database.server, files)


def test_number_that_changes_its_form_is_a_change(salt: Salt, database: sources.Database, files: Files) -> None:
    """PostgreSQL takes 1.5 and 1.50 for equal; a template doesn't take 2 for 2.0."""
    path = Path(files["pillar_data"]) / "pillar_web.yml"
    path.write_text("{org_id: 1, number: 2}")
    done(salt, database.server, files)
    path.write_text("{org_id: 1, number: 2.0}")
    assert done(salt, database.server, files)["changed"] == 1
    row = "SELECT pillar::text FROM suseSaltPillars WHERE server_id = 1 AND category = 'general'"
    assert database.run(row) == [('{"number": 2.0, "org_id": 1}',)]


def test_missing_data_of_a_formula_keep_their_row(salt: Salt, database: sources.Database, files: Files) -> None:
    """A second import with fewer files leaves the rows of the first one alone."""
    done(salt, database.server, files)
    rows = database.run(ROWS)
    for name in ("group_pillar/12_ntp.json", "pillar/web_ntp.json", "group_formulas.json", "formula_order.json"):
        (Path(files["formula_data"]) / name).unlink()
    done(salt, database.server, files)
    assert database.run(ROWS) == rows


def test_import_gives_up_where_somebody_writes(salt: Salt, database: sources.Database, files: Files) -> None:
    """It does not wait for a writer for ever."""
    with closing(psycopg2.connect(database.server.dsn)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE suseSaltPillars IN ROW EXCLUSIVE MODE")
        answer = ask(salt, database.server, files)
    assert (answer["retcode"], "lock timeout" in answer["error"]) == (1, True)
    assert database.count() == 0


def test_bad_file_is_named(salt: Salt, database: sources.Database, files: Files) -> None:
    """A broken file stops the import; strangers are told and stop nothing."""
    pillar = Path(files["pillar_data"])
    (pillar / "pillar_gone.yml").write_text("a: 1")
    report = done(salt, database.server, files, dry_run=True)
    assert [Path(path).name for path in report["ignored"]] == ["pillar_gone.yml"]
    (pillar / "pillar_web.yml").write_text("a: [")
    answer = ask(salt, database.server, files)
    ((path, reason),) = answer["result"]["bad"].items()
    assert (Path(path).name, reason.startswith("it cannot be parsed")) == ("pillar_web.yml", True)
    assert (answer["retcode"], answer["result"]["imported"], database.count()) == (1, False, 0)


def test_killed_import_leaves_nothing(database: sources.Database, files: Files, tmp_path: Path) -> None:
    """An import that dies before its end, with rows already sent, changes nothing."""
    # the import waits for this lock after all its reading of files, before it writes into the table
    with closing(psycopg2.connect(database.server.dsn)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE suseSaltPillars IN ROW EXCLUSIVE MODE")
        process = SaltProcess("patched", "harness.saltprocess.compiler", {"folder": str(tmp_path / "salt")})
        settings = {**options(database.server, []), "pillar_sql": files}
        request = ["run", settings, "pillar_sql.import_files", {}]
        process._child.send({"arguments": request}, 10)
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until(lambda: database.run(waiting), Deadline(60), lambda: "the import does not get to its end")
        process._child.process.kill()
        process.close()
    until(lambda: not database.run(waiting), Deadline(30), lambda: "the import's session stays")
    assert database.count() == 0


# In place of Uyuni's own module, over a table of the state before
SUMA_MINION = """
import psycopg2
import saltext.uyuni_pillar.connection as connection
import saltext.uyuni_pillar.pillar.uyuni as uyuni

def ext_pillar(minion_id, pillar, *args):
    with psycopg2.connect(**connection.get_params(__opts__)) as conn, conn.cursor() as cursor:
        cursor.execute(uyuni.QUERY.format(table="before"), (minion_id,))
        return uyuni.merge(cursor.fetchall(), lenient=True)
"""


def test_compare_finds_seeded_differences(salt: Salt, server: Postgres, tmp_path: Path) -> None:
    """Fifty of 200 minions differ by one value: each is named with its value, and no other."""
    made = sources.filled(server, "compared", "improved", sources.ids(200))
    made.run("CREATE TABLE before AS SELECT id, server_id, group_id, org_id, category, pillar FROM suseSaltPillars")
    (tmp_path / "pillar").mkdir()
    (tmp_path / "pillar" / "suma_minion.py").write_text(SUMA_MINION)
    settings = {**options(made.server, [{"uyuni": {"lenient": True}}]), "extension_modules": str(tmp_path)}
    assert salt.act("run", settings, "pillar_sql.compare", {})["result"]["different"] == {}
    made.run(
        "UPDATE suseSaltPillars SET pillar = pillar || jsonb_build_object('seeded', server_id)"
        " WHERE server_id <= 50 AND id IN"
        " (SELECT max(id) FROM suseSaltPillars WHERE category NOT LIKE 'formula-%' GROUP BY server_id)"
    )
    answer = salt.act("run", settings, "pillar_sql.compare", {})
    report = answer["result"]
    assert (answer["retcode"], report["minions"], len(report["different"])) == (1, 200, 50)
    for difference in report["different"].values():
        assert (difference["suma_minion"], list(difference["uyuni"])) == ({}, ["seeded"])
