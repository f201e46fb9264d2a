"""
``sys.interface``: the report on the module that is loaded
"""

import sys

import pytest

import salt.modules.sysmod as sysmod
from salt.interfaces import Interface
from salt.interfaces.errors import InterfaceError


def get_zone():
    """
    As promised
    """


def set_zone(zone):
    """
    Under another name
    """


def dance():
    """
    Unknown to the interface
    """


@pytest.fixture
def configure_loader_modules():
    functions = {
        "timezone.get_zone": get_zone,
        "timezone.set_zone": set_zone,
        "timezone.dance": dance,
        "test.ping": get_zone,
    }
    return {sysmod: {"__salt__": functions, "__grains__": {"kernel": "Linux"}}}


def test_one_interface():
    """
    What is there, what is not, and each difference with its code.
    """
    found = sysmod.interface("timezone")
    assert found["interface"] == "timezone"
    assert found["modules"] == [__name__.rsplit(".", 1)[-1]]
    assert found["verdict"] == "differs"
    words = found["functions"]
    assert words["get_zone"] == "conforms"
    assert words["set_zone"] == "differs"
    assert words["get_offset"] == "missing"
    assert words["dance"] == "alien"
    assert "ping" not in words
    assert {
        "code": "renamed-parameter",
        "function": "set_zone",
        "parameter": "timezone",
        "message": "is called 'zone' here",
        "level": "error",
    } in found["findings"]


class DanceInterface(Interface):
    """
    An interface that a module brings along
    """

    __modulename__ = "test"

    def ping(self):
        """
        As promised
        """

    def lock(self, name):
        """
        Nobody has it
        """


def test_interface_of_a_module_of_ones_own(monkeypatch):
    """
    What a module declares is compared, whether or not Salt has such a name.
    """
    monkeypatch.setattr(
        sys.modules[__name__],
        "__virtualname__",
        DanceInterface(__name__),
        raising=False,
    )
    found = sysmod.interface("test")
    assert found["modules"] == [__name__.rsplit(".", 1)[-1]]
    assert found["functions"] == {"ping": "conforms", "lock": "missing"}
    assert sysmod.interface("timezone")["interface"] == "timezone"


def test_all_interfaces():
    """
    One word each.
    """
    found = sysmod.interface()
    assert found["timezone"] == "differs"
    assert found["pkg"] == "not loaded"


def test_no_such_interface():
    """
    The error says which there are.
    """
    with pytest.raises(InterfaceError, match="There is no interface 'test'; .*pkg"):
        sysmod.interface("test")
