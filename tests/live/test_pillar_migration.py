"""Pillars of Uyuni from files to the database and back, with what is wrong in real folders among them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.database import forms, scratch
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched
from harness.saltprocess.process import SaltProcess
from tests.live.pillar_files import UYUNI

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from harness.database.postgres import Postgres

pytestmark = pytest.mark.live
Files = dict[str, str]
IDS = ["web", "web_1", "web_1.example.com", "db_custom", "a.b_c-d"]
ROWS = "SELECT server_id, group_id, org_id, category, pillar FROM suseSaltPillars ORDER BY 1, 2, 3, 4"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with scratch.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module", params=["psycopg2", "psycopg"])
def salt(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Salt]:
    """Yield the patched Salt with each driver."""
    without = ["psycopg2"] if request.param == "psycopg" else []
    with patched(tmp_path_factory.mktemp("salt"), without=without) as found:
        yield found


@pytest.fixture(params=["ours", "uyuni"])
def database(server: Postgres, request: pytest.FixtureRequest) -> scratch.Database:
    """Return a database with two organisations, two groups and five minions, and no pillar; also over Uyuni's table."""
    made = scratch.make(server, f"migration_{abs(hash(request.node.name))}")
    forms.install(made.server.dsn, forms.Form("owners", ("uyuni.sql",), (), ()))
    if request.param == "uyuni":
        made.run(UYUNI)
    name = "pillar_uyuni.sql" if request.param == "uyuni" else "pillar.sql"
    forms.install(made.server.dsn, forms.Form(request.param, (name,), (), ()))
    made.run("INSERT INTO web_customer VALUES (1, 'one'), (2, 'two')")
    made.run("INSERT INTO rhnServerGroup VALUES (3, 'a', '', 1), (12, 'b', '', 1)")
    for number, minion in enumerate(IDS, 1):
        made.run("INSERT INTO rhnServer VALUES (%s, 1, %s)", number, minion)
        made.run("INSERT INTO suseMinionInfo VALUES (%s, %s)", number, minion)
    made.run("INSERT INTO rhnServerGroupMembers VALUES (1, 3), (1, 12), (2, 12)")
    return made


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Write files of all kinds, and return the folders as the runner takes them."""
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


def failed(salt: Salt, postgres: Postgres, name: str, **arguments: object) -> dict[str, Any]:
    """Return the answer of a runner that does not do all that it was asked for."""
    answer = salt.answer(postgres, name, **arguments)
    assert answer["retcode"] == 1, answer
    return answer


def states(report: dict[str, Any]) -> dict[str, str]:
    """Return what became of the files, by name."""
    return {Path(path).name: state for path, state in report["files"].items()}


def test_import_and_import_again(salt: Salt, database: scratch.Database, files: Files) -> None:
    """Each file becomes a row, a second import changes nothing, and the pillars are those of the files."""
    report = salt.run(database.server, "pillar_sql.import_files", **files)
    assert set(states(report).values()) == {"added"}
    # 23 pillars in files, four formulas without data, three lists of formulas
    assert (report["added"], report["bad"]) == (database.count(), 0)
    rows = database.run(ROWS)
    again = salt.run(database.server, "pillar_sql.import_files", **files)
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, len(rows))
    assert database.run(ROWS) == rows
    verified = salt.run(database.server, "pillar_sql.verify", **files)
    assert (verified["minions"], verified["different"], verified["bad"]) == (len(IDS), {}, {})
    # jsonb has an order of its own
    assert verified["reordered"] == len(IDS)
    (web,) = salt.compile(database.server, [{"postgres": ["SELECT suse_minion_pillars(%s)"]}], ["web"])
    assert web["formulas"] == ["ntp", "own", "users", "bare"]
    assert (web["v"], web["ntp"]) == ("group", {"server": "b", "port": 123})


def test_dry_run_changes_nothing(salt: Salt, database: scratch.Database, files: Files) -> None:
    """The report of a dry run is that of an import, and the table stays as it is."""
    report = salt.run(database.server, "pillar_sql.import_files", dry_run=True, **files)
    assert (report["imported"], database.count()) == (False, 0)
    done = salt.run(database.server, "pillar_sql.import_files", **files)
    assert {**report, "imported": True} == done


def test_number_that_changes_its_form_is_a_change(salt: Salt, database: scratch.Database, files: Files) -> None:
    """PostgreSQL takes 1.5 and 1.50 for equal; a template doesn't take 2 for 2.0."""
    path = Path(files["pillar_data"]) / "pillar_web.yml"
    path.write_text("{org_id: 1, number: 2}")
    salt.run(database.server, "pillar_sql.import_files", **files)
    path.write_text("{org_id: 1, number: 2.0}")
    assert list(failed(salt, database.server, "pillar_sql.verify", **files)["result"]["different"]) == ["web"]
    assert salt.run(database.server, "pillar_sql.import_files", **files)["changed"] == 1
    assert salt.run(database.server, "pillar_sql.verify", **files)["different"] == {}


