"""
Interfaces change no answer to whether a function is there, whatever the platform

Salt asks ``"pkg.hold" in __salt__`` to learn what the platform can do. Each module of
each virtual name that has an interface is loaded here as if this were its platform,
and then everything is asked that Salt's source asks.
"""

import importlib
import pathlib
import re

import pytest

import salt.interfaces
import salt.loader.interfaces
import salt.loader.lazy
import salt.modules

ASKED = re.compile(
    r"""["']([a-z_0-9]+\.[a-z_0-9]+)["']\s+(?:not\s+)?in\s+(?:self\.)?"""
    r"""(?:__salt__|salt|functions)\b"""
    r"""|(?:__salt__|functions)\.get\(\s*["']([a-z_0-9]+\.[a-z_0-9]+)["']"""
)
TREE = pathlib.Path(salt.__file__).parent
MODULES = pathlib.Path(salt.modules.__file__).parent


class OnePlatform(salt.loader.lazy.LazyLoader):
    """
    Loads some modules only, and believes that they are for this platform
    """

    only = ()

    def _refresh_file_mapping(self):
        super()._refresh_file_mapping()
        self.file_mapping = {
            name: path for name, path in self.file_mapping.items() if name in self.only
        }

    def _process_virtual(self, mod, module_name, virtual_func="__virtual__"):
        return True, str(getattr(mod, "__virtualname__", module_name)), None, ()


class OnePlatformWithInterfaces(salt.loader.interfaces.InterfaceLoader, OnePlatform):
    """
    The same, with interfaces
    """


@pytest.fixture(scope="module")
def asked():
    """
    The functions that Salt's source asks for, by virtual name
    """
    found = {}
    for path in TREE.rglob("*.py"):
        if path.is_relative_to(TREE / "interfaces"):
            continue
        for match in ASKED.findall(path.read_text(encoding="utf-8")):
            key = match[0] or match[1]
            found.setdefault(key.partition(".")[0], set()).add(key)
    return found


@pytest.fixture(scope="module")
def providers():
    """
    The modules of each virtual name that has an interface
    """
    found = {name: [] for name in salt.interfaces.names()}
    for path in sorted(MODULES.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.stem in found or "__virtualname__" in source:
            try:
                module = importlib.import_module(f"salt.modules.{path.stem}")
            except Exception:  # pylint: disable=broad-except
                # it needs what this machine does not have
                continue
            name = str(getattr(module, "__virtualname__", path.stem))
            if name in found:
                found[name].append(path.stem)
    return found


def _load(kind, only, mode):
    """
    Return a loader of these modules only
    """
    opts = {
        "smi": mode,
        "grains": {"os": "Debian", "os_family": "Debian", "kernel": "Linux"},
        "optimization_order": [0, 1, 2],
    }
    # loaders look for their files again when they miss something
    OnePlatform.only = only
    return kind([str(MODULES)], opts, loaded_base_name="salt.loaded_answers", pack={})


def test_there_is_something_to_ask(asked, providers):
    assert {"pkg.hold", "pkg.normalize_name", "pkg.list_holds"} <= asked["pkg"]
    assert {"service.masked", "service.enable"} <= asked["service"]
    assert {"aptpkg", "yumpkg", "zypperpkg", "win_pkg"} <= set(providers["pkg"])


@pytest.mark.parametrize("name", salt.interfaces.names())
def test_no_answer_changes(name, asked, providers):
    interface = salt.interfaces.get(name)
    functions = salt.interfaces.functions(interface)
    keys = sorted(asked.get(name, set()) | {f"{name}.{one}" for one in functions})
    assert providers[name]
    stubs = 0
    for provider in providers[name]:
        stock = _load(OnePlatform, (provider,), "off")
        there = {key: (key in stock, stock.get(key) is None) for key in keys}
        listed = list(stock)
        for mode in ("report", "enforce"):
            ours = _load(OnePlatformWithInterfaces, (provider,), mode)
            assert {
                key: (key in ours, ours.get(key) is None) for key in keys
            } == there, provider
            assert list(ours) == listed, provider
            for key in keys:
                if not there[key][0] and key.partition(".")[2] in functions:
                    # this is not for nothing: a call does find something
                    assert callable(ours[key])
                    stubs += 1
    assert stubs or len(providers[name]) == 1 or name not in ("pkg", "service")
