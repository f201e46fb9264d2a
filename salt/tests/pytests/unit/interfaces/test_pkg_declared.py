"""
Every module of the virtual name pkg declares its interface
"""

import importlib

import pytest

import salt.interfaces
from salt.interfaces.pkg_module import PkgInterface

PROXIES = ["dummyproxy_pkg", "rest_pkg", "ssh_pkg"]
MODULES = [
    "aixpkg",
    "aptpkg",
    "mac_brew_pkg",
    "mac_portspkg",
    "nixpkg",
    "pacmanpkg",
    "pkgin",
    "pkgng",
    "solarisipspkg",
    "solarispkg",
    "win_pkg",
    "yumpkg",
    "zypperpkg",
]


@pytest.mark.parametrize("name", MODULES + PROXIES)
def test_module_declares_its_interface(name):
    virtualname = importlib.import_module(f"salt.modules.{name}").__virtualname__
    assert virtualname == "pkg"
    assert isinstance(virtualname, PkgInterface)
    assert virtualname.module == f"salt.modules.{name}"
    assert virtualname.profile == ("minimal" if name in PROXIES else None)


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_keeps_its_profile(name):
    module = importlib.import_module(f"salt.modules.{name}")
    for function in salt.interfaces.profiles(PkgInterface)["minimal"]:
        assert callable(getattr(module, function))
