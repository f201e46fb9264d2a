"""
Tests for salt.netapi.sum_permissions
"""

import copy

import pytest

import salt.netapi

EAUTH = {
    "admin": ["test.*"],
    "*": ["grains.*", {"web*": ["cmd.run"]}],
    "team%": ["state.*"],
    "others%": ["pillar.*"],
}


@pytest.mark.parametrize(
    "token, expected",
    [
        (
            {"name": "admin", "groups": ["team"]},
            ["test.*", "grains.*", {"web*": ["cmd.run"]}, "state.*"],
        ),
        ({"name": "admin"}, ["test.*", "grains.*", {"web*": ["cmd.run"]}]),
        ({"name": "guest", "groups": []}, ["grains.*", {"web*": ["cmd.run"]}]),
    ],
)
def test_the_options_stay_as_they_are(token, expected):
    eauth = copy.deepcopy(EAUTH)
    for _ in range(3):
        assert salt.netapi.sum_permissions(token, eauth) == expected
    assert eauth == EAUTH


def test_nobody_has_any():
    assert salt.netapi.sum_permissions({"name": "guest"}, {}) == []
