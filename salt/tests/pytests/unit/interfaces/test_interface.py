"""
Unit tests for the declaration of interfaces
"""

import ast
import copy
import functools
import inspect
import pathlib
import pickle
import sys

import pytest

import salt.interfaces
import salt.payload
import salt.utils.json
import salt.utils.yaml
from salt.exceptions import CommandExecutionError
from salt.interfaces import Interface
from salt.interfaces.pkg_module import PkgInterface


@Interface.profile("minimal", ["stop"])
@Interface.feature("brakes", ["stop", "slow_down"])
class CarInterface(Interface):
    """
    What a car can do
    """

    __modulename__ = "car"
    __version__ = "2.1"
    __func_alias__ = {"import_": "import"}

    def drive(self, where, *stops, speed=50, **kwargs):
        """
        Go there
        """
        return {"arrived": False}

    def stop(self):
        """
        Stand still
        """

    @Interface.returns({"speed": int})
    def slow_down(self):
        """
        Drive slower
        """

    @Interface.optional
    def import_(self, parts):
        """
        Get parts from elsewhere
        """
        return []

    @Interface.deprecated("3011", "car.drive")
    def gallop(self):
        """
        What horses do
        """

    @Interface.deprecated
    def trot(self):
        """
        What horses do
        """

    def _private(self):
        """
        No function
        """


def test_both_usages_are_the_virtual_name():
    called = PkgInterface("salt.loaded.int.module.aptpkg")()
    instance = PkgInterface("salt.loaded.int.module.aptpkg")
    for virtualname in (called, instance):
        assert virtualname == "pkg"
        assert isinstance(virtualname, str)
        assert isinstance(virtualname, PkgInterface)
        assert isinstance(virtualname, Interface)
        assert not isinstance(virtualname, CarInterface)
        assert hash(virtualname) == hash("pkg")
        assert f"{virtualname}.install" == "pkg.install"
        assert ".".join((virtualname, "install")) == "pkg.install"
        assert virtualname.interface is PkgInterface
        assert virtualname.module == "salt.loaded.int.module.aptpkg"


def test_a_plain_name_is_no_declaration():
    assert not isinstance("pkg", PkgInterface)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_knows_its_interface(copied):
    virtualname = copied(CarInterface("x", profile="minimal"))
    assert (virtualname.interface, virtualname.module, virtualname.profile) == (
        CarInterface,
        "x",
        "minimal",
    )


def _pickled(data, protocol):
    return pickle.loads(pickle.dumps(data, protocol))