@pytest.mark.parametrize("text", ["a: [", None])
def test_broken_or_missing_data_of_a_formula_keep_their_row(
    salt: Salt, database: scratch.Database, files: Files, text: str | None
) -> None:
    """A second import of worse files leaves the good rows of the first one alone."""
    salt.run(database.server, "pillar_sql.import_files", **files)
    rows = database.run(ROWS)
    for name in ("group_pillar/12_ntp.json", "pillar/web_ntp.json", "group_formulas.json", "formula_order.json"):
        path = Path(files["formula_data"]) / name
        if text is None and "pillar" in name:
            path.unlink()
        elif text is not None:
            path.write_text(text)
    report = salt.answer(database.server, "pillar_sql.import_files", skip_bad=True, **files)
    assert (report["result"]["bad"] > 0, report["retcode"]) == (text is not None,) * 2
    assert database.run(ROWS) == rows


def test_priorities_of_groups_are_verified(salt: Salt, database: scratch.Database, files: Files) -> None:
    """The files have no priorities, so they are read in the order that the table gives."""
    images = Path(files["pillar_data"]) / "images" / "group12"
    images.mkdir()
    (images / "kiwi.sls").write_text("v: other")
    salt.run(database.server, "pillar_sql.import_files", **files)
    database.run("INSERT INTO suseSaltPillarPriority VALUES (3, 5)")
    assert salt.run(database.server, "pillar_sql.verify", **files)["different"] == {}
    (web,) = salt.compile(database.server, [{"postgres": ["SELECT suse_minion_pillars(%s)"]}], ["web"])
    assert web["v"] == "group"


