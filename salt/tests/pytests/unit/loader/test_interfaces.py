"""
Tests for salt.loader.interfaces: what a loader makes of interfaces
"""

import functools
import logging
import textwrap

import pytest

import salt.interfaces
import salt.loader
import salt.loader.interfaces
import salt.loader.lazy
import salt.utils.args
from salt.exceptions import CommandExecutionError
from salt.interfaces import Interface
from tests.support.mock import patch

# pylint: disable=protected-access,pointless-statement


class DoorInterface(Interface):
    """
    What a door can do
    """

    __modulename__ = "door"
    __version__ = "1.3"

    def open(self, name, **kwargs):
        """
        Open a door
        """
        return {}

    def close(self, name):
        """
        Close a door
        """
        return {}

    @Interface.optional
    def reload(self, name):
        """
        Put it there anew
        """
        return True

    @Interface.supported(os=["weirdlinux", "beos", "frogbsd"], os_family=["linux"])
    def salute_fireworks(self, name):
        """
        Launch some fireworks
        """
        return {}

    @Interface.not_applicable(osfamily=["Windows", "NetBSD"])
    def knock(self, name, *args):
        """
        Knock
        """
        return {"heard": False}

    @Interface.deprecated("3011", "door.open")
    def force(self, name):
        """
        Open a door by force
        """
        return {}

    @Interface.returns({"open": bool})
    def status(self, name):
        """
        Say how it is
        """
        return {"open": False}


WOODEN = """
    __virtualname__ = "door"

    def __virtual__():
        return __virtualname__

    def open(name, **kwargs):
        return {name: kwargs}

    def status(name):
        return {"open": 1 if name == "broken" else True, "colour": "red"}

    def force(name, strength=3, **kwargs):
        '''
        Break it
        '''
        return name, strength, kwargs

    def paint(name):
        return name
    """


@pytest.fixture(autouse=True)
def interface_of_doors():
    """
    Doors have an interface, and nothing was warned about before
    """
    get = salt.interfaces.get
    with patch.object(
        salt.interfaces,
        "get",
        lambda name: DoorInterface if name == "door" else get(name),
    ), patch.object(salt.loader.interfaces, "_WARNED", set()):
        yield


@pytest.fixture
def modules(tmp_path):
    """
    Write a module of that name
    """

    def write(name, contents=WOODEN):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(contents))

    write.dir = str(tmp_path)
    write("wooden_door")
    return write


@pytest.fixture
def loader(modules):
    """
    Make a loader of the modules
    """

    def make(mode="report", grains=None, names=("door",), **opts):
        opts.update(smi=mode, grains=grains or {}, optimization_order=[0, 1, 2])
        return salt.loader.interfaces.InterfaceLoader(
            [modules.dir], opts, loaded_base_name=f"salt.loaded.{modules.dir[1:]}"
        )

    return make


@pytest.mark.parametrize(
    "virtualname",
    ["PkgInterface(__name__)()", "PkgInterface(__name__)", "'pkg'"],
)
@pytest.mark.parametrize("mode", ["off", "report", "warn", "enforce"])
def test_both_usages_load_as_the_virtual_name(modules, mode, virtualname):
    modules(
        "parcel",
        f"""
        from salt.interfaces.pkg_module import PkgInterface

        __virtualname__ = {virtualname}

        def __virtual__():
            return __virtualname__

        def install(name):
            return name
        """,
    )
    opts = {"smi": mode, "grains": {}, "optimization_order": [0, 1, 2]}
    modules_loader = salt.loader._execution_loader(opts)([modules.dir], opts)
    assert [key for key in modules_loader if not key.startswith("door.")] == [
        "pkg.install"
    ]
    assert all(type(key) is str for key in modules_loader)
    assert modules_loader["pkg.install"]("vim") == "vim"


def test_an_interface_of_ones_own(modules, loader):
    """
    What a module declares goes before what Salt has of this name
    """
    modules(
        "window",
        """
        from salt.interfaces import Interface

        class GateInterface(Interface):
            __modulename__ = "door"

            def lift(self):
                return {}

        __virtualname__ = GateInterface(__name__)()
        def __virtual__():
            return __virtualname__
        def shut():
            return True
        """,
    )
    doors = loader(disable_modules=["wooden_door"])
    assert list(doors) == ["door.shut"]
    with pytest.raises(salt.interfaces.FunctionNotImplementedError):
        doors["door.lift"]()
    with pytest.raises(KeyError):
        doors["door.close"]


