"""
Tests of the runner that moves Uyuni's pillars, with a database that knows the
answers
"""

import pytest

import salt.exceptions
import salt.runners.pillar_sql as pillar_sql
import salt.utils.uyuni_pillar as uyuni
import salt.utils.yaml
from tests.support.mock import patch

pytest.importorskip("psycopg2")

FLEET = {
    "SELECT server_id, server_group_id": [(7, 1)],
    "SELECT server_id, minion_id": [(7, "web"), (8, "web_1")],
    "SELECT id FROM rhnServerGroup": [(1,), (2,)],
    "SELECT id FROM web_customer": [(1,)],
    "SELECT to_regclass": [("susesaltformulaorder",)],
}


class Database:
    """
    Answers queries by how they begin, and remembers them
    """

    def __init__(self):
        self.answers = dict(FLEET)
        self.executed = []
        self.values = []
        self.closed = False

    def execute(self, query, values=None):
        self.executed.append(" ".join(query.split()))
        self.values.append(values)

    def fetchall(self):
        for start, rows in self.answers.items():
            if self.executed[-1].startswith(start):
                return rows
        return []

    def close(self):
        self.closed = True


@pytest.fixture
def configure_loader_modules(minion_opts):
    return {pillar_sql: {"__opts__": minion_opts}}


@pytest.fixture
def database():
    database = Database()
    with patch("salt.utils.postgres.Connection", return_value=database):
        yield database
    assert database.closed or not database.executed


@pytest.fixture
def folders(tmp_path):
    folders = {
        name: str(tmp_path / name)
        for name in ("pillar_data", "static_data", "formula_data")
    }
    uyuni.write(f"{folders['pillar_data']}/pillar_web.yml", {"org_id": 1})
    uyuni.write(f"{folders['pillar_data']}/pillar_web_1.yml", {"org_id": 1})
    return folders


def test_import_is_one_transaction(database, folders):
    database.answers["UPDATE suseSaltPillars"] = [(0,)]
    database.answers["INSERT INTO suseSaltPillars"] = [(8, None, None, "general")]
    report = pillar_sql.import_files(**folders)
    assert list(report.pop("files").values()) == ["changed", "added"]
    assert report == {
        "added": 1,
        "changed": 1,
        "unchanged": 0,
        "bad": 0,
        "imported": True,
        "retcode": 0,
    }
    assert database.executed[0].startswith("BEGIN")
    assert database.executed[-1] == "COMMIT"


def test_dry_run_rolls_back(database, folders):
    assert pillar_sql.import_files(dry_run=True, **folders)["imported"] is False
    assert database.executed[-1] == "ROLLBACK"


def test_bad_file_refuses_all(database, folders):
    bad = f"{folders['pillar_data']}/pillar_web.yml"
    uyuni.write(bad, {1: 2})
    report = pillar_sql.import_files(**folders)
    assert report["imported"] is False
    assert report["files"][bad] == "bad: the key 1 is not a text"
    assert not any("INSERT" in query for query in database.executed)
    assert report["retcode"] == 1


def test_bad_file_may_be_skipped(database, folders):
    uyuni.write(f"{folders['pillar_data']}/pillar_web.yml", {1: 2})
    report = pillar_sql.import_files(skip_bad=True, **folders)
    assert (report["imported"], report["unchanged"], report["bad"]) == (True, 1, 1)
    assert report["retcode"] == 1


def test_import_of_no_folder_is_an_error(folders):
    with pytest.raises(salt.exceptions.CommandExecutionError, match="There is neither"):
        pillar_sql.import_files(pillar_data="/nosuch", formula_data="/nosuch")


def test_order_of_formulas_needs_its_table(database, folders):
    uyuni.write(f"{folders['formula_data']}/formula_order.json", ["ntp"])
    database.answers["SELECT to_regclass"] = [(None,)]
    with pytest.raises(salt.exceptions.CommandExecutionError, match="create it with"):
        pillar_sql.import_files(**folders)
    assert "COMMIT" not in database.executed


def test_export_writes_what_import_reads(database, tmp_path):
    database.answers["SELECT id, server_id"] = [
        (1, None, None, None, "gpgkeys", {"a": 1}),
        (2, None, None, 1, "kiwi", {"a": 2}),
        (3, None, 1, None, "formula-ntp", {"a": 3}),
        (4, None, 1, None, "formula-bare", {}),
        (5, 7, None, None, "general", {"a": 5}),
        (6, 7, None, None, "net_work", {"a": 6}),
        # data for the formula of the group
        (7, 7, None, None, "formula-ntp", {"a": 7}),
        (8, 7, None, None, "formula-own", {}),
        (9, 7, None, None, "formulas", {"formulas": ["ntp", "bare", "own"]}),
        (10, None, None, None, "../evil", {}),
    ]
    database.answers["SELECT formula FROM"] = [("ntp",), ("bare",), ("own",)]
    folder = tmp_path / "out"
    report = pillar_sql.export(str(folder))
    assert report == {
        "files": 9,
        "categories": ["net_work"],
        "skipped": {10: "../evil: this category cannot be part of the name of a file"},
        "retcode": 1,
    }
    found = {
        str(path.relative_to(folder)): salt.utils.yaml.safe_load(
            path.read_text(encoding="utf-8")
        )
        for path in folder.rglob("*.*")
    }
    assert found == {
        "static_data/gpgkeys.yml": {"a": 1},
        "pillar_data/images/org1/kiwi.sls": {"a": 2},
        "pillar_data/pillar_web.yml": {"a": 5},
        "pillar_data/pillar_web_net_work.yml": {"a": 6},
        "formula_data/group_pillar/1_ntp.json": {"a": 3},
        "formula_data/pillar/web_ntp.json": {"a": 7},
        "formula_data/group_formulas.json": {"1": ["ntp", "bare"]},
        "formula_data/minion_formulas.json": {"web": ["own"]},
        "formula_data/formula_order.json": ["ntp", "bare", "own"],
    }


def test_export_refuses_a_folder_in_use(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(salt.exceptions.CommandExecutionError, match="is not empty"):
        pillar_sql.export(str(tmp_path))


@pytest.mark.parametrize(
    "files,database_,expected",
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}, {"a": {"b": 2}}),
        ({"a": 1}, {"a": 1.0}, "a value of another type"),
        ({"a": 1}, {"a": True}, "a value of another type"),
        ({"a": [1]}, {"a": [True]}, "a value of another type"),
    ],
)
def test_verify_tells_the_differences(folders, files, database_, expected):
    pillars = {"files": files, "database": database_}

    def compile_side(side, _):
        return pillars["files" if "uyuni_files" in side.ext_pillar[0] else "database"]

    with patch.object(pillar_sql.Side, "compile", compile_side):
        report = pillar_sql.verify(minions="web", **folders)
    assert report["minions"] == 1
    if expected is None:
        assert (report["different"], report["retcode"]) == ({}, 0)
    else:
        assert report["different"]["web"]["database"] == expected
        assert report["retcode"] == 1


def test_error_on_both_sides_is_a_difference(folders):
    with patch.object(pillar_sql.Side, "compile", return_value={"_errors": ["x"]}):
        report = pillar_sql.verify(minions="web", **folders)
    assert report["different"] == {"web": {"both": ["x"]}}
    assert report["retcode"] == 1


def test_unreachable_database_is_an_error(folders):
    with patch(
        "psycopg2.connect", side_effect=pillar_sql.psycopg2.OperationalError("x")
    ):
        with pytest.raises(
            salt.exceptions.CommandExecutionError, match="PostgreSQL: x"
        ):
            pillar_sql.import_files(**folders)
