"""
Tests of the runner that imports Uyuni's pillars, with a database that knows the
answers
"""

import os
from unittest.mock import MagicMock, patch  # pylint: disable=blacklisted-module

import psycopg2
import pytest
import saltext.uyuni_pillar.runners.pillar_sql as pillar_sql

import salt.config
import salt.exceptions
import salt.loader
import salt.runner
import salt.utils.json

pytest.importorskip("psycopg2")

FOLDERS = ("cachedir", "pki_dir", "sock_dir", "extension_modules")
FOLDERS_OF_FILES = ("pillar_data", "static_data", "formula_data")
FLEET = {
    "SELECT m.minion_id": [("web", 7, [1]), ("web_1", 8, [])],
    "SELECT id FROM rhnServerGroup": [(1,), (2,)],
    "SELECT id FROM web_customer": [(1,)],
    "WITH changed": [(1,)],
    "WITH added": [(1,)],
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
        self.sessions = 0

    def __call__(self, **params):
        self.sessions += 1
        return self

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


@pytest.fixture(autouse=True)
def loaded(opts, monkeypatch):
    monkeypatch.setattr(pillar_sql, "__opts__", opts, raising=False)


@pytest.fixture
def database():
    database = Database()
    with patch("saltext.uyuni_pillar.connection.Connection", database):
        yield database
    assert database.closed or not database.executed


@pytest.fixture
def write(opts, tmp_path):
    """
    Write a file below the folders of the configuration
    """
    opts["pillar_sql"] = {name: str(tmp_path / name) for name in FOLDERS_OF_FILES}

    def write(path, value):
        path = tmp_path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(salt.utils.json.dumps(value))
        return str(path)

    write("pillar_data/pillar_web.yml", {"org_id": 1})
    write("pillar_data/pillar_web_1.yml", {"org_id": 1})
    return write


def test_import_writes_in_one_transaction(database, write):
    assert pillar_sql.import_files() == {
        "added": 1,
        "changed": 1,
        "unchanged": 0,
        "bad": {},
        "ignored": [],
        "imported": True,
        "retcode": 0,
    }
    kinds = [query.partition(" ")[0] for query in database.executed]
    # the first transaction asks for the minions and ends before files are read
    reading = ["BEGIN", "SELECT", "SELECT", "SELECT", "ROLLBACK"]
    writing = ["BEGIN", "CREATE", "INSERT", "SET", "WITH", "WITH", "COMMIT"]
    assert (kinds, database.sessions) == (reading + writing, 2)


def test_failing_import_commits_nothing(database, write):
    database.answers["WITH added"] = []
    with pytest.raises(IndexError):
        pillar_sql.import_files()
    assert "COMMIT" not in database.executed


def test_dry_run_is_taken_back(database, write):
    report = pillar_sql.import_files(dry_run=True)
    assert (report["imported"], report["changed"], report["added"]) == (False, 1, 1)
    assert database.executed[-1] == "ROLLBACK"
    assert "COMMIT" not in database.executed


def test_bad_file_refuses_all(database, write):
    path = write("pillar_data/pillar_web.yml", [1])
    other = write("pillar_data/pillar_gone.yml", {"org_id": 1})
    report = pillar_sql.import_files()
    assert (report["imported"], report["retcode"]) == (False, 1)
    assert (list(report["bad"]), report["ignored"]) == ([path], [other])
    assert not any("INSERT" in query for query in database.executed)


def test_import_of_no_folder_is_an_error(opts):
    opts["pillar_sql"] = {"pillar_data": "/nope", "formula_data": "/nope"}
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="neither /nope nor /nope"
    ):
        pillar_sql.import_files()


@pytest.mark.parametrize("name", (*FOLDERS_OF_FILES, "query", "files_pillar"))
def test_a_call_names_no_folder_and_no_source(name):
    for function in (pillar_sql.import_files, pillar_sql.compare_pillars):
        with pytest.raises(TypeError):
            function(**{name: "/etc"})


def test_compare_refuses_an_ext_pillar_that_is_not_there(database):
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="no ext_pillar suma_minion here"
    ):
        pillar_sql.compare_pillars(minions="web")


def test_compare_finds_each_difference(database, opts):
    opts["ext_pillar"] = [{"suma_minion": True}, {"uyuni": {"lenient": True}}]
    asked = {}

    def compiler(name, options):
        asked[name] = options
        return lambda minion: {"c": name if minion == "web" else 1}

    with patch.object(pillar_sql, "_compiler", compiler):
        report = pillar_sql.compare_pillars()
        same = pillar_sql.compare_pillars(minions="web_1")
        with pytest.raises(
            salt.exceptions.CommandExecutionError, match="knows no minion wbe"
        ):
            pillar_sql.compare_pillars(minions="web,wbe")
    assert report["different"] == {
        "web": {"suma_minion": {"c": "suma_minion"}, "uyuni": {"c": "uyuni"}}
    }
    assert (report["minions"], report["retcode"]) == (2, 1)
    assert (same["minions"], same["different"], same["retcode"]) == (1, {}, 0)
    assert asked == {"suma_minion": True, "uyuni": {"lenient": True}}


def test_unreachable_database_is_an_error(write):
    with patch("psycopg2.connect", side_effect=psycopg2.OperationalError("x\nHINT")):
        with pytest.raises(
            salt.exceptions.CommandExecutionError,
            match="^PostgreSQL: x; see the option",
        ):
            pillar_sql.import_files()


def test_salt_run_tells_what_is_refused(opts):
    """
    One sentence, and the exit code 1
    """
    master_opts = salt.config.master_config(None)
    master_opts.update({name: opts[name] for name in FOLDERS})
    master_opts["pillar_sql"] = {"pillar_data": "/nope", "formula_data": "/nope"}
    os.makedirs(os.path.join(master_opts["cachedir"], "proc"))
    with (
        patch("salt.utils.event.get_event", MagicMock()),
        patch("salt.utils.job.store_job"),
        patch("salt.client.mixins.SyncClientMixin.mminion", None),
    ):
        client = salt.runner.RunnerClient(master_opts)
        ret = client.cmd("pillar_sql.import_files", print_event=False, full_return=True)
    if hasattr(client, "destroy"):
        # since 3008
        client.destroy()
    # a Salt without the topic runner-errors adds a traceback
    assert "There is neither /nope nor /nope: " in ret["return"]
    assert (ret["success"], ret["retcode"]) == (False, 1)


@pytest.mark.parametrize("more", ({}, {"async": True}))
def test_a_minion_calls_nothing(opts, more):
    """
    The master runs with its own rights what peer_run lets a minion call, whatever its
    configuration has besides
    """
    master_opts = salt.config.master_config(None)
    master_opts.update(more, __cli="salt-master")
    master_opts.update({name: opts[name] for name in FOLDERS})
    load = {"id": "web", "fun": "pillar_sql.compare", "arg": [], "doc": False}
    functions = salt.loader.runner({**master_opts, **load})
    assert not [name for name in functions if name.startswith("pillar_sql.")]
    assert pillar_sql.REFUSED in functions.missing_fun_string("pillar_sql.compare")
    # salt-run, Thorium, and a caller whom the master has authenticated
    command = {**master_opts, **load, "async": False, "__cli": "salt-run"}
    thorium = {**master_opts, "fun": load["fun"], "kwarg": {}, "async": True}
    for found in (command, thorium, master_opts):
        assert "pillar_sql.compare" in salt.loader.runner(found)
