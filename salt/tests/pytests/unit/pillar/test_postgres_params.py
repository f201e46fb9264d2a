"""
Tests of the placeholders of the PostgreSQL ext_pillar without a server
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
    cursor = MagicMock(description=[("key",), ("value",)])
    cursor.fetchall.return_value = [("a", "b")]

    @contextlib.contextmanager
    def get_cursor(_):
        yield cursor

    with patch.object(postgres.POSTGRESExtPillar, "_get_cursor", get_cursor):
        yield cursor


def test_each_placeholder_is_the_minion_id(cursor):
    query = "SELECT pillar FROM pillars WHERE minion_id = %s OR parent = %s"
    assert postgres.ext_pillar("web1", {}, query) == {"a": "b"}
    cursor.execute.assert_called_once_with(query, ("web1", "web1"))
