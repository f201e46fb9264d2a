"""
Tests for salt.netapi.sum_permissions
"""

# pylint: disable=protected-access

import copy

import pytest

import salt.exceptions
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


@pytest.mark.parametrize("wrong", ["test.ping", {"web*": ["test"]}, None])
def test_what_is_no_list_is_refused_as_before(wrong):
    """
    salt-api catches this error and writes that the option is malformed
    """
    with pytest.raises(AttributeError):
        salt.netapi.sum_permissions({"name": "admin"}, {"admin": wrong})


def test_nobody_has_any():
    assert salt.netapi.sum_permissions({"name": "guest"}, {}) == []


def test_a_login_gives_no_rights_over_ssh(master_opts):
    """
    salt-api decides by its own options what the client ssh may do. Without
    permissive_acl, a user who is listed has none of the permissions of everybody.
    """
    eauth = {"*": [".*"], "monitor": ["test.ping"]}
    master_opts["external_auth"] = {"auto": eauth}
    salt.netapi.sum_permissions({"name": "monitor"}, eauth)
    low = {
        "client": "ssh",
        "tgt": "*",
        "username": "monitor",
        "password": "secret",
        "eauth": "auto",
    }
    with salt.netapi.NetapiClient(master_opts) as client:
        client._authorize_ssh({**low, "fun": "test.ping"})
        with pytest.raises(salt.exceptions.EauthAuthenticationError):
            client._authorize_ssh({**low, "fun": "cmd.run", "arg": ["id"]})
