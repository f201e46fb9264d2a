"""
Tests of the runner that moves Uyuni's pillars, with a database that knows the
answers
"""

import multiprocessing
import os
from unittest.mock import MagicMock, patch  # pylint: disable=blacklisted-module

import pytest
import saltext.uyuni_pillar.caller as caller
import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.driver as driver
import saltext.uyuni_pillar.runners.pillar_sql as pillar_sql
import saltext.uyuni_pillar.table as table

import salt.config
import salt.exceptions
import salt.loader
import salt.runner
import salt.utils.yaml

pytest.importorskip("psycopg2")

FOLDERS = ("cachedir", "pki_dir", "sock_dir", "extension_modules")
FOLDERS_OF_FILES = ("pillar_data", "static_data", "formula_data")
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
    monkeypatch.setattr(pillar_sql, "JSON", True)


@pytest.fixture
def database():
    database = Database()
    with patch("saltext.uyuni_pillar.connection.Connection", database):
        yield database
    assert database.closed or not database.executed


@pytest.fixture
def folders(tmp_path):
    folders = {
        name: str(tmp_path / name)
        for name in ("pillar_data", "static_data", "formula_data")
    }
    document.write(f"{folders['pillar_data']}/pillar_web.yml", {"org_id": 1})
    document.write(f"{folders['pillar_data']}/pillar_web_1.yml", {"org_id": 1})
    return folders


def test_import_writes_in_one_transaction(database, folders):
    database.answers["SELECT imported.number"] = [(0, "changed"), (1, "added")]
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
    kinds = [query.partition(" ")[0] for query in database.executed]
    # the first transaction asks for the minions and ends before files are read
    reading, writing = kinds.index("COMMIT"), kinds.index("CREATE")
    assert kinds[0] == kinds[writing - 1] == "BEGIN"
    assert set(kinds[1:reading]) == {"SELECT"}
    assert kinds[writing:] == [
        "CREATE",
        "INSERT",
        "ANALYZE",
        "SET",
        "SELECT",
        "UPDATE",
        "INSERT",
        "COMMIT",
    ]
    assert kinds.count("COMMIT") == database.sessions == 2


def test_failing_import_commits_nothing(database, folders):
    database.answers["SELECT imported.number"] = [(0, "changed"), (1, "added")]
    with patch.object(pillar_sql, "_report", side_effect=KeyError):
        with pytest.raises(KeyError):
            pillar_sql.import_files(**folders)
    begun = len(database.executed) - database.executed[::-1].index(
        "BEGIN ISOLATION LEVEL READ COMMITTED"
    )
    assert "COMMIT" not in database.executed[begun:]


def test_dry_run_locks_and_writes_nothing(database, folders):
    database.answers["SELECT imported.number"] = [(0, "changed"), (1, "added")]
    document.write(f"{folders['formula_data']}/formula_order.json", ["ntp"])
    report = pillar_sql.import_files(dry_run=True, **folders)
    assert (report["imported"], report["changed"], report["added"]) == (False, 1, 1)
    assert database.executed[-1] == "ROLLBACK"
    assert not any("LOCK TABLE" in query for query in database.executed)
    assert not any("suseSaltPillars SET" in query for query in database.executed)
    assert not any("INTO suseSalt" in query for query in database.executed)


class LockNotAvailable(driver.module.OperationalError):
    """
    The error of the server after lock_timeout
    """

    pgcode = "55P03"


def test_lock_is_not_waited_for_for_ever(database, folders):
    with patch.object(table, "store", side_effect=LockNotAvailable):
        with pytest.raises(salt.exceptions.CommandExecutionError, match="try again"):
            pillar_sql.import_files(**folders)
    assert table.LOCK.startswith("SET LOCAL lock_timeout = '10s';")


@pytest.mark.parametrize("category", ["formulas", "general", "formula-ntp"])
def test_reserved_category_is_an_error(database, folders, category):
    with pytest.raises(salt.exceptions.CommandExecutionError, match="name another in"):
        pillar_sql.import_files(categories=f"network,{category}", **folders)