def test_import_gives_up_where_somebody_writes(salt: Salt, database: scratch.Database, files: Files) -> None:
    """It reads and compares beside a writer, and does not wait for it for ever."""
    with closing(psycopg2.connect(database.server.dsn)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE suseSaltPillars IN ROW EXCLUSIVE MODE")
        report = salt.run(database.server, "pillar_sql.import_files", dry_run=True, **files)
        assert (report["imported"], report["added"] > 0) == (False, True)
        answer = failed(salt, database.server, "pillar_sql.import_files", **files)
    assert "try again when that is done" in answer["error"]
    assert database.count() == 0


def test_changed_file_changes_its_row_only(salt: Salt, database: scratch.Database, files: Files) -> None:
    """One file is one row."""
    salt.run(database.server, "pillar_sql.import_files", **files)
    (Path(files["pillar_data"]) / "pillar_web_1_custom_info.yml").write_text("custom_info: {new: 1}")
    verified = failed(salt, database.server, "pillar_sql.verify", **files)["result"]
    assert list(verified["different"]) == ["web_1"]
    report = salt.run(database.server, "pillar_sql.import_files", **files)
    assert (report["added"], report["changed"]) == (0, 1)
    assert states(report)["pillar_web_1_custom_info.yml"] == "changed"
    assert salt.run(database.server, "pillar_sql.verify", **files)["different"] == {}


def test_bad_file_is_named(salt: Salt, database: scratch.Database, files: Files) -> None:
    """A broken file stops the import, or is left out by choice; strangers are told and stop nothing."""
    pillar = Path(files["pillar_data"])
    (pillar / "pillar_web.yml").write_text("a: [")
    (pillar / "pillar_gone.yml").write_text("a: 1")
    refused = failed(salt, database.server, "pillar_sql.import_files", **files)["result"]
    assert states(refused)["pillar_web.yml"].startswith("bad: it cannot be parsed")
    assert states(refused)["pillar_gone.yml"] == "ignored: it belongs to no known minion and category"
    assert (refused["imported"], database.count()) == (False, 0)
    skipped = failed(salt, database.server, "pillar_sql.import_files", skip_bad=True, **files)["result"]
    assert (skipped["imported"], skipped["bad"]) == (True, 1)
    assert database.run("SELECT count(*) FROM suseSaltPillars WHERE category = 'general'") == [(4,)]


def test_export_and_import_again(salt: Salt, database: scratch.Database, files: Files, tmp_path: Path) -> None:
    """What is exported makes the same rows, and the same pillars."""
    salt.run(database.server, "pillar_sql.import_files", **files)
    rows, order = database.run(ROWS), database.run("SELECT * FROM suseSaltFormulaOrder")
    report = salt.run(database.server, "pillar_sql.export", folder=str(tmp_path / "out"))
    assert (report["skipped"], report["categories"]) == ({}, [])
    database.run("DELETE FROM suseSaltPillars")
    database.run("DELETE FROM suseSaltFormulaOrder")
    folders = {name: str(tmp_path / "out" / name) for name in files}
    salt.run(database.server, "pillar_sql.import_files", **folders)
    assert (database.run(ROWS), database.run("SELECT * FROM suseSaltFormulaOrder")) == (rows, order)
    assert salt.run(database.server, "pillar_sql.verify", **files)["different"] == {}
    names = {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert names == {path.relative_to(tmp_path) for name in files for path in Path(files[name]).rglob("*.*")}


def test_export_refuses_a_folder_in_use(salt: Salt, database: scratch.Database, tmp_path: Path) -> None:
    """Nothing is overwritten."""
    (tmp_path / "mine").write_text("x")
    answer = failed(salt, database.server, "pillar_sql.export", folder=str(tmp_path))
    assert "is not empty" in answer["error"]


def test_row_that_no_file_can_be_is_told(salt: Salt, database: scratch.Database, tmp_path: Path) -> None:
    """A category that would leave the folder is not written anywhere."""
    database.run("INSERT INTO suseSaltPillars (category, pillar) VALUES ('../evil', '{}')")
    report = failed(salt, database.server, "pillar_sql.export", folder=str(tmp_path / "out"))["result"]
    assert list(report["skipped"].values()) == ["../evil: this category cannot be part of the name of a file"]
    assert list(tmp_path.rglob("*evil*")) == []


def test_killed_import_leaves_nothing(database: scratch.Database, files: Files, tmp_path: Path) -> None:
    """An import that dies before its end, with rows already sent, changes nothing."""
    # the import waits for this lock after all its reading of files, before it writes into the table
    with closing(psycopg2.connect(database.server.dsn)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE suseSaltFormulaOrder IN ACCESS EXCLUSIVE MODE")
        process = SaltProcess("patched", "harness.saltprocess.tasks.compiler", {"folder": str(tmp_path / "salt")})
        request = ["run", options(database.server, []), "pillar_sql.import_files", files]
        child: subprocess.Popen[str] = process._process
        assert child.stdin is not None
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until(lambda: database.run(waiting), Deadline(60), lambda: "the import does not get to its end")
        child.kill()
        process.close()
    until(lambda: not database.run(waiting), Deadline(30), lambda: "the import's session stays")
    assert database.count() == 0


def test_table_of_uyuni_alone_is_told(server: Postgres, salt: Salt, files: Files, tmp_path: Path) -> None:
    """Without the view the runner says which file to run; it does not address a table that nobody fills."""
    made = scratch.make(server, f"alone_{abs(hash(tmp_path))}")
    forms.install(made.server.dsn, forms.Form("owners", ("uyuni.sql",), (), ()))
    made.run(UYUNI)
    for name, arguments in (("import_files", files), ("export", {"folder": str(tmp_path / "out")})):
        answer = salt.answer(made.server, f"pillar_sql.{name}", **arguments)
        assert "run sql/pillar_uyuni.sql in it" in answer["error"]
