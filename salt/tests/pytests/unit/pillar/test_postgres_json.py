"""
Tests of JSON out of the PostgreSQL ext_pillar without a server
"""

import contextlib

import pytest

import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch


@pytest.fixture
def configure_loader_modules():
    return {postgres: {"__opts__": {}}}


@pytest.fixture
def cursor():
    cursor = MagicMock(description=[("pillar",)])
    cursor.fetchall.return_value = [({"a": {"b": 1}},), ({"a": {"c": 2}},)]

    @contextlib.contextmanager
    def get_cursor(_):
        yield cursor

    with patch.object(postgres.POSTGRESExtPillar, "_get_cursor", get_cursor):
        yield cursor


def test_json_objects_are_merged_without_a_flag(cursor):
    query = "SELECT pillar FROM pillars WHERE minion_id = %s"
    assert postgres.ext_pillar("web1", {}, query) == {"a": {"b": 1, "c": 2}}
    cursor.execute.assert_called_once_with(query, ("web1",))
