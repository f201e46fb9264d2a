"""
Tests of kept connections to PostgreSQL, with a server that knows as much of
its protocol as one query needs
"""

import os
import socket
import time

import pytest

import salt.utils.postgres
from tests.support.mock import patch
from tests.support.pytest.postgres import READY, Server, error

psycopg2 = pytest.importorskip("psycopg2")

PASSWORD = "hunter2"

KEPT = salt.utils.postgres._kept  # pylint: disable=protected-access


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


def ask(params, query="SELECT 1"):
    """
    Return the rows of one query on the connection of this process
    """
    with salt.utils.postgres.get_connection(**params) as connection:
        connection.execute(query)
        return connection.fetchall()


def end_and_wait(server, params):
    """
    End all sessions and wait until this process has heard of it
    """
    server.end_sessions()
    connection = next(iter(KEPT.values()))
    end = time.monotonic() + 10
    while connection.usable():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_connection_serves_many_queries(server, params):
    assert [ask(params) for _ in range(50)] == [[({"a": 1},)]] * 50
    assert len(server.startups) == 1
    # neither BEGIN nor COMMIT
    assert server.queries == ["SELECT 1"] * 50


def test_other_parameters_are_another_connection(server, params):
    ask(params)
    ask({**params, "dbname": "other"})
    ask(params)
    assert [startup["database"] for startup in server.startups] == ["salt", "other"]


def test_parameters_reach_the_server(server, params):
    ask({**params, "application_name": "salt-master"})
    assert server.startups[0]["application_name"] == "salt-master"


def test_statement_timeout_is_sent_with_the_query(server, params, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c search_path=pillars")
    ask({**params, "statement_timeout": 1.5})
    assert server.before[0].endswith("BETWEEN '1ms' AND '1500ms'")
    assert "set_config('statement_timeout', '1500', true)" in server.before[0]
    # those of the administrator; PgBouncer refuses them
    assert server.startups[0]["options"] == "-c search_path=pillars"


@pytest.mark.parametrize("timeout", [0, None])
def test_no_statement_timeout_sets_none(server, params, monkeypatch, timeout):
    monkeypatch.delenv("PGOPTIONS", raising=False)
    ask({**params, "statement_timeout": timeout})
    assert "timeout" not in server.before[0]
    assert "options" not in server.startups[0]


def test_each_use_begins_as_a_new_connection_does(server, params):
    ask(params)
    ask(params)
    with salt.utils.postgres.get_connection(**params) as connection:
        connection.execute("SELECT 1")
        connection.execute("SELECT 2")
    # "SELECT 2" belongs to the use that "SELECT 1" began
    reset = salt.utils.postgres.RESET.strip("; ")
    assert server.before == [reset, reset, reset, ""]


def test_transaction_is_begun_with_the_first_query_and_rolled_back(server, params):
    server.status = b"T"
    with salt.utils.postgres.get_connection(transaction=True, **params) as connection:
        connection.execute("SELECT 1")
        connection.execute("SELECT 2")
    assert server.before[0].endswith("; BEGIN")
    assert server.before[1:] == ["", "ROLLBACK"]
    assert server.queries[:2] == ["SELECT 1", "SELECT 2"]


def test_transaction_is_rolled_back_after_an_error_of_the_caller(server, params):
    server.status = b"T"
    with pytest.raises(TypeError):
        with salt.utils.postgres.get_connection(**params) as connection:
            connection.execute("SELECT 1")
            raise TypeError
    assert server.before[-1] == "ROLLBACK"
    assert list(KEPT.values()) == [connection]


def test_transaction_without_a_query_sends_nothing(server, params):
    with salt.utils.postgres.get_connection(transaction=True, **params):
        pass
    assert server.queries == []


def test_second_host_is_asked_when_the_first_never_answers(server, params):
    deaf = Server()
    deaf.greet = False
    params.update(
        host="127.0.0.1,127.0.0.1",
        port=f"{deaf.port},{server.port}",
        connect_timeout=0.2,
    )
    try:
        assert ask(params) == [({"a": 1},)]
    finally:
        deaf.close()


def test_second_address_is_asked_when_the_first_never_answers(server, params):
    infos = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
        for address in ("127.0.0.2", "127.0.0.1")
    ]
    deaf = socket.create_server(("127.0.0.2", server.port))
    params.update(host="db.example.com", connect_timeout=0.2)
    with deaf, patch("socket.getaddrinfo", return_value=infos):
        assert ask(params) == [({"a": 1},)]


