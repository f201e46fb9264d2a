"""
Tests of the PostgreSQL ext_pillar without a server
"""

import pytest

import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch

pytestmark = [
    pytest.mark.skipif(not postgres.HAS_POSTGRES, reason="psycopg2 is not installed"),
]


@pytest.fixture
def configure_loader_modules():
    return {
        postgres: {
            "__opts__": {"grains": {"os": "Debian"}, "pillarenv": "prod"},
        },
    }


@pytest.fixture
def cursor():
    connection = MagicMock()
    cursor = connection.cursor.return_value
    cursor.description = [("pillar",)]
    cursor.fetchall.return_value = [({"a": {"b": 1}},), ({"a": {"c": 2}},)]
    with patch.object(postgres.psycopg2, "connect", return_value=connection):
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