def test_order_of_formulas_that_is_there_is_not_written(database, folders):
    database.answers["SELECT imported.number"] = [(0, "changed"), (1, "added")]
    database.answers["SELECT formula FROM"] = [("ntp",)]
    document.write(f"{folders['formula_data']}/formula_order.json", ["ntp"])
    pillar_sql.import_files(**folders)
    assert not any("DELETE" in query for query in database.executed)


def test_bad_file_refuses_all(database, folders):
    bad = f"{folders['pillar_data']}/pillar_web.yml"
    document.write(bad, {1: 2})
    report = pillar_sql.import_files(**folders)
    assert report["imported"] is False
    assert report["files"][bad] == "bad: the key 1 is not a text"
    assert set(report["files"].values()) == {
        "bad: the key 1 is not a text",
        "refused, as there are bad files",
    }
    # nothing but the question for the minions
    assert database.sessions == 1
    assert report["retcode"] == 1


def test_bad_file_may_be_skipped(database, folders):
    document.write(f"{folders['pillar_data']}/pillar_web.yml", {1: 2})
    database.answers["SELECT imported.number"] = [(0, "unchanged")]
    report = pillar_sql.import_files(skip_bad=True, **folders)
    assert (report["imported"], report["unchanged"], report["bad"]) == (True, 1, 1)
    assert report["retcode"] == 1


def test_import_of_no_folder_is_an_error(folders):
    with pytest.raises(salt.exceptions.CommandExecutionError, match="There is neither"):
        pillar_sql.import_files(pillar_data="/nosuch", formula_data="/nosuch")


def test_order_of_formulas_needs_its_table(database, folders):
    document.write(f"{folders['formula_data']}/formula_order.json", ["ntp"])
    database.answers["SELECT to_regclass"] = [(None,)]
    database.answers["SELECT imported.number"] = [(0, "added"), (1, "added")]
    with pytest.raises(salt.exceptions.CommandExecutionError, match="create it with"):
        pillar_sql.import_files(**folders)
    assert database.executed.count("COMMIT") == 1


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


@pytest.mark.parametrize(
    "pillar", [{"formulas": ["own"]}, {"formulas": ["own", "ntp", "more"]}, {"x": 1}]
)
def test_list_of_formulas_that_no_file_can_hold_is_told(database, tmp_path, pillar):
    database.answers["SELECT id, server_id"] = [
        (1, None, 1, None, "formula-ntp", {"a": 3}),
        (2, 7, None, None, "formula-own", {}),
        (3, 7, None, None, "formulas", pillar),
    ]
    database.answers["SELECT formula FROM"] = [("own",), ("ntp",)]
    report = pillar_sql.export(str(tmp_path / "out"))
    assert report["skipped"] == {
        3: "formulas: it is not what follows from the rows of web and its groups,"
        " which is ['own', 'ntp']"
    }
    assert report["retcode"] == 1


def test_export_refuses_a_folder_in_use(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(salt.exceptions.CommandExecutionError, match="is not empty"):
        pillar_sql.export(str(tmp_path))


def test_export_refuses_a_folder_that_cannot_be_made(database, tmp_path):
    (tmp_path / "mine").write_text("x")
    database.answers["SELECT id, server_id"] = [(1, 7, None, None, "", {"org_id": 1})]
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="name another folder"
    ):
        pillar_sql.export(str(tmp_path / "mine" / "more"))


@pytest.mark.parametrize(
    "sources",
    (None, "x", {}, {"now": "postgres"}, {"now": ["postgres"]}, {"now": {"a": []}}),
)
@pytest.mark.parametrize("side", ("files", "database"))
def test_verify_takes_no_source_but_those_of_the_configuration(
    database, folders, opts, sources, side
):
    opts["pillar_sql"] = {"sources": sources}
    for name in ("now", [{"cmd_json": "id"}], {"cmd_json": "id"}, "SELECT 1"):
        with pytest.raises(
            salt.exceptions.CommandExecutionError, match="add it to sources"
        ):
            pillar_sql.verify(minions="web", **{side: name}, **folders)
    assert database.executed == []


@pytest.mark.parametrize("name", ("query", "files_pillar"))
def test_verify_takes_no_query_and_no_ext_pillar(name):
    with pytest.raises(TypeError):
        pillar_sql.verify(**{name: [{"cmd_json": "id"}]})


