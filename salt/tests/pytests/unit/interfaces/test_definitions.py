"""
The interfaces themselves
"""

import importlib
import inspect
import pathlib

import pytest

import salt.interfaces
from tests.pytests.unit.interfaces.providers import load, others, providers

# These names have no interface: one module, or modules that are different programs
WITHOUT = ("disk", "ntp", "nxos", "pkgutil", "x509")
# What all modules of two of them have. They would be core; alone they are no interface.
WITHOUT_BUT_SHARED = {"disk.usage", "ntp.set_servers"}
# Salt asks whether they are there, and no module has them any more
ASKED_FOR = {
    "pkg.check_db",
    "pkg.check_extra_requirements",
    "pkg.ex_mod_init",
    "pkg.version_clean",
}
FOLDER = pathlib.Path(salt.interfaces.__file__).parent
NAMES = sorted(path.stem[: -len("_module")] for path in FOLDER.glob("*_module.py"))


def interface_of(name):
    """
    Return the interface of a virtual name
    """
    module = importlib.import_module(f"salt.interfaces.{name}_module")
    return getattr(module, f"{name.capitalize()}Interface")


def test_every_interface_is_declared_by_two_modules():
    """
    An interface of one module would say nothing about others
    """
    declared = [str(load(name)[0]) for name in providers()]
    assert sorted(set(declared)) == NAMES
    assert len(NAMES) == 16
    assert min(declared.count(name) for name in NAMES) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_described(name):
    """
    Each function says what it does and what it returns
    """
    interface = interface_of(name)
    assert interface.__modulename__ == name
    for method in salt.interfaces.functions(interface).values():
        assert inspect.getdoc(method), method
        assert "return" in method.__annotations__, method


@pytest.mark.parametrize("name", NAMES)
def test_a_function_is_in_one_place(name):
    """
    No name is a function twice, or a function and a second name
    """
    interface = interface_of(name)
    features = salt.interfaces.features(interface)
    names = [one for each in features.values() for one in each]
    names += [
        one for one, value in vars(interface).items() if inspect.isfunction(value)
    ]
    assert sorted(names) == sorted(set(names))
    assert set(names) == set(salt.interfaces.functions(interface))
    assert not set(names) & set(interface.__deprecated__)


@pytest.mark.parametrize("name", NAMES)
def test_a_feature_is_whole_somewhere(name):
    """
    At least two modules have all functions of a feature
    """
    modules = [load(one) for one in providers()]
    for feature, names in salt.interfaces.features(interface_of(name)).items():
        whole = [
            declaration
            for declaration, functions in modules
            if declaration == name and set(names) <= set(functions)
        ]
        assert len(whole) >= 2, feature


def test_every_function_is_in_one_place():
    """
    Each function of the twenty-one virtual names that several modules serve is core, of
    a feature, or left out: a module's own, a second name, or of a module without an
    interface
    """
    core, feature, left_out = set(), set(), set()
    for declaration, functions in map(load, providers()):
        interface = declaration.interface
        of_features = set().union(*salt.interfaces.features(interface).values())
        for name in salt.interfaces.functions(interface).keys() | functions.keys():
            places = [
                (left_out, name in declaration.own | interface.__deprecated__.keys()),
                (feature, name in of_features),
                (core, name in set(salt.interfaces.functions(interface)) - of_features),
            ]
            place = [place for place, is_in in places if is_in]
            assert len(place) == 1, (declaration.module, name)
            place[0].add(f"{declaration}.{name}")
    for name in (*NAMES, *WITHOUT):
        for module in others(name):
            # modules of proxies add to the names that have an interface
            left_out |= {f"{name}.{one}" for one in load(module)[1]} - core - feature
    for name in ("disk", "ntp"):
        keys = (set(load(module)[1]) for module in others(name))
        shared = {f"{name}.{one}" for one in set.intersection(*keys)}
        assert shared == {
            one for one in WITHOUT_BUT_SHARED if one.startswith(f"{name}.")
        }
    assert WITHOUT_BUT_SHARED <= left_out
    left_out |= ASKED_FOR
    assert not core & feature and not (core | feature) & left_out
    assert (len(core), len(feature), len(left_out)) == (146, 96, 356)
