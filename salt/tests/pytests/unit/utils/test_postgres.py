"""
Tests of kept connections to PostgreSQL, with a server that knows as much of
its protocol as one query needs
"""

import operator
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import salt.exceptions
import salt.utils.postgres
from salt.utils.postgres import connection, cursor, driver
from tests.support.mock import patch
from tests.support.pytest.postgres import READY, Server, error, message, result

DRIVERS = ("psycopg2", "psycopg")

PASSWORD = "hunter2"

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

# pylint: disable=protected-access
KEPT = salt.utils.postgres._kept
FAILED = salt.utils.postgres._failed


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True, params=DRIVERS)
def database(request, monkeypatch):
    """
    The package of the driver
    """
    package = pytest.importorskip(request.param)
    module = pytest.importorskip(f"salt.utils.postgres.{request.param}_driver")
    monkeypatch.setattr(driver, "module", module)
    return package


@pytest.fixture(autouse=True)
def no_kept_connections():
    yield
    for connection in KEPT.values():
        connection.close()
    KEPT.clear()
    FAILED.clear()


@pytest.fixture
def params(server):
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "user": "salt",
        "password": PASSWORD,
        "dbname": "salt",
        "connect_timeout": 5,
    }


def ask(params, *queries):
    """
    Return the rows of the last query on the connection of this process
    """
    with salt.utils.postgres.get_cursor(**params) as cursor:
        for query in queries or ["SELECT 1"]:
            cursor.execute(query)
        return cursor.fetchall()


def kept():
    """
    Return the connection that is kept
    """
    assert len(KEPT) == 1
    return next(iter(KEPT.values()))


def end_and_wait(server):
    """
    End all sessions and wait until this process has heard of it
    """
    server.end_sessions()
    connection = kept()
    end = time.monotonic() + 10
    while connection.usable():
        assert time.monotonic() < end
        time.sleep(0.01)


def status(name, value):
    """
    Return what a server says when a setting has changed
    """
    return message(b"S", f"{name}\0{value}\0".encode())


def test_one_connection_serves_many_queries(server, params):
    assert [ask(params) for _ in range(50)] == [[({"a": 1},)]] * 50
    assert len(server.startups) == 1
    assert server.messages == [f"{BEGIN}; SELECT 1"] * 50
    # each is the end of a use, in a message of its own
    assert server.resets == [connection.RESET_PLAIN] * 50


@pytest.mark.parametrize(
    "query,is_plain",
    [
        ("SELECT 1", True),
        (" with a AS (SELECT 1)\nSELECT * FROM a ", True),
        ("SELECT 1; COMMIT", False),
        ("commit and chain", False),
        ("CALL p()", False),
        ("SELECTED", False),
        ("/* SELECT */ COMMIT AND CHAIN", False),
        ("VALUES (1)", False),
    ],
)
def test_statement_that_may_end_the_transaction_needs_a_whole_reset(
    server, params, query, is_plain
):
    module = connection
    whole = module.RESET_PLAIN if is_plain else module.RESET
    ask(params, query)
    ask(params, "SELECT 1", query, "SELECT 1")
    ask(params)
    assert server.resets == [whole, whole, module.RESET_PLAIN]


def test_what_is_committed_needs_a_whole_reset(server, params):
    server.answers["COMMIT"] = message(b"C", b"COMMIT\0") + READY
    ask({**params, "writes": "commit"})
    assert server.resets == [connection.RESET]


@pytest.mark.parametrize(
    "name,args",
    [
        ("callproc", ["f"]),
        ("executemany", ["SELECT %s", [(1,)]]),
    ],
)
def test_all_that_asks_is_in_the_transaction(server, params, name, args):
    with salt.utils.postgres.get_cursor(**params) as cursor:
        if not hasattr(cursor, name):
            pytest.skip(f"{driver.module.NAME} has no {name}")
        getattr(cursor, name)(*args)
        assert cursor.fetchall() == [({"a": 1},)]
    assert server.messages[0].startswith(BEGIN)
    assert len(server.resets) == 1


def test_queries_of_a_use_share_a_transaction(server, params):
    ask(params, "SELECT 1", "SELECT 2")
    assert server.messages == [f"{BEGIN}; SELECT 1", "SELECT 2"]
    assert len(server.resets) == 1