@pytest.mark.parametrize("smi", ["off", False, None])
def test_off_is_the_loader_of_always(smi):
    assert salt.loader._execution_loader({"smi": smi}) is salt.loader.lazy.LazyLoader
    assert salt.loader.interfaces.mode({"smi": smi}) == "off"
    assert salt.loader._execution_loader({}) is salt.loader.lazy.LazyLoader


@pytest.mark.parametrize("smi", ["report", "warn", "enforce"])
def test_on_is_another_loader(smi):
    assert (
        salt.loader._execution_loader({"smi": smi})
        is salt.loader.interfaces.InterfaceLoader
    )


def test_an_unknown_mode_is_off(caplog):
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert (
                salt.loader._execution_loader({"smi": "loud"})
                is salt.loader.lazy.LazyLoader
            )
    assert caplog.messages == [
        "The option smi is 'loud'; set it to one of off, report, warn, enforce. "
        "Interfaces are not applied."
    ]


@pytest.mark.parametrize("mode", ["report", "warn", "enforce"])
def test_a_missing_function_is_not_implemented(loader, mode):
    doors = loader(mode)
    message = (
        "'door.close' of the interface DoorInterface 1.3 is not implemented by "
        "wooden_door, which is 'door' on this minion."
    )
    with pytest.raises(salt.interfaces.FunctionNotImplementedError) as exc:
        doors["door.close"]("front", whatever=True)
    assert str(exc.value) == message
    assert isinstance(exc.value, CommandExecutionError)
    assert doors.missing_fun_string("door.close") == message
    assert salt.loader.can_call(doors, "door.close")


def test_what_no_interface_has_is_not_available(loader):
    doors = loader()
    for name in ("door.fly", "gate.open", "door."):
        with pytest.raises(KeyError):
            doors[name]
        assert not salt.loader.can_call(doors, name)
        assert doors.missing_fun_string(name) == f"'{name}' is not available."
    for name in ("door", 3):
        with pytest.raises(KeyError):
            doors[name]


def test_without_a_module_the_reason_is_told(modules, loader):
    modules(
        "wooden_door",
        """
        __virtualname__ = "door"
        def __virtual__():
            return False, "there is no wood"
        """,
    )
    doors = loader()
    with pytest.raises(KeyError):
        doors["door.close"]
    assert doors.missing_fun_string("door.close") == (
        "'door' __virtual__ returned False: there is no wood"
    )


@pytest.mark.parametrize(
    "os, os_family, error",
    [
        ("weirdlinux", "linux", "FunctionNotImplementedError"),
        ("weirdlinux", "bsd", "FunctionNotImplementedError"),
        ("beos", "be", "FunctionNotImplementedError"),
        ("frogbsd", "bsd", "FunctionNotImplementedError"),
        ("BeOS", "be", "FunctionNotImplementedError"),
        ("debian", "Linux", "FunctionNotImplementedError"),
        ("debian", "debian", "FunctionNotSupportedError"),
        ("Windows", "Windows", "FunctionNotSupportedError"),
    ],
)
def test_supported(loader, os, os_family, error):
    doors = loader(grains={"os": os, "os_family": os_family})
    with pytest.raises(getattr(salt.interfaces, error)) as exc:
        doors["door.salute_fireworks"]("new year")
    said = "not supported" if "Supported" in error else "not implemented"
    assert f"is {said} by wooden_door" in str(exc.value)


def test_not_applicable_returns_the_declared_structure(loader, caplog):
    doors = loader(grains={"os_family": "NetBSD"})
    with caplog.at_level(logging.DEBUG, logger="salt.loader.interfaces"):
        assert doors["door.knock"]("front", 3, loud=True) == {"heard": False}
    lines = [one for one in caplog.records if one.name == "salt.loader.interfaces"]
    assert [one.levelname for one in lines] == ["DEBUG"]
    assert "'door.knock' of the interface DoorInterface 1.3 is not applicable" in (
        lines[0].getMessage()
    )


def test_grains_are_those_of_the_call(loader):
    doors = loader(grains={"os_family": "Debian"})
    knock = doors["door.knock"]
    with pytest.raises(salt.interfaces.FunctionNotImplementedError):
        knock("front")
    doors.pack["__grains__"]["os_family"] = "Windows"
    assert knock("front") == {"heard": False}


