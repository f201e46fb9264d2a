"""
What a client shows as its token
"""

import time

import pytest

import salt.auth


@pytest.fixture
def auth(master_opts, tmp_path):
    """
    The authentication of a master with a user
    """
    master_opts["cachedir"] = str(tmp_path)
    master_opts["external_auth"] = {"sharedsecret": {"admin": [".*"]}}
    return salt.auth.LoadAuth(master_opts)


# What a minion may have in its grains, which the master stores
MADE_UP = {"name": "admin", "eauth": "sharedsecret", "expire": time.time() + 1e6}


@pytest.mark.parametrize(
    "token", ["../grains/web1", "x/../../grains/web1", "", ".", None, 5, [], {}, b"x"]
)
def test_what_is_no_token(auth, token):
    auth.cache.store("grains", "web1", MADE_UP)
    assert auth.get_tok(token) == {}
    assert auth.authenticate_token({"token": token}) is False


@pytest.mark.parametrize("token", ["../grains/web1", "../mine/web1"])
def test_nobody_removes_what_is_no_token(auth, token):
    auth.cache.store("grains", "web1", {"os": "Debian"})
    auth.cache.store("mine", "web1", {"test.ping": True})
    assert auth.get_tok(token) == {}
    assert auth.cache.fetch("grains", "web1") == {"os": "Debian"}
    assert auth.cache.fetch("mine", "web1") == {"test.ping": True}


def test_a_token(auth):
    auth.cache.store("tokens", "ab12", MADE_UP)
    assert auth.get_tok("ab12") == MADE_UP
