"""
Tests of grains and options as parameters of the PostgreSQL ext_pillar without a server
"""

import contextlib

import pytest

import salt.exceptions
import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch


@pytest.fixture
def configure_loader_modules():
    return {
        postgres: {
            "__opts__": {
                "grains": {"os": "Debian", "ec2": {"zone": "a"}},
                "pillarenv": "prod",
            },
        },
    }


@pytest.fixture
def cursor():
    cursor = MagicMock(description=[("key",), ("value",)])
    cursor.fetchall.return_value = [("a", "b")]

    @contextlib.contextmanager
    def get_cursor(_):
        yield cursor

    with patch.object(postgres.POSTGRESExtPillar, "_get_cursor", get_cursor):
        yield cursor


def test_params_come_from_grains_and_opts(cursor):
    query = "SELECT pillar FROM pillars WHERE os = %(os)s AND env = %(env)s"
    params = {"os": "grains:os", "env": "opts:pillarenv"}
    postgres.ext_pillar("web1", {}, {"query": query, "params": params})
    cursor.execute.assert_called_once_with(
        query, {"minion_id": "web1", "os": "Debian", "env": "prod"}
    )


def test_grain_that_cannot_be_bound_is_found_before_it_is_executed(cursor):
    query = {
        "query": "SELECT pillar FROM pillars WHERE a = %s",
        "params": ["grains:ec2"],
    }
    with pytest.raises(salt.exceptions.SaltConfigurationError, match="^grains:ec2 "):
        postgres.ext_pillar("web1", {}, query)
    cursor.execute.assert_not_called()
