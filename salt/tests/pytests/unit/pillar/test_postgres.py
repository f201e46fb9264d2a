"""
Tests of the PostgreSQL ext_pillar without a server
"""

import pytest

import salt.exceptions
import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch


class DatabaseError(Exception):
    """
    Stands for the error of psycopg2, which the adapter logs and swallows
    """


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
    connection = MagicMock()
    cursor = connection.cursor.return_value
    cursor.description = [("pillar",)]
    cursor.fetchall.return_value = [({"a": {"b": 1}},), ({"a": {"c": 2}},)]
    # psycopg2 may not be installed
    psycopg2 = MagicMock(DatabaseError=DatabaseError)
    psycopg2.connect.return_value = connection
    with patch.object(postgres, "psycopg2", psycopg2, create=True):
        yield cursor


def test_json_objects_are_merged_without_a_flag(cursor):
    query = "SELECT pillar FROM pillars WHERE minion_id = %s"
    assert postgres.ext_pillar("web1", {}, query) == {"a": {"b": 1, "c": 2}}
    cursor.execute.assert_called_once_with(query, ("web1",))


def test_each_placeholder_is_the_minion_id(cursor):
    query = "SELECT pillar FROM pillars WHERE minion_id = %s OR parent = %s"
    postgres.ext_pillar("web1", {}, query)
    cursor.execute.assert_called_once_with(query, ("web1", "web1"))


def test_params_come_from_grains_and_opts(cursor):
    query = "SELECT pillar FROM pillars WHERE os = %(os)s AND env = %(env)s"
    params = {"os": "grains:os", "env": "opts:pillarenv"}
    postgres.ext_pillar("web1", {}, {"query": query, "params": params})
    cursor.execute.assert_called_once_with(
        query, {"minion_id": "web1", "os": "Debian", "env": "prod"}
    )


def test_grain_that_cannot_be_bound_does_not_cut_the_pillar_short(cursor):
    cursor.execute.side_effect = DatabaseError("can't adapt type 'dict'")
    query = {
        "query": "SELECT pillar FROM pillars WHERE a = %s",
        "params": ["grains:ec2"],
    }
    with pytest.raises(salt.exceptions.SaltConfigurationError, match="^grains:ec2 "):
        postgres.ext_pillar("web1", {}, query)
    cursor.execute.assert_not_called()