def test_verify_refuses_an_ext_pillar_that_is_not_there(database, folders, opts):
    opts["pillar_sql"] = {"sources": {"uyuni": [{"suma_minion": True}]}}
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="no ext_pillar suma_minion here"
    ):
        pillar_sql.verify(files="uyuni", minions="web")


def test_verify_compares_what_the_configuration_names(database, folders, opts):
    opts["pillar_sql"] = {
        **folders,
        "sources": {
            "one": [{"uyuni_files": {"categories": ["one"]}}],
            "two": [{"uyuni_files": {"categories": ["two"]}}],
        },
    }

    def compile_side(side, _):
        return {"c": side.ext_pillar[0]["uyuni_files"]["categories"]}

    with patch.object(pillar_sql.compare.Side, "compile", compile_side):
        report = pillar_sql.verify(files="one", database="two", minions="web")
    assert report["different"] == {
        "web": {"files": {"c": ["one"]}, "database": {"c": ["two"]}}
    }


@pytest.fixture
def remote(monkeypatch):
    """
    Let all be called in a process of the master
    """
    monkeypatch.setattr(multiprocessing, "parent_process", object)


@pytest.mark.parametrize("name", FOLDERS_OF_FILES)
@pytest.mark.parametrize("function", ("import_files", "verify"))
def test_only_salt_run_on_the_master_names_folders(
    database, remote, folders, name, function
):
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match=f"may not name {name}"
    ):
        getattr(pillar_sql, function)(**{name: folders[name]})
    assert database.executed == []


def test_others_use_the_folders_of_the_configuration(database, remote, folders, opts):
    opts["pillar_sql"] = folders
    database.answers["SELECT imported.number"] = [(0, "changed"), (1, "added")]
    report = pillar_sql.import_files()
    assert sorted(report["files"]) == [
        f"{folders['pillar_data']}/pillar_{name}.yml" for name in ("web", "web_1")
    ]


def test_others_export_below_the_folder_of_the_configuration(
    database, remote, tmp_path, opts
):
    database.answers["SELECT id, server_id"] = [
        (1, 7, None, None, "general", {"org_id": 1})
    ]
    with pytest.raises(salt.exceptions.CommandExecutionError, match="set export under"):
        pillar_sql.export(str(tmp_path / "out"))
    place = tmp_path / "exports"
    place.mkdir(mode=0o700)
    (place / "link").symlink_to(tmp_path)
    opts["pillar_sql"] = {"export": str(place)}
    for bad in (tmp_path / "out", place / ".." / "out", place / "link" / "x", "../x"):
        with pytest.raises(salt.exceptions.CommandExecutionError, match="is not below"):
            pillar_sql.export(str(bad))
    assert sorted(os.listdir(tmp_path)) == ["exports", "salt"]
    place.chmod(0o1777)
    with pytest.raises(salt.exceptions.CommandExecutionError, match="chmod go-w"):
        pillar_sql.export("out")
    place.chmod(0o700)
    assert pillar_sql.export("out")["files"] == 1
    assert (place / "out" / "pillar_data" / "pillar_web.yml").is_file()


def test_export_refuses_a_folder_of_others(database, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="Other users may write"
    ):
        pillar_sql.export(str(tmp_path / "out"))


def test_a_category_that_no_file_can_have_does_not_end_the_export(database, tmp_path):
    long = "x" * 300
    database.answers["SELECT id, server_id"] = [
        (1, None, None, None, long, {}),
        (2, None, None, None, "kept", {"a": 1}),
    ]
    report = pillar_sql.export(str(tmp_path / "out"))
    assert (report["files"], list(report["skipped"])) == (1, [1])


def test_a_row_that_is_nested_too_deeply_is_one_sentence(database, tmp_path):
    with patch.object(database, "fetchall", side_effect=RecursionError):
        with pytest.raises(salt.exceptions.CommandExecutionError, match="correct it"):
            pillar_sql.export(str(tmp_path / "out"))


@pytest.mark.parametrize("category", ("../x", "/x", "a/b", "a\0b"))
def test_categories_of_the_caller_are_no_paths(database, folders, category):
    for function in (pillar_sql.import_files, pillar_sql.verify):
        with pytest.raises(
            salt.exceptions.CommandExecutionError, match="name another in"
        ):
            function(categories=[category], **folders)


