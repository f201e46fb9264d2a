# pylint: disable=no-member

import multiprocessing
from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.package_states.master.lists
import saltext.package_states.master.returns as returns
import saltext.package_states.runners.pkgset as pkgset

from salt.exceptions import CommandExecutionError


@pytest.fixture
def configure_loader_modules(master_opts, tmp_path):
    return {pkgset: {"__opts__": {**master_opts, "cachedir": str(tmp_path)}}}


def test_stored_packages_are_returned():
    saltext.package_states.master.lists.store(
        pkgset.__opts__, "web1", {"nginx": "1.22.1-9"}
    )
    assert pkgset.packages("web1") == {"nginx": "1.22.1-9"}


def test_no_stored_packages_are_an_error():
    with pytest.raises(CommandExecutionError, match="run pkgset.refresh web1"):
        pkgset.packages("web1")


def test_what_is_not_there_is_an_error():
    """
    Neither no minion nor a package that it lacks looks like a success
    """
    saltext.package_states.master.lists.store(
        pkgset.__opts__, "web1", {"nginx": "1.22.1-9", "nginx-common": "1.22.1-9"}
    )
    assert pkgset.packages("web1", "nginx") == {"nginx": "1.22.1-9"}
    assert len(pkgset.packages("web1", "nginx*")) == 2
    with pytest.raises(CommandExecutionError, match="no package like hello"):
        pkgset.packages("web1", "hello")


@pytest.fixture
def client(monkeypatch):
    """
    A client whose minions have answered at once
    """
    monkeypatch.setattr(returns, "FIRST", 0.001)
    with patch("salt.client.LocalClient") as local:
        client = local.return_value.__enter__.return_value
        client.opts = {"master_job_cache": "local_cache"}
        client.answers = {}
        client.returners = {"local_cache.get_jid": lambda jid: client.answers}
        client.gather_minions.side_effect = lambda *_: sorted(client.answers)
        client.run_job.side_effect = lambda minions, *_, **__: {
            "jid": "1",
            "minions": minions,
        }
        yield client


def test_a_minion_without_packages_is_not_stored(client):
    """
    It would be told as stored, and what is stored would be nothing
    """
    client.answers = {
        "web1": {"return": {}},
        "web2": {"return": {"nginx": "1.22.1-9"}, "retcode": 0},
    }
    found = pkgset.refresh("web*")
    assert found["stored"] == ["web2"]
    assert "web1 says that it has no packages" in found["failed"]["web1"]


def test_one_minion_does_not_end_the_run(client):
    """
    Whatever it answers, and whatever that does to who stores it
    """
    client.answers = {
        "web1": "\x1b[2J",
        "web2": {"return": "\x1b[2J\nall is well", "retcode": 1},
        "web3": {"return": {"nginx": "1"}},
        "web4": {"return": {"nginx": "2"}},
        "web5": {"return": [[[]]]},
        "web6": {"return": {"nginx": ["1"]}},
    }
    stored = saltext.package_states.master.lists.store

    def store(opts, minion, packages):
        if minion == "web3":
            raise TypeError("no\nlen()")
        return stored(opts, minion, packages)

    with patch("saltext.package_states.master.lists.store", store):
        found = pkgset.refresh("web*", timeout=0.1)
    assert found["stored"] == ["web4"]
    assert found["silent"] == ["web1"]
    assert set(found["failed"]) == {"web2", "web3", "web5", "web6"}
    assert found["counts"] == {"asked": 6, "stored": 1, "failed": 4, "silent": 1}
    assert sum(found["reasons"].values()) == 4
    hint = "; see what pkg.list_pkgs says there."
    assert found["reasons"][f"it returned list{hint}"] == 1
    assert all(text.isprintable() for text in found["failed"].values())
    assert not client.cmd.called and not client.cmd_iter.called


@pytest.mark.parametrize(
    "options",
    (
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": 0},
        {"timeout": "x"},
        {"timeout": [1]},
        {"batch": 0},
        {"batch": "x"},
        {"batch": float("nan")},
    ),
)
def test_numbers_that_are_none(client, options):
    with pytest.raises(CommandExecutionError, match=": give "):
        pkgset.refresh("web*", **options)
    assert not client.run_job.called


@pytest.mark.parametrize(
    "kind",
    (
        *("pillar", "pillar_exact", "pillar_pcre", "pcre", "grain_pcre"),
        *("compound", "x", ["pillar"]),
    ),
)
def test_others_than_salt_run_use_no_target_that_tells_of_pillars_or_has_no_end(
    client, monkeypatch, kind
):
    client.answers = {"web1": {"return": {"nginx": "1"}}}
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    with pytest.raises(CommandExecutionError, match="use one of glob"):
        pkgset.refresh("secret:s*", tgt_type=kind)
    assert not client.gather_minions.called
    assert pkgset.refresh("web*")["stored"] == ["web1"]


def test_that_nobody_answers_is_an_error(client):
    """
    Who and why; equal reasons are one
    """
    client.answers = {
        "web1": {"return": "not there", "retcode": 1},
        "web2": {"return": "not there", "retcode": 1},
    }
    with pytest.raises(CommandExecutionError) as told:
        pkgset.refresh("web*")
    assert str(told.value).startswith(
        "None of 2 minions sent its packages: it returned"
    )
    assert str(told.value).count("not there") == 1


def test_refresh_of_nobody_is_an_error():
    """
    Three empty lists would look like a success
    """
    with patch("salt.client.LocalClient") as client:
        client.return_value.__enter__.return_value.gather_minions.return_value = []
        with pytest.raises(CommandExecutionError, match="No minion matches web9"):
            pkgset.refresh("web9")
        # what is no glob at all
        with pytest.raises(CommandExecutionError, match="needs tgt_type=compound, a g"):
            pkgset.refresh("G@os:Debian and web*")
