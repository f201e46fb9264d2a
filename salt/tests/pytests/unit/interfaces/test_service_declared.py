"""
Every module of the virtual name service declares its interface
"""

import importlib

import pytest

import salt.interfaces
from salt.interfaces.service_module import ServiceInterface

PROXIES = ["dummyproxy_service", "rest_service", "ssh_service"]
MODULES = [
    "debian_service",
    "linux_service",
    "mac_service",
    "rh_service",
    "smf_service",
    "systemd_service",
    "upstart_service",
    "win_service",
]


@pytest.mark.parametrize("name", MODULES + PROXIES)
def test_module_declares_its_interface(name):
    virtualname = importlib.import_module(f"salt.modules.{name}").__virtualname__
    assert virtualname == "service"
    assert isinstance(virtualname, ServiceInterface)
    assert virtualname.module == f"salt.modules.{name}"
    assert virtualname.profile == ("minimal" if name in PROXIES else None)


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_keeps_its_profile(name):
    module = importlib.import_module(f"salt.modules.{name}")
    names = {alias: one for one, alias in getattr(module, "__func_alias__", {}).items()}
    for function in salt.interfaces.profiles(ServiceInterface)["minimal"]:
        assert callable(getattr(module, names.get(function, function)))
