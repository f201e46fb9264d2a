"""
sys.interface describes the module that a loader has
"""

import types

import pytest

import salt.interfaces
import salt.loader
import salt.modules.sysmod
import salt.output
from salt.exceptions import CommandExecutionError
from tests.pytests.unit.interfaces.providers import load, providers


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
        "POSIXAttributes: not supported by win_useradd: Windows users have neither "
        "numbers nor a shell."
    ) in found["without"]
    assert found["differences"] == [
        "delete takes no argument 'remove'",
        "chgroups has another default for 'append' than False",
    ]
    found = functions["sys.interface"]("shadow")
    assert found["features"] == "Ageing, Expiry, Inactivity, PasswordRemoval"
    assert len(found["differences"]) == 5


class Loader(dict):
    """
    The functions of one module, as a loader has them
    """

    stand_ins = ()

    def __init__(self, declaration, functions):
        super().__init__(
            (f"{declaration}.{name}", types.SimpleNamespace(func=func))
            for name, func in functions.items()
        )
        self.interfaces = {str(declaration): declaration}


def describe(monkeypatch, name):
    """
    Return what sys.interface says of a module of Salt's, on any platform
    """
    declaration, functions = load(name)
    for key, value in (
        ("__salt__", Loader(declaration, functions)),
        ("__grains__", {}),
    ):
        monkeypatch.setattr(salt.modules.sysmod, key, value, raising=False)
    return salt.modules.sysmod.interface(str(declaration))


def names(lines):
    """
    Return the names in lines of a result, which is "complete" without lines
    """
    if lines == "complete":
        return set()
    return {name for line in lines for name in line.partition(":")[0].split(", ")}


@pytest.mark.parametrize("name", providers())
def test_twenty_lines_say_all(monkeypatch, minion_opts, name):
    """
    Each function of the interface is named, alone or by its feature, in twenty lines
    """
    found = describe(monkeypatch, name)
    minion_opts["color"] = False
    shown = salt.output.out_format({"web1": found}, "nested", minion_opts)
    assert len(shown.splitlines()) <= 20
    declaration, functions = load(name)
    features = salt.interfaces.features(declaration.interface)
    core = set(salt.interfaces.functions(declaration.interface)) - set().union(
        *features.values()
    )
    assert names(found["core"]) == core - set(functions)
    without = set()
    for feature, keys in features.items():
        missing = set(keys) - set(functions)
        assert (feature in found["features"].split(", ")) is not bool(missing)
        if missing == set(keys):
            without.add(feature)
        else:
            without |= {f"{key} of {feature}" for key in missing}
    assert names(found["without"]) == without


def test_reasons_share_a_line(monkeypatch):
    """
    What is missing for the same reason is one line, a feature in part is no core
    """
    found = describe(monkeypatch, "pkgin")
    assert found["core"] == ["upgrade_available: not implemented by pkgin."]
    assert len(found["without"]) == 1
    assert "VersionComparison, owner of Files, Details" in found["without"][0]
    assert describe(monkeypatch, "aptpkg")["without"] == [
        "Groups: not supported by aptpkg: apt has no groups.",
        "Verification, Search: not implemented by aptpkg.",
        "Patches: not supported by aptpkg: Debian publishes no patches.",
    ]


def test_all_names(functions):
    assert functions["sys.interface"]()["pkg"] == "yumpkg"


GATE = """
from salt.interfaces import Interface


class GateInterface(Interface):
    __modulename__ = "gate"

    def open(self) -> bool:
        "Open"

    def close(self) -> bool:
        "Close"


class GardenInterface(GateInterface):
    def paint(self) -> bool:
        "Paint"


__virtualname__ = {0}Interface(__name__)()


def __virtual__():
    return __virtualname__


def open():
    return True
"""


@pytest.mark.parametrize("provider, named", (("a_gate", False), ("b_gate", True)))
@pytest.mark.parametrize("smi", (False, True))
def test_one_interface(minion_opts, tmp_path, smi, provider, named):
    """
    Of two files that declare a name, one with more functions, sys.interface describes
    the one whose errors a look-up raises
    """
    (tmp_path / "modules").mkdir()
    for name, interface in (("a_gate", "Gate"), ("b_gate", "Garden")):
        (tmp_path / "modules" / f"{name}.py").write_text(
            GATE.replace("{0}", interface), encoding="utf-8"
        )
    minion_opts.update(smi=smi, module_dirs=[str(tmp_path)])
    if named:
        minion_opts["providers"] = {"gate": provider}
    functions = salt.loader.minion_mods(minion_opts)
    list(functions)
    found = functions["sys.interface"]("gate")
    assert found["provider"] == provider
    assert found["interface"] == ("GardenInterface" if named else "GateInterface")
    missing = "close, paint" if named else "close"
    assert found["core"] == [f"{missing}: not implemented by {provider}."]
    for name in ("close", "paint"):
        message = f"'gate.{name}' is not available."
        if smi and name in missing:
            message = f"'gate.{name}' is not implemented by {provider}."
        assert functions.missing_fun_string(f"gate.{name}") == message


def test_no_interface(functions):
    with pytest.raises(CommandExecutionError, match="'test' of this minion declares"):
        functions["sys.interface"]("test")


def test_a_module_that_did_not_load(minion_opts, tmp_path):
    (tmp_path / "modules").mkdir()
    for name, source in (("gate", "1 / 0\n"), ("hedge", "import no_such_module\n")):
        (tmp_path / "modules" / f"{name}.py").write_text(source, encoding="utf-8")
    minion_opts["module_dirs"] = [str(tmp_path)]
    functions = salt.loader.minion_mods(minion_opts)
    for name, reason in (
        ("gate", "division by zero"),
        ("hedge", "No module named 'no_such_module'"),
        ("fence", "no module has this name"),
    ):
        with pytest.raises(CommandExecutionError, match=f"'{name}' is not.*{reason}"):
            functions["sys.interface"](name)