@pytest.mark.parametrize("mode", ["report", "warn", "enforce"])
def test_no_test_sees_what_is_missing(modules, loader, mode):
    stock = salt.loader.lazy.LazyLoader(
        [modules.dir],
        {"optimization_order": [0, 1, 2]},
        loaded_base_name=f"salt.loaded.{modules.dir[1:]}",
    )
    doors = loader(mode)
    for name in (*salt.interfaces.functions(DoorInterface), "paint", "fly"):
        key = f"door.{name}"
        assert (key in doors) is (key in stock)
        assert (doors.get(key) is None) is (stock.get(key) is None)
        assert doors.get(key, 3) == 3 or key in stock
        assert (key in doors.keys()) is (key in stock.keys())
        assert hasattr(doors.door, name) is hasattr(stock.door, name)
        if key not in stock:
            assert doors.pop(key, 3) == 3
            with pytest.raises(KeyError):
                doors.pop(key)
    assert list(doors) == list(stock)
    assert len(doors) == len(stock)
    assert [key for key, _ in doors.items()] == list(stock)
    assert hasattr(doors, "gate") is hasattr(stock, "gate") is False


def test_setdefault_and_pop(loader):
    doors = loader()
    assert doors.setdefault("door.close", lambda: 3)() == 3
    assert doors["door.close"]() == 3
    assert doors.setdefault("door.paint", None)("x") == "x"
    doors.pop("door.close")
    assert "door.close" not in doors


def test_attributes_are_functions_that_are_there(loader):
    doors = loader("warn")
    assert doors.door.open("front", wide=True) == {"front": {"wide": True}}
    with pytest.raises(AttributeError, match="is not implemented by wooden_door"):
        doors.door.close