def test_cursor_is_one_of_the_driver(server, params, database):
    sql = pytest.importorskip(f"{database.__name__}.sql")
    kinds = {"psycopg2": "extensions.cursor", "psycopg": "Cursor"}
    with salt.utils.postgres.get_cursor(**params) as cursor:
        kind = operator.attrgetter(kinds[database.__name__])(database)
        assert isinstance(cursor, kind)
        cursor.execute(b"SELECT 1")
        assert (cursor.rowcount, cursor.fetchone()) == (1, ({"a": 1},))
        cursor.execute(sql.SQL("SELECT {}").format(sql.Literal("x")))
        assert list(cursor) == [({"a": 1},)]
    assert server.messages[-1] == "SELECT 'x'"


def test_values_are_quoted(server, params):
    with salt.utils.postgres.get_cursor(**params) as cursor:
        cursor.execute("SELECT %s, %s::int, 10 %% 3", ("\\' || 'x", 5))
    quoted = server.messages[-1].partition("; SELECT ")[2].strip()
    assert re.fullmatch(r"(E'\\\\|'\\)'' \|\| ''x', 5::int, 10 % 3", quoted)


@pytest.mark.parametrize("missing", [[], ["psycopg2"], list(DRIVERS)])
def test_driver_is_the_one_that_is_installed(missing):
    program = (
        "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:]));"
        "from salt.utils.postgres import driver; import salt.pillar.postgres as pillar;"
        "print(driver.module and driver.module.NAME, pillar.__virtual__())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *missing],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    left = [name for name in DRIVERS if name not in missing]
    expected = f"{left[0]} True" if left else "None False"
    assert done.stdout.strip() == expected


def test_driver_that_is_too_old_is_none(tmp_path):
    (tmp_path / "psycopg").mkdir()
    (tmp_path / "psycopg" / "pq.py").touch()
    (tmp_path / "psycopg" / "types").mkdir()
    (tmp_path / "psycopg" / "types" / "json.py").write_text("JsonLoader = None\n")
    (tmp_path / "psycopg" / "__init__.py").write_text("__version__ = '3.0.18'\n")
    program = (
        "import sys; sys.modules['psycopg2'] = None;"
        "from salt.utils.postgres import driver; import salt.pillar.postgres as pillar;"
        "print(driver.module, pillar.__virtual__())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        },
    )
    assert done.stdout.strip() == "None False"


@pytest.mark.parametrize(
    "writes,mode,last",
    [
        ("refuse", "READ ONLY", "SELECT 1"),
        ("rollback", "READ WRITE", "SELECT 1"),
        ("commit", "READ WRITE", "COMMIT"),
    ],
)
def test_what_queries_write_is_kept_only_if_asked(server, params, writes, mode, last):
    server.answers["COMMIT"] = message(b"C", b"COMMIT\0") + READY
    ask({**params, "writes": writes})
    assert f"READ {mode.split()[1]}; SELECT 1" in server.messages[0]
    assert server.queries[-1] == last


def test_nothing_is_committed_after_an_error_of_the_caller(server, params):
    with pytest.raises(TypeError):
        with salt.utils.postgres.get_cursor(writes="commit", **params) as cursor:
            cursor.execute("SELECT 1")
            raise TypeError
    assert server.queries == ["SELECT 1"]
    assert len(server.resets) == 1
    assert ask({**params, "writes": "refuse"}) == [({"a": 1},)]


def test_commit_that_fails_is_an_error(server, params, database):
    server.answers["COMMIT"] = error("23505", "duplicate key") + READY
    with pytest.raises(database.IntegrityError):
        ask({**params, "writes": "commit"})
    # what it has prepared or locked is not there for the next one
    assert server.resets == [connection.RESET]


def test_query_that_ends_the_transaction_is_an_error(server, params):
    server.answers["COMMIT"] = message(b"C", b"COMMIT\0") + message(b"Z", b"I")
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="ended the transaction"
    ):
        ask(params, "SELECT 1", "COMMIT")
    assert not KEPT


@pytest.mark.parametrize("name", connection.FORMAT)
def test_query_that_changes_how_values_are_written_is_an_error(server, params, name):
    server.statuses["IntervalStyle"] = "postgres"
    server.answers["change"] = status(name, "other") + result(b'{"a": 1}')
    with pytest.raises(salt.exceptions.CommandExecutionError, match="garbled"):
        ask(params, "change")
    assert not KEPT


@pytest.mark.parametrize("name", ["TimeZone", "session_authorization", "search_path"])
def test_session_that_is_not_what_it_was_is_not_used_again(server, params, name):
    # what the reset does not take back
    server.answers["change"] = status(name, "other") + result(b'{"a": 1}')
    ask(params, "change")
    ask(params)
    assert len(server.startups) == 2