def sides(files, database):
    """
    Give the pillars of all minions by side
    """

    def compile_side(side, _):
        return files if "uyuni_files" in side.ext_pillar[0] else database

    return patch.object(pillar_sql.compare.Side, "compile", compile_side)


def test_verify_tells_the_differences(database, folders):
    with sides({"a": 1}, {"a": 1}):
        assert pillar_sql.verify(**folders) == {
            "minions": 2,
            "different": {},
            "reordered": 0,
            "bad": {},
            "retcode": 0,
        }
    with sides({"a": 1}, {"a": 2}):
        report = pillar_sql.verify(minions="web", **folders)
    assert report["different"] == {"web": {"files": {"a": 1}, "database": {"a": 2}}}
    assert report["retcode"] == 1


def test_verify_tells_that_keys_are_in_another_order(database, folders):
    with sides({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        report = pillar_sql.verify(**folders)
    assert (report["different"], report["reordered"], report["retcode"]) == ({}, 2, 0)


def test_verify_tells_files_that_neither_side_reads(database, folders):
    path = f"{folders['pillar_data']}/pillar_web_other.yml"
    document.write(path, {"other": 1})
    with sides({"a": 1}, {"a": 1}):
        report = pillar_sql.verify(**folders)
        assert (list(report["bad"]), report["retcode"]) == ([path], 1)
        assert pillar_sql.verify(categories="other", **folders)["retcode"] == 0


def test_verify_reads_the_files_with_the_priorities_of_the_groups(database, folders):
    database.answers["SELECT group_id, priority"] = [(17, 5)]
    found = []

    def compile_side(side, _):
        found.append(side.ext_pillar[0].get("uyuni_files", {}).get("priorities"))
        return {}

    with patch.object(pillar_sql.compare.Side, "compile", compile_side):
        pillar_sql.verify(minions="web", **folders)
    assert found == [{17: 5}, None]


def test_unreachable_database_is_an_error(folders):
    with patch(
        "psycopg2.connect", side_effect=driver.module.OperationalError("x\nHINT")
    ):
        with pytest.raises(
            salt.exceptions.CommandExecutionError,
            match="^PostgreSQL: x; see the option",
        ):
            pillar_sql.import_files(**folders)


def test_verify_says_what_the_database_needs(database, folders, monkeypatch):
    monkeypatch.setattr(pillar_sql, "JSON", False)
    with pytest.raises(salt.exceptions.CommandExecutionError, match="without as_json"):
        pillar_sql.verify(minions="web", **folders)


def test_salt_run_tells_what_is_refused(opts, tmp_path):
    """
    One sentence, and the exit code 1
    """
    master_opts = salt.config.master_config(None)
    master_opts.update({name: opts[name] for name in FOLDERS})
    os.makedirs(os.path.join(master_opts["cachedir"], "proc"))
    (tmp_path / "mine").write_text("x")
    with (
        patch("salt.utils.event.get_event", MagicMock()),
        patch("salt.utils.job.store_job"),
        patch("salt.client.mixins.SyncClientMixin.mminion", None),
    ):
        client = salt.runner.RunnerClient(master_opts)
        ret = client.cmd(
            "pillar_sql.export", [str(tmp_path)], print_event=False, full_return=True
        )
    if hasattr(client, "destroy"):
        # since 3008
        client.destroy()
    # a Salt without the topic runner-errors adds a traceback
    assert f"{tmp_path} is not empty: " in ret["return"]
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
    load = {"id": "web", "fun": "pillar_sql.verify", "arg": [], "doc": False}
    functions = salt.loader.runner({**master_opts, **load})
    assert not [name for name in functions if name.startswith("pillar_sql.")]
    assert caller.REFUSED in functions.missing_fun_string("pillar_sql.verify")
    # salt-run, Thorium, and a caller whom the master has authenticated
    command = {**master_opts, **load, "async": False, "__cli": "salt-run"}
    thorium = {**master_opts, "fun": load["fun"], "kwarg": {}, "async": True}
    for found in (command, thorium, master_opts):
        assert "pillar_sql.verify" in salt.loader.runner(found)