@pytest.mark.parametrize(
    "function, said",
    [
        (
            "force",
            "The function 'door.force' is deprecated and will be removed in Salt 3011; "
            "use 'door.open' instead.",
        ),
        (
            "paint",
            "The function 'door.paint' is deprecated and is subject to be removed in "
            "the future.",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["report", "warn", "enforce"])
def test_one_warning_in_a_hundred_calls(loader, caplog, mode, function, said):
    doors = loader(mode)
    plain = doors._dict
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            assert doors[f"door.{function}"]("front") == plain[f"door.{function}"](
                "front"
            )
    assert caplog.messages == ([] if mode == "report" else [said])


def test_a_deprecated_function_is_called_as_ever(modules, loader):
    stock = salt.loader.lazy.LazyLoader(
        [modules.dir],
        {"optimization_order": [0, 1, 2]},
        loaded_base_name=f"salt.loaded.{modules.dir[1:]}",
    )
    doors = loader("enforce")
    watched = doors["door.force"]
    assert watched("a", 4, __pub_jid="20260101") == ("a", 4, {"__pub_jid": "20260101"})
    assert salt.utils.args.get_function_argspec(
        watched
    ) == salt.utils.args.get_function_argspec(stock["door.force"])
    assert salt.utils.args.get_function_argspec(watched) == (
        ["name", "strength"],
        None,
        "kwargs",
        (3,),
    )
    assert watched.__doc__ == stock["door.force"].__doc__
    assert watched.__name__ == "force"
    assert watched.__globals__ is stock["door.force"].__globals__


@pytest.mark.parametrize("mode", ["report", "warn"])
def test_a_wrong_return_is_passed_on(loader, caplog, mode):
    doors = loader(mode)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert doors["door.status"]("broken") == {"open": 1, "colour": "red"}
            assert doors["door.status"]("good") == {"open": True, "colour": "red"}
    said = (
        "'door.status' was called and returned another structure than the interface "
        "DoorInterface 1.3 declares: the result['open'] is int, not bool."
    )
    assert caplog.messages == ([] if mode == "report" else [said])


def test_a_wrong_return_is_an_error_when_enforced(loader):
    doors = loader("enforce")
    assert doors["door.status"]("good") == {"open": True, "colour": "red"}
    with pytest.raises(
        salt.interfaces.ReturnStructureError, match="'open'. is int, not bool"
    ):
        doors["door.status"]("broken")


def test_an_alias_is_no_missing_function(modules, loader):
    modules(
        "wooden_door",
        """
        __virtualname__ = "door"
        __func_alias__ = {"reload_": "reload"}
        def __virtual__():
            return __virtualname__
        def reload_(name):
            return name + " anew"
        """,
    )
    for mode in ("report", "warn", "enforce"):
        assert loader(mode)["door.reload"]("front") == "front anew"


def test_two_files_of_one_virtual_name(modules, loader):
    """
    What the second file brings in is no missing function, whichever comes first
    """
    modules(
        "door_handles",
        """
        __virtualname__ = "door"
        def __virtual__():
            return __virtualname__
        def close(name):
            return name
        """,
    )
    for first in ("door.open", "door.close"):
        doors = loader()
        assert doors[first]("front")
        assert doors["door.close"]("front") == "front"
        assert doors["door.paint"]("front") == "front"
        with pytest.raises(salt.interfaces.FunctionNotImplementedError) as exc:
            doors["door.reload"]("front")
        assert "by door_handles, wooden_door," in str(exc.value)


@pytest.mark.parametrize("smi", ["off", "report", "warn", "enforce"])
def test_a_provider_of_the_configuration_is_never_hidden(modules, minion_opts, smi):
    """
    What the option ``providers`` brings in goes before any stub, for states too
    """
    modules(
        "steel_gate",
        """
        def open(name):
            return "steel"

        def salute_fireworks(name):
            return "sparks"
        """,
    )
    minion_opts.update(
        smi=smi,
        grains={},
        module_dirs=[modules.dir],
        providers={"door": "steel_gate"},
        optimization_order=[0, 1, 2],
    )
    outer = salt.loader.minion_mods(minion_opts)
    for functions in (outer, outer._dunder_salt):
        assert functions["door.open"]("front") == "steel"
        assert functions["door.salute_fireworks"]("front") == "sparks"
        assert functions["door.paint"]("front") == "front"
        assert "door.reload" not in functions
        if smi == "off":
            with pytest.raises(KeyError):
                functions["door.reload"]
        else:
            with pytest.raises(CommandExecutionError, match="door.reload"):
                functions["door.reload"]("front")


@pytest.mark.parametrize("smi", ["report", "warn", "enforce"])
def test_who_expects_a_key_error_goes_on(loader, smi):
    """
    Code of Salt's own tries a function and goes on without it
    """
    doors = loader(smi)
    for missing in ("door.reload", "door.salute_fireworks"):
        with pytest.raises(KeyError) as exc:
            doors[missing]("front")
        assert str(exc.value).startswith(f"'{missing}' of the interface")


def test_no_name_hides_a_module(loader):
    """
    Attributes of a loader are the names of modules
    """
    public = {name for name in dir(loader()) if not name.startswith("_")}
    known = {
        name
        for name in dir(salt.loader.lazy.LazyLoader([], {"optimization_order": [0]}))
        if not name.startswith("_")
    }
    assert public - known == set()


def test_pop_and_setdefault_are_those_of_a_dictionary(loader):
    doors = loader()
    assert doors.setdefault("door.nothing", len) is len
    assert doors.pop("door.none", default=1) == 1
    with pytest.raises(KeyError):
        doors.pop("door.none")


def test_a_refresh_forgets_what_was_missing(modules, loader):
    doors = loader()
    for _ in range(3):
        with pytest.raises(salt.interfaces.FunctionNotImplementedError):
            doors["door.close"]("front")
        modules("wooden_door", WOODEN + "\n    def close(name):\n        return 3\n")
        _drop_bytecode(modules)
        doors.clear()
        assert doors["door.close"]("front") == 3
        modules("wooden_door")
        _drop_bytecode(modules)
        # a reload reuses the dictionary of the module, so it has to go from there
        doors._dict["door.open"].__globals__.pop("close")
        doors.clear()
        assert "door.close" not in doors


def _drop_bytecode(modules):
    """
    A file of the same second and size is taken for the one that was compiled
    """
    import pathlib
    import shutil

    shutil.rmtree(pathlib.Path(modules.dir) / "__pycache__", ignore_errors=True)


def test_two_loaders_do_not_disturb_each_other(loader):
    loud, quiet = loader("enforce"), loader("report")
    off = salt.loader.lazy.LazyLoader([loud.module_dirs[0]], {})
    for doors in (loud, quiet, off, loud):
        assert doors["door.open"]("x") == {"x": {}}
    with pytest.raises(salt.interfaces.ReturnStructureError):
        loud["door.status"]("broken")
    assert quiet["door.status"]("broken")["open"] == 1
    assert off["door.status"]("broken")["open"] == 1
    with pytest.raises(KeyError):
        off["door.close"]
    loud["door.close"] = lambda: 3
    with pytest.raises(salt.interfaces.FunctionNotImplementedError):
        quiet["door.close"]()


def test_a_broken_interface_breaks_no_module(loader, caplog):
    with patch.object(salt.interfaces, "get", side_effect=SyntaxError("no")):
        doors = loader("enforce")
        assert doors["door.paint"]("x") == "x"
        with pytest.raises(KeyError):
            doors["door.close"]
    assert "The interface of 'door' is broken" in caplog.messages


def test_can_call_takes_any_dictionary():
    assert salt.loader.can_call({"a.b": 1}, "a.b")
    assert not salt.loader.can_call({"a.b": 1}, "a.c")


def test_a_partial_is_loaded_too(modules, loader):
    doors = loader("warn")
    doors["door.paint"]
    doors._dict["door.close"] = functools.partial(doors._dict["door.paint"], "x")
    assert salt.loader.can_call(doors, "door.close")