@pytest.mark.parametrize(
    "host,port,expected",
    [
        ("/run/postgresql", 5432, [{"host": "/run/postgresql", "port": "5432"}]),
        (None, None, [{"host": None, "port": None}]),
        (
            "127.0.0.1,127.0.0.2",
            "1,2",
            [{"host": "127.0.0.1", "port": "1"}, {"host": "127.0.0.2", "port": "2"}],
        ),
        # libpq has the message
        ("a,b", "1,2,3", [{"host": "a,b", "port": "1,2,3"}]),
    ],
)
def test_hosts_and_ports_are_lists_as_in_libpq(host, port, expected):
    # pylint: disable=protected-access
    assert salt.utils.postgres._targets(host, port) == expected


def test_connection_that_the_server_closed_is_replaced(server, params):
    ask(params)
    end_and_wait(server, params)
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2
    assert server.queries == ["SELECT 1"] * 2


def test_connection_that_was_idle_for_long_is_replaced(server, params, monkeypatch):
    ask(params)
    monkeypatch.setattr(salt.utils.postgres, "KEEP_IDLE", -1)
    ask(params)
    assert len(server.startups) == 2


def test_error_of_a_query_leaves_the_connection(server, params):
    server.answers["broken"] = error("42P01", "relation does not exist") + READY
    with pytest.raises(psycopg2.ProgrammingError, match="relation does not exist"):
        ask(params, "broken")
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 1


def test_error_of_the_caller_leaves_the_connection(server, params):
    with pytest.raises(TypeError):
        with salt.utils.postgres.get_connection(**params) as connection:
            connection.execute("SELECT 1")
            raise TypeError
    ask(params)
    assert len(server.startups) == 1


def test_connection_that_breaks_in_a_query_is_an_error(server, params):
    ask(params)
    server.answers["kill"] = lambda session: session.shutdown(socket.SHUT_RDWR)
    with pytest.raises(psycopg2.OperationalError):
        ask(params, "kill")
    # not tried again, as it may have been the reason
    assert server.queries == ["SELECT 1", "kill"]
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_server_that_accepts_and_never_answers(server, params):
    server.greet = False
    with pytest.raises(psycopg2.OperationalError, match="no answer .* 0.2 seconds"):
        ask({**params, "connect_timeout": 0.2})
    assert KEPT == {}


def test_query_that_is_never_answered(server, params):
    params.update(connect_timeout=0.1, statement_timeout=0.1)
    ask(params)
    server.answers["hang"] = lambda session: None
    with pytest.raises(psycopg2.OperationalError, match="no answer .* 0.2 seconds"):
        ask(params, "hang")
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


def test_answer_may_be_late_without_a_limit_for_connecting(server, params):
    # both would give up at once if there was nothing between them
    params.update(connect_timeout=0, statement_timeout=0.1)
    server.answers["slow"] = lambda session: (
        time.sleep(0.5),
        session.sendall(error("57014", "canceling statement") + READY),
    )
    with pytest.raises(psycopg2.errors.QueryCanceled):
        ask(params, "slow")


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


def test_interrupted_query_is_not_left_to_the_next(server, params):
    server.answers["hang"] = lambda session: None
    with salt.utils.postgres.get_connection(**params) as connection:
        with patch.object(connection, "_ready", side_effect=KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                connection.execute("hang")
    ask(params)
    assert len(server.startups) == 2


def test_connection_in_use_is_not_shared(server, params):
    with salt.utils.postgres.get_connection(**params) as outer:
        with salt.utils.postgres.get_connection(**params) as inner:
            assert outer is not inner
    # one of the two is kept
    assert (outer.closed, inner.closed) == (True, False)
    assert list(KEPT.values()) == [inner]


@pytest.mark.skip_unless_on_linux
def test_forked_process_has_a_connection_of_its_own(server, params):
    ask(params)
    child = os.fork()
    if not child:
        # exits past the tests' own clean-up
        status = 1
        try:
            status = 0 if ask(params) == [({"a": 1},)] else 2
            KEPT.clear()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert len(server.startups) == 2
    # and leaves that of its parent alone
    assert ask(params) == [({"a": 1},)]
    assert len(server.startups) == 2


@pytest.mark.skip_unless_on_linux
def test_connection_in_use_survives_a_fork(server, params):
    with salt.utils.postgres.get_connection(**params) as connection:
        child = os.fork()
        if not child:
            connection.close()
            os._exit(0)
        os.waitpid(child, 0)
        connection.execute("SELECT 1")
        assert connection.fetchall() == [({"a": 1},)]
    assert len(server.startups) == 1


def test_password_is_in_no_error(server, params):
    server.answers["broken"] = error("42601", "syntax error") + READY
    messages = []
    for change in ({}, {"port": 1}, {"port": "none"}, {"sslmode": "nosuch"}):
        with pytest.raises(psycopg2.Error) as caught:
            ask({**params, **change}, "broken")
        messages.append(str(caught.value))
    assert len(messages) == 4
    assert PASSWORD not in "".join(messages)
