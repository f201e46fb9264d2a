"""
The interfaces that Salt has
"""

import pytest

import salt.interfaces
import salt.interfaces.function
from salt.interfaces import schema

FULL_DEPTH = (
    "group",
    "network",
    "pkg",
    "service",
    "shadow",
    "system",
    "timezone",
    "user",
)
NAMES = (
    *FULL_DEPTH,
    *("at", "disk", "file", "ip", "kernelpkg", "lowpkg", "ntp", "nxos", "pkgbuild"),
    *("pkgutil", "status", "sysctl", "x509"),
)


def test_each_virtual_name_of_several_modules_has_one():
    """
    All twenty-one of them.
    """
    assert salt.interfaces.names() == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_function_says_what_it_does(name):
    """
    It has a docstring, and its declared structure fits its own schema.
    """
    interface = salt.interfaces.get(name)
    assert interface.__doc__.strip()
    for function in salt.interfaces.functions(interface).values():
        assert function.doc, function.name
        value = function.default()
        if function.schema is not salt.interfaces.function.NoSchema:
            assert schema.problems(function.schema, value) == [], function.name


@pytest.mark.parametrize("name", FULL_DEPTH)
def test_every_module_has_something_in_common(name):
    """
    A core tier that promises nothing would be no interface.
    """
    functions = salt.interfaces.functions(salt.interfaces.get(name)).values()
    core = [function for function in functions if function.tier == "core"]
    assert core
    returning = [
        one for one in core if one.schema is not salt.interfaces.function.NoSchema
    ]
    assert len(returning) * 2 >= len(core)


@pytest.mark.parametrize("name", ("pkg", "service"))
def test_a_device_behind_a_proxy_promises_little(name):
    """
    Its profile is a part of the interface.
    """
    interface = salt.interfaces.get(name)
    minimal = salt.interfaces.profiles(interface)["minimal"]
    assert set(minimal) < set(salt.interfaces.functions(interface))
    assert "install" in minimal or "start" in minimal