@pytest.mark.parametrize(
    "sent",
    [
        *(
            functools.partial(_pickled, protocol=protocol)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
        lambda data: salt.utils.json.loads(salt.utils.json.dumps(data)),
        lambda data: salt.payload.loads(salt.payload.dumps(data)),
        lambda data: salt.utils.yaml.safe_load(salt.utils.yaml.safe_dump(data)),
        lambda data: salt.utils.yaml.safe_load(salt.utils.yaml.dump(data)),
        lambda data: salt.utils.yaml.safe_load(
            salt.utils.yaml.dump(data, Dumper=salt.utils.yaml.OrderedDumper)
        ),
        lambda data: salt.utils.yaml.safe_load(
            salt.utils.yaml.dump(data, Dumper=salt.utils.yaml.IndentedSafeOrderedDumper)
        ),
    ],
)
def test_what_leaves_the_process_is_the_plain_name(sent):
    """
    The other side may not have the interface
    """
    virtualname = CarInterface("x", profile="minimal")
    found = sent({"name": virtualname, virtualname: [virtualname]})
    assert found == sent({"name": "car", "car": ["car"]})
    assert {type(one) for one in (*found, *found["car"], found["name"])} == {str}


def test_functions_have_tiers():
    assert {
        name: (one.tier, one.feature)
        for name, one in salt.interfaces.functions(CarInterface).items()
    } == {
        "drive": ("core", None),
        "stop": ("feature", "brakes"),
        "slow_down": ("feature", "brakes"),
        "import": ("optional", None),
        "gallop": ("deprecated", None),
        "trot": ("deprecated", None),
    }
    assert salt.interfaces.features(CarInterface) == {"brakes": ["stop", "slow_down"]}
    assert salt.interfaces.profiles(CarInterface) == {"minimal": ["stop"]}


def test_signature_is_without_self():
    def drive(where, *stops, speed=50, **kwargs):
        pass

    assert salt.interfaces.functions(CarInterface)[
        "drive"
    ].signature == inspect.signature(drive)


def test_defaults():
    functions = salt.interfaces.functions(CarInterface)
    first = functions["drive"].default()
    assert first == {"arrived": False}
    assert functions["drive"].default() is not first
    assert functions["slow_down"].default() == {"speed": 0}
    assert functions["stop"].default() is None


def test_deprecation_says_until_when_and_what_instead():
    functions = salt.interfaces.functions(CarInterface)
    assert str(functions["gallop"].deprecation) == (
        "deprecated and will be removed in Salt 3011; use 'car.drive' instead"
    )
    assert str(functions["trot"].deprecation) == (
        "deprecated and is subject to be removed in the future"
    )


def test_a_subclass_adds_to_its_parent():
    class RaceCarInterface(CarInterface):
        def pit_stop(self):
            """
            Change tyres
            """

    functions = salt.interfaces.functions(RaceCarInterface)
    assert "gallop" in functions
    assert "pit_stop" in functions
    assert "pit_stop" not in salt.interfaces.functions(CarInterface)
    assert functions["stop"].feature == "brakes"


@pytest.mark.parametrize(
    "os, os_family, absent",
    [
        ("weirdlinux", "linux", "not implemented"),
        ("weirdlinux", "bsd", "not implemented"),
        ("beos", "be", "not implemented"),
        ("frogbsd", "bsd", "not implemented"),
        ("BeOS", "be", "not implemented"),
        ("debian", "Linux", "not implemented"),
        ("debian", "debian", "not supported"),
        ("Windows", "Windows", "not supported"),
    ],
)
def test_supported_matches_any_grain(os, os_family, absent):
    class FireworksInterface(Interface):
        __modulename__ = "fireworks"

        @Interface.supported(os=["weirdlinux", "beos", "frogbsd"], os_family=["linux"])
        def salute_fireworks(self, name):
            """
            Launch some fireworks
            """
            return {}

    function = salt.interfaces.functions(FireworksInterface)["salute_fireworks"]
    assert function.absent({"os": os, "os_family": os_family}) == absent


def test_not_applicable_goes_before_supported():
    class FooInterface(Interface):
        __modulename__ = "foo"

        @Interface.supported(os_family="RedHat")
        @Interface.not_applicable(osfamily=["Windows", "NetBSD"], roles=["router"])
        def foo(self, name, *args):
            return {}

    function = salt.interfaces.functions(FooInterface)["foo"]
    assert function.absent({"os_family": "Windows"}) == "not applicable"
    assert function.absent({"roles": ["web", "router"]}) == "not applicable"
    assert function.absent({"os_family": "RedHat"}) == "not implemented"
    assert function.absent({}) == "not supported"
    assert function.default() == {}


def test_errors_are_command_execution_errors():
    for name in salt.interfaces.__all__:
        if name.endswith("Error"):
            assert issubclass(getattr(salt.interfaces, name), CommandExecutionError)


def _nameless():
    class Nameless(Interface):
        pass

    return Nameless


def _marked(decorator):
    class Marked(Interface):
        __modulename__ = "marked"
        one = decorator(3)

    return Marked


def _feature(*functions):
    class Featured(Interface):
        __modulename__ = "featured"

        def one(self):
            pass

    Interface.feature("first", ["one"])(Featured)
    Interface.feature("second", list(functions))(Featured)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Interface("x"),
        _nameless,
        Interface.supported,
        Interface.not_applicable,
        lambda: Interface.returns({1: str}),
        lambda: Interface.returns([]),
        lambda: Interface.returns("str"),
        lambda: _marked(Interface.optional),
        lambda: _feature("two"),
        lambda: _feature("one"),
        _feature,
        lambda: Interface.profile("minimal", ["fly"])(CarInterface),
        lambda: CarInterface("x", profile="fast"),
    ],
)
def test_a_wrong_declaration_is_an_error(wrong):
    with pytest.raises(salt.interfaces.DeclarationError):
        wrong()


def test_get():
    assert salt.interfaces.get("pkg") is PkgInterface
    assert "pkg" in salt.interfaces.names()
    for name in ("no_such", "../pkg", "pkg.install", "", "schema"):
        assert salt.interfaces.get(name) is None


def test_every_interface_can_be_read():
    for name in salt.interfaces.names():
        interface = salt.interfaces.get(name)
        assert interface.__modulename__ == name
        for function in salt.interfaces.functions(interface).values():
            assert function.signature is not None
            assert function.doc
            function.default()


@pytest.mark.skipif(
    not hasattr(sys, "stdlib_module_names"), reason="Python 3.9 does not list them"
)
def test_interfaces_need_the_standard_library_only():
    """
    They are in the thin tarball of salt-ssh, and are read on machines without Salt's
    dependencies
    """
    foreign = set()
    for path in pathlib.Path(salt.interfaces.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                foreign.update(one.name for one in node.names)
            elif isinstance(node, ast.ImportFrom):
                foreign.add(node.module)
    # Python 3.9 does not list its modules
    known = getattr(sys, "stdlib_module_names", None)
    if known is None:
        pytest.skip("Needs Python 3.10 or newer")
    foreign = {one for one in foreign if one.split(".")[0] not in known}
    assert all(
        one == "salt.exceptions" or one.startswith("salt.interfaces") for one in foreign
    ), foreign