def test_application_name_stays_behind_a_pooler(server, params):
    # RESET ALL goes behind what the pooler has set for the client
    server.statuses["application_name"] = "salt-master"
    server.reset = message(b"C", b"DISCARD\0") + status("application_name", "") + READY
    again = "SELECT pg_catalog.set_config('application_name', 'salt-master', false)"
    server.answers[again] = status("application_name", "salt-master") + result(b"1")
    ask(params, "change")
    assert server.messages[-1] == again
    server.reset = message(b"C", b"DISCARD\0") + READY
    ask(params, "change")
    assert len(server.startups) == 1
    # in the same message from then on
    assert server.resets[-1].endswith(again)


def test_reset_goes_on_where_a_function_is_revoked(server, params):
    server.reset = error("42501", "permission denied") + READY
    server.answers["DISCARD ALL"] = message(b"C", b"DISCARD ALL\0") + READY
    for _ in range(2):
        assert ask(params) == [({"a": 1},)]
    assert server.queries.count("DISCARD ALL") == 2
    assert len(server.startups) == 1


def test_connection_that_cannot_be_reset_goes(server, params):
    server.reset = server.answers["DISCARD ALL"] = error("XX000", "no") + READY
    for _ in range(2):
        assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_other_parameters_are_another_connection(server, params):
    ask(params)
    ask({**params, "dbname": "other"})
    ask(params)
    assert [startup["database"] for startup in server.startups] == ["salt", "other"]


def test_parameters_reach_the_server(server, params):
    ask({**params, "application_name": "salt-master", "options": "-c geqo=off"})
    assert server.startups[0]["application_name"] == "salt-master"
    assert server.startups[0]["options"] == "-c geqo=off"


