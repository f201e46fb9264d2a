# pylint: disable=no-member

from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.package_states.pkgset
import saltext.package_states.runners.pkgset as pkgset

from salt.exceptions import CommandExecutionError


@pytest.fixture
def configure_loader_modules(master_opts, tmp_path):
    return {pkgset: {"__opts__": {**master_opts, "cachedir": str(tmp_path)}}}


def test_stored_packages_are_returned():
    saltext.package_states.pkgset.store(pkgset.__opts__, "web1", {"nginx": "1.22.1-9"})
    assert pkgset.packages("web1") == {"nginx": "1.22.1-9"}


def test_no_stored_packages_are_an_error():
    with pytest.raises(CommandExecutionError, match="run pkgset.refresh web1"):
        pkgset.packages("web1")


def test_what_is_not_there_is_an_error():
    """
    Neither no minion nor a package that it lacks looks like a success
    """
    saltext.package_states.pkgset.store(
        pkgset.__opts__, "web1", {"nginx": "1.22.1-9", "nginx-common": "1.22.1-9"}
    )
    assert pkgset.packages("web1", "nginx") == {"nginx": "1.22.1-9"}
    assert len(pkgset.packages("web1", "nginx*")) == 2
    with pytest.raises(CommandExecutionError, match="no package like hello"):
        pkgset.packages("web1", "hello")
    with pytest.raises(CommandExecutionError, match="Name a minion"):
        pkgset.packages()


def test_a_minion_without_packages_is_not_stored():
    """
    It would be told as stored, and what is stored would be nothing
    """
    with patch("salt.client.LocalClient") as local:
        client = local.return_value.__enter__.return_value
        client.gather_minions.return_value = ["web1", "web2"]
        client.cmd_iter.return_value = [
            {"web1": {"ret": {}}},
            {"web2": {"ret": {"nginx": "1.22.1-9"}}},
        ]
        found = pkgset.refresh("web*")
    assert found["stored"] == ["web2"]
    assert "web1 says that it has no packages" in found["failed"]["web1"]


def test_one_minion_does_not_end_the_run():
    """
    Whatever it answers, and whatever that does to who stores it
    """
    with patch("salt.client.LocalClient") as local:
        client = local.return_value.__enter__.return_value
        client.gather_minions.return_value = ["web1", "web2", "web3", "web4"]
        client.cmd_iter.return_value = [
            {"web1": "\x1b[2J"},
            {"web2": {"ret": "\x1b[2J\nall is well", "retcode": 1}},
            {"web3": {"ret": {"nginx": "1"}}},
            {"web4": {"ret": {"nginx": "2"}}},
        ]
        stored = saltext.package_states.pkgset.store

        def store(opts, minion, packages):
            if minion == "web3":
                raise TypeError("no\nlen()")
            return stored(opts, minion, packages)

        with patch("saltext.package_states.pkgset.store", store):
            found = pkgset.refresh("web*")
    assert found["stored"] == ["web4"]
    assert set(found["failed"]) == {"web1", "web2", "web3"}
    assert all(text.isprintable() for text in found["failed"].values())


def test_refresh_of_nobody_is_an_error():
    """
    Three empty lists would look like a success
    """
    with patch("salt.client.LocalClient") as client:
        client.return_value.__enter__.return_value.gather_minions.return_value = []
        with pytest.raises(CommandExecutionError, match="No minion matches web9"):
            pkgset.refresh("web9")
