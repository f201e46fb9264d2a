"""
Tests of the options of libpq that the PostgreSQL ext_pillar passes on
"""

import logging

import pytest

import salt.exceptions
import salt.pillar
import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch

try:
    import psycopg2

    HAS_PSYCOPG2 = True
except ImportError:
    # What is passed on can be seen without it
    psycopg2 = MagicMock(Error=OSError, DatabaseError=OSError, OperationalError=OSError)
    HAS_PSYCOPG2 = False

PASSWORD = "hunter2"

NAMES = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl"),
    "application_name",
)


@pytest.fixture
def opts(minion_opts):
    """
    The options of a masterless minion whose pillar is in the database
    """
    minion_opts.update(
        {
            "file_client": "local",
            "pillar_roots": {},
            "postgres": {"host": "127.0.0.1", "port": 1, "pass": PASSWORD},
        }
    )
    return minion_opts


@pytest.fixture
def configure_loader_modules(opts):
    return {postgres: {"__opts__": opts}}


def connected_with():
    """
    Return the parameters that psycopg2 connects with
    """
    refused = psycopg2.OperationalError("refused")
    errors = (psycopg2.OperationalError, salt.exceptions.CommandExecutionError)
    with patch.object(psycopg2, "connect", side_effect=refused) as connect:
        with patch.object(postgres, "psycopg2", psycopg2, create=True):
            with pytest.raises(errors):
                postgres.ext_pillar("web1", {}, "SELECT 1")
    return connect.call_args.kwargs


def test_options_are_those_of_libpq(opts):
    wanted = {
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
        "sslcert": "/salt.pem",
        "sslkey": "/salt.key",
        "sslcrl": "/salt.crl",
        "application_name": "salt-master",
    }
    opts["postgres"].update(wanted)
    found = connected_with()
    assert {name: found[name] for name in NAMES} == wanted
    assert (found["host"], found["password"]) == ("127.0.0.1", PASSWORD)


def test_defaults_are_those_of_libpq():
    found = connected_with()
    # psycopg2 leaves out what is None
    assert {name: found.get(name) for name in NAMES} == dict.fromkeys(NAMES)
    assert found["fallback_application_name"] == "salt"


@pytest.mark.skipif(not HAS_PSYCOPG2, reason="psycopg2 is not installed")
def test_sslmode_that_is_none_is_an_error_without_the_password(opts, caplog):
    opts["postgres"]["sslmode"] = "nosuch"
    opts["ext_pillar"] = [{"postgres": ["SELECT 1"]}]
    with caplog.at_level(logging.NOTSET):
        pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    assert list(pillar) == ["_errors"]
    assert "nosuch" in caplog.text
    assert PASSWORD not in caplog.text
