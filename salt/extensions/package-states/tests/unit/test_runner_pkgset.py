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


def test_refresh_of_nobody_is_an_error():
    """
    Three empty lists would look like a success
    """
    with patch("salt.client.LocalClient") as client:
        client.return_value.__enter__.return_value.gather_minions.return_value = []
        with pytest.raises(CommandExecutionError, match="No minion matches web9"):
            pkgset.refresh("web9")
