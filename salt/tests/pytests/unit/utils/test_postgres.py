"""
Tests of kept connections to PostgreSQL, with a server that knows as much of
its protocol as one query needs
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import salt.exceptions

psycopg2 = pytest.importorskip("psycopg2")

# pylint: disable=wrong-import-position
import salt.utils.postgres
from salt.utils.postgres import connection, watch
from tests.support.mock import patch
from tests.support.pytest.postgres import BOOL, READY, Server, error, message, result

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


def resets(server):
    """
    Return how often the end of a use has reset its session
    """
    return sum("DISCARD SEQUENCES" in text for text in server.resets)


def test_one_connection_serves_many_queries(server, params):
    assert [ask(params) for _ in range(50)] == [[({"a": 1},)]] * 50
    assert len(server.startups) == 1
    assert server.messages == [f"{BEGIN}; SELECT 1"] * 50
    # each is the end of a use, in a message of its own
    assert resets(server) == len(server.resets) == 50


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        " with a AS (SELECT 1)\nSELECT * FROM a ",
        "SELECT 1;",
        "SELECT ';COMMIT', \";\" FROM a -- ;\n/* ; */ ",
        "/* x */ -- y\n (SELECT 1) UNION VALUES (2)",
        "VALUES ($a$ ; $a$)",
        "SELECT E'\\n'",
        "INSERT INTO a VALUES (1) RETURNING b",
    ],
)
def test_statement_that_returns_rows_is_executed(server, params, query):
    server.answers[query.rpartition("; ")[2].strip()] = result(b"1")
    ask(params, query)
    assert server.messages == [f"{BEGIN}; {query.rstrip()}"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1; COMMIT",
        "SELECT 1;;",
        "commit and chain",
        "SELECTED",
        "/* SELECT */ COMMIT AND CHAIN",
        "SELECT '\\'; COMMIT; SELECT '",
        "SELECT E'\\''; COMMIT; SELECT 'a'",
        "DO $$ BEGIN END $$",
        "LOAD 'x'",
        "-- x",
        "",
        ";",
    ],
)
def test_other_statement_is_refused(server, params, query):
    with pytest.raises(salt.exceptions.CommandExecutionError, match="one statement"):
        ask(params, "SELECT 1", query)
    assert len(server.messages) == 1
    ask(params)
    assert len(server.startups) == 1


@pytest.mark.parametrize(
    "query",
    ["SELECT set_config('a.b', 'c', true)", "SELECT dblink_connect('a')"],
)
@pytest.mark.parametrize("is_pooled", [False, True])
def test_session_that_keeps_something_ends(server, params, query, is_pooled):
    server.is_pooled = is_pooled
    ask(params, query)
    # a pooler would give it to somebody else
    ended = ["pg_terminate_backend" in text for text in server.resets]
    assert ended == ([True] if is_pooled else [])
    ask(params)
    assert len(server.startups) == 2


@pytest.mark.parametrize("is_pooled", [False, True])
def test_session_with_a_new_setting_ends(server, params, is_pooled):
    server.is_pooled = is_pooled
    server.reset = result(b"f", BOOL)
    ask(params)
    ask(params)
    assert len(server.startups) == 2
    assert ("pg_terminate_backend" in server.resets[0]) is is_pooled


def sources(*texts):
    """
    Return an array of texts
    """
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return ("{" + ",".join(f'"{text}"' for text in quoted) + "}").encode()


@pytest.mark.parametrize(
    "source,name",
    [
        ("PERFORM set_config('app.tenant', x, true)", "app.tenant"),
        ("EXECUTE 'SET LOCAL app.tenant = ' || x", "app.tenant"),
        ('set session "app" . tenant to 1', "app.tenant"),
        ('CREATE FUNCTION f() SET "app.tenant" TO 1', "app.tenant"),
        ("UPDATE a SET b = 1; SET LOCAL geqo = off", None),
    ],
)
def test_settings_of_routines_are_looked_for(server, params, source, name):
    server.sources = sources(source)
    asked = "SELECT name FROM pg_catalog.unnest(ARRAY['app.tenant']::text[]) AS name"
    names = f"{asked} WHERE COALESCE(pg_catalog.current_setting(name, true), '') = ''"
    server.answers[names] = result(b"app.tenant", 25)
    ask(params)
    assert (name is not None) is ("ARRAY['app.tenant']" in server.resets[0])


@pytest.mark.parametrize(
    "source",
    [
        "PERFORM set_config(name, x, true)",
        "PERFORM set_config('app.' || name, x, true)",
        "EXECUTE format('SET LOCAL %I = %L', name, x)",
        "EXECUTE 'SET ' || name",
        "LOAD 'auto_explain'",
    ],
)
def test_session_is_not_kept_if_nobody_knows_what_is_set(server, params, source):
    server.sources = sources(source)
    ask(params)
    ask(params)
    assert len(server.startups) == 2


def test_queries_of_a_use_share_a_transaction(server, params):
    ask(params, "SELECT 1", "SELECT 2")
    assert server.messages == [f"{BEGIN}; SELECT 1", "SELECT 2"]
    assert resets(server) == 1


def test_cursor_is_one_of_the_driver(server, params):
    sql = pytest.importorskip("psycopg2.sql")
    with salt.utils.postgres.get_cursor(**params) as cursor:
        assert isinstance(cursor, psycopg2.extensions.cursor)
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


@pytest.mark.parametrize("is_missing", [False, True])
def test_pillar_needs_the_driver(is_missing):
    program = (
        "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:]));"
        "import salt.pillar.postgres as pillar; print(pillar.__virtual__())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *["psycopg2"] * is_missing],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == str(not is_missing)


@pytest.mark.parametrize("writes,mode", [("refuse", " READ ONLY"), ("rollback", "")])
def test_what_queries_write_is_never_kept(server, params, writes, mode):
    ask({**params, "writes": writes})
    # a standby refuses READ WRITE
    expected = f"BEGIN ISOLATION LEVEL REPEATABLE READ{mode}; SELECT 1"
    assert server.messages == [expected]
    assert server.resets[0].startswith("ROLLBACK; ")


def test_query_that_ends_the_transaction_is_an_error(server, params):
    ends = message(b"C", b"CALL\0") + READY
    server.answers["CALL ends()"] = lambda session: session.sendall(ends)
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="ended the transaction"
    ):
        ask(params, "SELECT 1", "CALL ends()")
    assert not KEPT


@pytest.mark.parametrize("name", connection.FORMAT)
def test_query_that_changes_how_values_are_written_is_an_error(server, params, name):
    server.statuses["IntervalStyle"] = "postgres"
    server.answers["SELECT change"] = status(name, "other") + result(b'{"a": 1}')
    with pytest.raises(salt.exceptions.CommandExecutionError, match="garbled"):
        ask(params, "SELECT change")


def test_connection_that_cannot_be_reset_goes(server, params):
    # as without the right to call a function
    server.reset = error("42501", "permission denied") + READY
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


def test_connection_that_is_not_used_is_closed(server, params, monkeypatch):
    monkeypatch.setattr(salt.utils.postgres, "IDLE", 0.01)
    ask(params)
    idle = kept()
    end = time.monotonic() + 10
    while not idle.closed:
        assert time.monotonic() < end
        time.sleep(0.05)
    ask(params)
    assert len(server.startups) == 2


@pytest.mark.parametrize(
    "text",
    [
        'too many connections for role "salt"',
        "sorry, too many clients already",
        "remaining connection slots are reserved for roles with SUPERUSER",
    ],
)
def test_connection_waits_for_those_that_others_close(server, params, text):
    tries = []
    connect = psycopg2.connect

    def refuse(**params):
        tries.append(1)
        if len(tries) < 4:
            raise psycopg2.OperationalError(f"FATAL:  {text}")
        return connect(**params)

    with patch("psycopg2.connect", refuse), patch("time.sleep"):
        assert ask(params) == [({"a": 1},)]
    assert (len(tries), FAILED) == (4, {})


def test_connection_does_not_wait_for_ever(params, monkeypatch):
    monkeypatch.setattr(salt.utils.postgres, "PATIENCE", 0)
    full = psycopg2.OperationalError("FATAL:  sorry, too many clients already")
    with patch("psycopg2.connect", side_effect=full), patch("time.sleep"):
        with pytest.raises(psycopg2.OperationalError, match="too many clients"):
            ask(params)
    # the next one may have more luck
    assert not FAILED


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
        assert not KEPT
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


def test_connection_that_had_a_large_value_is_not_kept(server, params, monkeypatch):
    monkeypatch.setattr(connection, "LARGE", 20)
    ask(params)
    assert KEPT
    server.answers["SELECT large"] = result(b'{"a": "%s"}' % (b"x" * 20))
    ask(params, "SELECT large")
    assert not KEPT


def test_error_of_a_query_leaves_the_connection(server, params):
    server.answers["SELECT broken"] = error("42P01", "relation does not exist") + READY
    with pytest.raises(psycopg2.ProgrammingError, match="relation does not exist"):
        ask(params, "SELECT broken")
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


def test_connection_that_breaks_in_a_query_is_an_error(server, params):
    ask(params)
    server.answers["SELECT kill"] = lambda session: session.shutdown(socket.SHUT_RDWR)
    with pytest.raises(psycopg2.OperationalError):
        ask(params, "SELECT kill")
    # not tried again, as it may have been the reason
    assert server.queries == ["SELECT 1", "SELECT kill"]
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_server_that_accepts_and_never_answers(server, params):
    server.greet = False
    with pytest.raises(psycopg2.OperationalError, match="timeout expired"):
        ask({**params, "connect_timeout": 2})
    assert KEPT == {}


def test_server_that_does_not_answer_is_left_alone_for_a_while(server, params):
    server.greet = False
    for _ in range(5):
        with pytest.raises(psycopg2.OperationalError, match="timeout expired"):
            ask({**params, "connect_timeout": 2})
    assert len(server.sessions) == 1
    # for as long as the try took
    server.greet = True
    until, _ = next(iter(FAILED.values()))
    assert 1 < until - time.monotonic() < 4
    with patch("time.monotonic", return_value=until + 1):
        assert ask({**params, "connect_timeout": 2}) == [({"a": 1},)]
    assert not FAILED


def test_query_that_is_never_answered(server, params, monkeypatch):
    monkeypatch.setattr(connection, "LATE", 0.1)
    params.update(statement_timeout=0.1)
    ask(params)
    server.answers["SELECT hang"] = lambda session: None
    with pytest.raises(psycopg2.OperationalError, match="no answer .* 0.2 seconds"):
        ask(params, "SELECT hang")
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_first_question_that_is_never_answered(server, params, monkeypatch):
    # a pooler takes connections also for a server that does not answer
    monkeypatch.setattr(connection, "LATE", 0.1)
    server.limit = lambda session: None
    with pytest.raises(psycopg2.OperationalError, match="no answer .* 0.2 seconds"):
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
    with watch.WATCH._lock:
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


@pytest.mark.parametrize(
    "name", ["callproc", "copy_expert", "copy_from", "copy_to", "executemany"]
)
def test_nothing_asks_outside_of_the_transaction(server, params, name):
    with salt.utils.postgres.get_cursor(**params) as cursor:
        assert getattr(cursor, name, None) is None


def test_password_is_in_no_error(server, params):
    server.answers["SELECT broken"] = error("42601", "syntax error") + READY
    messages = []
    for change in ({}, {"port": 1}, {"port": "none"}, {"sslmode": "nosuch"}):
        with pytest.raises(psycopg2.Error) as caught:
            ask({**params, **change}, "SELECT broken")
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


def test_all_other_options_are_those_of_libpq():
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
        salt.exceptions.SaltConfigurationError, match="one of refuse, rollback"
    ):
        salt.utils.postgres.get_params({"postgres": {"writes": "commit"}})


@pytest.mark.parametrize("name", ["schema", "hostname", "async", "cursor_factory", 1])
def test_unknown_option_is_named(name):
    with pytest.raises(
        salt.exceptions.SaltConfigurationError, match=f"{name} is no key of the option"
    ):
        salt.utils.postgres.get_params({"postgres": {name: "x"}})


@pytest.mark.parametrize(
    "value,kind,expected",
    [
        (b"3", 1700, 3),
        (b"-3.50", 1700, -3.5),
        (b"18446744073709551615", 1700, 2**64 - 1),
        (b"{1,2.5,NULL}", 1231, [1, 2.5, None]),
        (b'{"a": -9223372036854775808}', 3802, {"a": -(2**63)}),
    ],
)
def test_numbers_are_numbers(server, params, value, kind, expected):
    server.answers["SELECT number"] = result(value, kind)
    ((found,),) = ask(params, "SELECT number")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "value,kind",
    [(b"18446744073709551616", 1700), (b'{"a": 18446744073709551616}', 3802)],
)
def test_number_that_no_pillar_can_have_is_an_error(server, params, value, kind):
    server.answers["SELECT number"] = result(value, kind)
    with pytest.raises(
        salt.exceptions.CommandExecutionError, match="more than 64 bits"
    ):
        ask(params, "SELECT number")
