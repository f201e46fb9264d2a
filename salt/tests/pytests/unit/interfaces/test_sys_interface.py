"""
sys.interface describes the module that a loader has
"""

import pytest

import salt.loader
from salt.exceptions import CommandExecutionError


@pytest.fixture(params=(False, True))
def functions(minion_opts, request):
    """
    Execution modules, with and without the option smi, and yumpkg as pkg
    """
    minion_opts["smi"] = request.param
    minion_opts["providers"] = {"pkg": "yumpkg"}
    return salt.loader.minion_mods(minion_opts)


def test_one_name(functions):
    found = functions["sys.interface"]("pkg")
    assert found["provider"] == "yumpkg"
    assert found["interface"] == "PkgInterface"
    assert found["core"] == "complete"
    assert {"Purge", "Holds", "Groups"} <= set(found["features"].split(", "))
    assert found["differences"] == []


def test_what_is_missing(functions, minion_opts):
    minion_opts["providers"] = {"user": "win_useradd", "shadow": "mac_shadow"}
    functions = salt.loader.minion_mods(minion_opts)
    found = functions["sys.interface"]("user")
    assert found["core"] == "complete"
    assert (
        "POSIXAttributes: 'user.chuid' is not supported by win_useradd: Windows users "
        "have neither numbers nor a shell."
    ) in found["without"]
    assert found["differences"] == [
        "delete takes no argument 'remove'",
        "chgroups has another default for 'append' than False",
    ]
    found = functions["sys.interface"]("shadow")
    assert found["features"] == "Ageing, Expiry, Inactivity, PasswordRemoval"
    assert len(found["differences"]) == 5


def test_all_names(functions):
    assert functions["sys.interface"]()["pkg"] == "yumpkg"


def test_no_interface(functions):
    with pytest.raises(CommandExecutionError, match="'test' of this minion declares"):
        functions["sys.interface"]("test")