def test_statement_timeout_is_sent_with_the_query(server, params, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c search_path=pillars")
    ask({**params, "statement_timeout": 1.5})
    assert server.before == [f"{BEGIN}; SET LOCAL statement_timeout = 1500"]
    # those of the administrator; PgBouncer refuses them
    assert server.startups[0]["options"] == "-c search_path=pillars"


@pytest.mark.parametrize("lower,is_set", [(b"0", True), (b"0.5", False), (b"2", True)])
def test_lower_limit_of_the_server_stays(server, params, lower, is_set):
    server.limit = lower
    ask({**params, "statement_timeout": 1})
    assert ("statement_timeout" in server.before[0]) is is_set


def test_no_statement_timeout_sets_none(server, params):
    ask({**params, "statement_timeout": 0})
    assert server.before == [BEGIN]


def test_use_without_a_query_sends_nothing(server, params):
    with salt.utils.postgres.get_cursor(**params):
        pass
    assert (server.messages, server.resets) == ([], [])
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 1


def test_second_host_is_asked_when_the_first_never_answers(server, params):
    deaf = Server()
    deaf.greet = False
    params.update(
        host="127.0.0.1,127.0.0.1",
        port=f"{deaf.port},{server.port}",
        # the least that libpq takes
        connect_timeout=2,
    )
    try:
        assert ask(params) == [({"a": 1},)]
    finally:
        deaf.close()


def test_connection_that_the_server_closed_is_replaced(server, params):
    ask(params)
    end_and_wait(server)
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2
    assert server.queries == ["SELECT 1"] * 2


def test_connection_that_was_idle_for_long_is_replaced(server, params, monkeypatch):
    ask(params)
    monkeypatch.setattr(connection, "KEEP_IDLE", -1)
    ask(params)
    assert len(server.startups) == 2


def test_connection_has_a_greatest_age(server, params):
    with patch("random.uniform", return_value=1):
        ask({**params, "lifetime": 10})
        now = time.monotonic()
        with patch("time.monotonic", return_value=now + 9):
            assert kept().usable()
        with patch("time.monotonic", return_value=now + 11):
            assert not kept().usable()


def test_no_lifetime_is_a_connection_for_each_use(server, params):
    for _ in range(3):
        ask({**params, "lifetime": 0})
    assert len(server.startups) == 3


def test_ages_of_processes_differ(server, params):
    ends = set()
    for _ in range(5):
        ask(params)
        ends.add(kept()._end - time.monotonic())
        kept().close()
        KEPT.clear()
    assert max(ends) - min(ends) > 0.1
    assert 440 < min(ends) < max(ends) <= 600


@pytest.mark.parametrize("query", ["large", "text"])
def test_connection_that_had_a_large_value_is_not_kept(
    server, params, monkeypatch, query
):
    monkeypatch.setattr(cursor, "LARGE", 20)
    ask(params)
    assert KEPT
    server.answers["large"] = result(b'{"a": "%s"}' % (b"x" * 20))
    server.answers["text"] = result(b"x" * 21, 25)
    ask(params, query)
    assert not KEPT


def test_error_of_a_query_leaves_the_connection(server, params, database):
    server.answers["broken"] = error("42P01", "relation does not exist") + READY
    with pytest.raises(database.ProgrammingError, match="relation does not exist"):
        ask(params, "broken")
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 1
    assert len(server.resets) == 2


def test_error_of_the_caller_leaves_the_connection(server, params):
    with pytest.raises(TypeError):
        with salt.utils.postgres.get_cursor(**params) as cursor:
            cursor.execute("SELECT 1")
            raise TypeError
    ask(params)
    assert len(server.startups) == 1


def test_connection_that_breaks_in_a_query_is_an_error(server, params, database):
    ask(params)
    server.answers["kill"] = lambda session: session.shutdown(socket.SHUT_RDWR)
    with pytest.raises(database.OperationalError):
        ask(params, "kill")
    # not tried again, as it may have been the reason
    assert server.queries == ["SELECT 1", "kill"]
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_server_that_accepts_and_never_answers(server, params, database):
    server.greet = False
    with pytest.raises(database.OperationalError, match="timeout expired"):
        ask({**params, "connect_timeout": 2})
    assert KEPT == {}


def test_server_that_does_not_answer_is_left_alone_for_a_while(
    server, params, database
):
    server.greet = False
    for _ in range(5):
        with pytest.raises(database.OperationalError, match="timeout expired"):
            ask({**params, "connect_timeout": 2})
    assert len(server.sessions) == 1
    # for as long as the try took
    server.greet = True
    until, _ = next(iter(FAILED.values()))
    assert 1 < until - time.monotonic() < 4
    with patch("time.monotonic", return_value=until + 1):
        assert ask({**params, "connect_timeout": 2}) == [({"a": 1},)]
    assert not FAILED


def test_query_that_is_never_answered(server, params, monkeypatch, database):
    monkeypatch.setattr(connection, "LATE", 0.1)
    params.update(statement_timeout=0.1)
    ask(params)
    server.answers["hang"] = lambda session: None
    with pytest.raises(database.OperationalError, match="no answer .* 0.2 seconds"):
        ask(params, "hang")
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_first_question_that_is_never_answered(server, params, monkeypatch, database):
    # a pooler takes connections also for a server that does not answer
    monkeypatch.setattr(connection, "LATE", 0.1)
    server.limit = lambda session: None
    with pytest.raises(database.OperationalError, match="no answer .* 0.2 seconds"):
        ask({**params, "statement_timeout": 0.1})
    assert not KEPT


def test_reset_that_is_never_answered(server, params, monkeypatch):
    monkeypatch.setattr(connection, "LATE", 0.1)
    server.reset = lambda session: None
    assert ask(params) == [({"a": 1},)]
    assert not KEPT


def test_kept_connections_may_change_while_they_are_looked_through(server, params):
    class Pid(int):
        """
        The id of a process that is compared as another thread uses a connection
        """

        def __ne__(self, other):
            KEPT.pop((0, 0), None)
            return super().__ne__(other)

    KEPT.update({(Pid(0), 1): None, (0, 0): None})
    ask(params)
    assert len(KEPT) == 1


def test_connection_in_use_is_not_shared(server, params):
    with salt.utils.postgres.get_cursor(**params) as outer:
        with salt.utils.postgres.get_cursor(**params) as inner:
            assert outer.connection is not inner.connection
    # one of the two is kept
    assert (outer.connection.closed, inner.connection.closed) == (1, 0)
    assert kept() is inner.owner


@pytest.mark.skip_unless_on_linux
def test_forked_process_has_a_connection_of_its_own(server, params):
    params["statement_timeout"] = 60
    ask(params)
    child = os.fork()
    if not child:
        # exits past the tests' own clean-up
        code = 1
        try:
            code = 0 if ask(params) == [({"a": 1},)] else 2
            KEPT.clear()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(server.startups) == 2
    # and leaves that of its parent alone
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


@pytest.mark.skip_unless_on_linux
def test_connection_in_use_survives_a_fork(server, params):
    with salt.utils.postgres.get_cursor(**params) as cursor:
        child = os.fork()
        if not child:
            cursor.owner.close()
            os._exit(0)
        os.waitpid(child, 0)
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [({"a": 1},)]
    assert len(server.startups) == 1


@pytest.mark.skip_unless_on_linux
def test_fork_while_the_watch_has_its_lock(server, params):
    params["statement_timeout"] = 60
    ask(params)
    # as its thread does twice a second
    with connection._watch._lock:
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(20)
                code = 0 if ask(params) == [({"a": 1},)] else 2
                KEPT.clear()
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert ask(params) == [({"a": 1},)]


@pytest.mark.parametrize("name", ["copy_from", "copy_to", "copy", "stream"])
def test_nothing_asks_outside_of_the_transaction(server, params, name):
    with salt.utils.postgres.get_cursor(**params) as cursor:
        assert getattr(cursor, name, None) is None


def test_password_is_in_no_error(server, params, database):
    server.answers["broken"] = error("42601", "syntax error") + READY
    messages = []
    for change in ({}, {"port": 1}, {"port": "none"}, {"sslmode": "nosuch"}):
        with pytest.raises(database.Error) as caught:
            ask({**params, **change}, "broken")
        messages.append(str(caught.value))
    assert len(messages) == 4
    assert PASSWORD not in "".join(messages)


def test_defaults(monkeypatch):
    for name in ("PGSERVICE", "PGPASSFILE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    params = salt.utils.postgres.get_params({})
    assert {
        **{"host": "localhost", "port": 5432, "user": "salt", "password": "salt"},
        **{"dbname": "salt", "connect_timeout": 10, "statement_timeout": 60},
        **{"lifetime": 600, "writes": "refuse", "fallback_application_name": "salt"},
    }.items() <= params.items()


def test_all_other_options_are_those_of_libpq(database):
    wanted = {
        **{"host": None, "target_session_attrs": "read-write", "sslcrl": "/crl.pem"},
        **{"options": "-c geqo=off", "keepalives_idle": 5, "sslsni": True},
    }
    params = salt.utils.postgres.get_params(
        {"postgres": {**wanted, "pass": "p", "db": "d"}}
    )
    # one that is set to null is left to libpq
    assert "host" not in params
    wanted.update(password="p", dbname="d")
    assert {name: params.get(name) for name in wanted} == wanted
    with pytest.raises(database.ProgrammingError, match='invalid .* "nosuch"'):
        ask(salt.utils.postgres.get_params({"postgres": {"nosuch": 1}}))


@pytest.mark.parametrize(
    "option", [{"passfile": "/x"}, {"service": "x"}, {"pass": None}]
)
def test_password_is_left_to_libpq(option, monkeypatch):
    for name in ("PGSERVICE", "PGPASSFILE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    assert "password" not in salt.utils.postgres.get_params({"postgres": option})


@pytest.mark.parametrize("name", ["PGPASSFILE", "PGPASSWORD", "PGSERVICE"])
def test_password_is_left_to_the_environment(name, monkeypatch):
    monkeypatch.setenv(name, "x")
    params = salt.utils.postgres.get_params({"postgres": {}})
    assert "password" not in params
    assert ("host" in params) is (name != "PGSERVICE")


def test_password_of_a_file_is_read_for_each_connection(server, tmp_path):
    # the server of this test takes any, so this is that libpq finds the file
    path = tmp_path / "pgpass"
    path.write_text(f"127.0.0.1:{server.port}:salt:salt:{PASSWORD}\n")
    path.chmod(0o600)
    params = salt.utils.postgres.get_params(
        {"postgres": {"host": "127.0.0.1", "port": server.port, "passfile": str(path)}}
    )
    with salt.utils.postgres.get_cursor(**params) as cursor:
        assert cursor.connection.info.password == PASSWORD


@pytest.mark.parametrize("name", ["connect_timeout", "statement_timeout", "lifetime"])
@pytest.mark.parametrize("value", [-1, "soon", 1e9, float("nan"), True, []])
def test_time_that_is_none_is_an_error(name, value):
    if value == []:
        value = [1]
    with pytest.raises(
        salt.exceptions.SaltConfigurationError, match=f"{name} of the option postgres"
    ):
        salt.utils.postgres.get_params({"postgres": {name: value}})


def test_fraction_of_a_second_is_rounded_up_for_libpq():
    params = salt.utils.postgres.get_params({"postgres": {"connect_timeout": 0.5}})
    assert params["connect_timeout"] == 1


def test_unknown_mode_of_writing_is_an_error():
    with pytest.raises(
        salt.exceptions.SaltConfigurationError, match="refuse, rollback, commit"
    ):
        salt.utils.postgres.get_params({"postgres": {"writes": "yes"}})
