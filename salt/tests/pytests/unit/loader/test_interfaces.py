"""
What the loader does with modules that declare an interface
"""

import copy
import gc
import logging
import pickle
import textwrap
import threading

import pytest
import yaml

import salt.interfaces
import salt.loader
import salt.utils.args
import salt.utils.files
import salt.utils.yaml
from salt.exceptions import CommandExecutionError
from salt.interfaces import Feature, Interface
from salt.loader.lazy import LazyLoader, LoadedCoro, LoadedFunc
from tests.support.mock import patch

DOOR = """
from salt.interfaces import Feature, Interface


class DoorInterface(Interface):
    __modulename__ = "door"
    __deprecated__ = {"shut": "close"}

    def status(self, name):
        return {"open": False}

    def close(self, name):
        pass

    def lock(self, name, key=None):
        pass

    @Interface.supported(os=["BeOS"])
    def fly(self, name):
        pass

    @Interface.not_applicable(osfamily=["debian"])
    def knock(self, name, *, loud=False):
        return {"heard": False}

    class Bell(Feature):
        def ring(self, name):
            pass

        def mute(self, name):
            pass


__virtualname__ = %s


def __virtual__():
    return __virtualname__


def status(name):
    return {"open": name == "front", "more": 1}


def close(name):
    return True


def shut(name):
    return close(name)


def paint(name, colour="red"):
    return colour


def polish(name):
    return "polished"
"""
OWN = "DoorInterface(__name__, own=['polish'], lacks={'Bell': 'wood has no wires'})()"
NAMES = ["close", "paint", "polish", "shut", "status"]


@pytest.fixture
def opts():
    return {"smi": True, "grains": {"os": "Debian", "os_family": "Debian"}}


@pytest.fixture
def make(tmp_path, opts):
    """
    Return a loader of files with these sources
    """

    def make(declaration=OWN, **sources):
        (tmp_path / "wooden_door.py").write_text(DOOR % declaration)
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        salt.interfaces._warned.clear()  # pylint: disable=protected-access
        # a module of this name in sys.modules would be loaded again into its namespace
        return LazyLoader(
            [str(tmp_path)], opts, tag="module", loaded_base_name=tmp_path.name
        )

    return make


@pytest.mark.parametrize(
    "declaration", (OWN, OWN[:-2], "DoorInterface(__name__)()", "DoorInterface")
)
def test_all_ways_to_declare(make, declaration):
    doors = make(declaration)
    assert doors["door.status"]("front") == {"open": True, "more": 1}
    assert sorted(doors) == sorted(f"door.{name}" for name in [*NAMES, "knock"])
    assert {type(key.partition(".")[0]) for key in doors} == {str}
    assert {type(name) for name in doors.loaded_modules} == {str}


@pytest.mark.parametrize(
    "name, error, message",
    (
        (
            "lock",
            salt.interfaces.FunctionNotImplementedError,
            "'door.lock' is not implemented by wooden_door.",
        ),
        (
            "fly",
            salt.interfaces.FunctionNotSupportedError,
            "'door.fly' is not supported by wooden_door on this platform.",
        ),
        (
            "ring",
            salt.interfaces.FunctionNotSupportedError,
            "'door.ring' is not supported by wooden_door: wood has no wires.",
        ),
    ),
)
def test_a_missing_function_says_why(make, name, error, message):
    doors = make()
    key = f"door.{name}"
    with pytest.raises(error) as exc:
        doors[key]("front")
    assert str(exc.value) == message
    assert isinstance(exc.value, CommandExecutionError)
    assert isinstance(exc.value, KeyError)
    copied = pickle.loads(pickle.dumps(exc.value))
    assert copied.message == copied.strerror == str(copied) == message
    assert doors.missing_fun_string(key) == message


def test_supported_platform_must_have_it(make, opts):
    opts["grains"]["os"] = "beos"
    with pytest.raises(salt.interfaces.FunctionNotImplementedError) as exc:
        make()["door.fly"]  # pylint: disable=expression-not-assigned
    assert not isinstance(exc.value, salt.interfaces.FunctionNotSupportedError)


def test_who_asks_first_gets_the_answer_of_stock(make):
    """
    Tests, defaults, iteration and attributes do not see the interface
    """
    doors = make()
    for name in ("lock", "fly", "ring", "nosuch"):
        assert f"door.{name}" not in doors
        assert doors.get(f"door.{name}") is None
        assert not hasattr(doors.door, name)
        try:
            doors[f"door.{name}"]("front")
        except KeyError:
            pass
    with pytest.raises(KeyError) as exc:
        doors["door.nosuch"]  # pylint: disable=pointless-statement
    assert type(exc.value) is KeyError
    assert doors.missing_fun_string("door.nosuch") == "'door.nosuch' is not available."


def test_a_missed_look_up_leaves_no_cycle(make):
    """
    The garbage collector would take longer than the look-up
    """
    modules = make()
    assert "door.ring" not in modules
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            assert "door.ring" not in modules
        assert gc.collect() < 100
    finally:
        gc.enable()


def test_what_is_missing_is_searched_once(make):
    """
    No other file may add it, so no file is looked for again
    """
    doors = make()
    assert "door.lock" not in doors
    with patch.object(doors, "_load", side_effect=AssertionError):
        assert "door.lock" not in doors
        with pytest.raises(salt.interfaces.FunctionNotImplementedError):
            doors["door.lock"]  # pylint: disable=pointless-statement


def test_is_defined_in_a_template(make):
    jinja2 = pytest.importorskip("jinja2")
    text = "{{ salt['door.lock'] is defined }} {{ salt['door.close'] is defined }}"
    assert jinja2.Template(text).render(salt=make()) == "False True"


def test_not_applicable(make, opts, caplog):
    """
    It returns the declared structure, a line is logged, and it takes what callers pass
    """
    doors = make()
    assert "door.close" in doors
    with caplog.at_level(logging.DEBUG):
        assert doors["door.knock"]("front", loud=True) == {"heard": False}
    assert "'door.knock' is not applicable here" in caplog.text
    assert salt.utils.args.get_function_argspec(doors["door.knock"]).args == [
        "name",
        "loud",
    ]
    opts["grains"]["os_family"] = "Suse"
    assert "door.knock" not in make()


def test_a_real_function_wins_over_not_applicable(make):
    doors = make(
        z_knocker="""
        __virtualname__ = "door"
        def __virtual__():
            return __virtualname__
        def knock(name, *, loud=False):
            return {"heard": True}
        """
    )
    # another module may not fill a gap of the declaring one
    list(doors)
    assert doors["door.knock"]("front") == {"heard": False}


def test_no_other_module_fills_gaps(make, opts):
    """
    What the interface has comes from one module; what it does not have may come from
    another one
    """
    other = """
        __virtualname__ = "door"
        def __virtual__():
            return __virtualname__
        def lock(name, key=None):
            return "other"
        def slam(name):
            return "other"
        """
    doors = make(z_other_door=other)
    list(doors)
    assert "door.lock" not in doors
    assert doors["door.slam"]("front") == "other"
    opts["smi"] = False
    doors = make(z_other_door=other)
    list(doors)
    assert doors["door.lock"]("front") == "other"


def test_deprecated_functions_warn_once(make, caplog):
    doors = make()
    for _ in range(2):
        assert doors["door.shut"]("front") is True
        assert doors["door.paint"]("front", colour="blue") == "blue"
        assert doors["door.polish"]("front") == "polished"
        assert doors["door.close"]("front") is True
    assert [one.getMessage() for one in caplog.records if "depre" in one.msg] == [
        "The function 'door.shut' is deprecated; use 'door.close'.",
        "The function 'door.paint' is deprecated; other modules lack it.",
    ]
    spec = salt.utils.args.get_function_argspec(doors["door.paint"])
    assert (spec.args, spec.defaults) == (["name", "colour"], ("red",))


def test_signatures_are_compared_at_load(make, caplog, tmp_path):
    source = (DOOR % OWN).replace("def close(name)", "def close(name, gently)")
    loader = make()
    (tmp_path / "wooden_door.py").write_text(source)
    assert "door.close" in loader
    line = source[: source.index("def close(name, gently)")].count("\n") + 1
    assert (
        f"wooden_door.py:{line}: 'door.close' requires the argument 'gently'; "
        "DoorInterface has close(self, name)." in caplog.text
    )


def test_aliases_have_the_interface(make, tmp_path):
    loader = make()
    with salt.utils.files.fopen(tmp_path / "wooden_door.py", "a") as handle:
        handle.write("\n__virtual_aliases__ = ('gate',)\n")
    assert loader["gate.status"]("front")["open"] is True
    with pytest.raises(salt.interfaces.FunctionNotImplementedError):
        loader["gate.lock"]  # pylint: disable=pointless-statement


@pytest.mark.parametrize("value", (False, None, "off", "report", "enforce"))
def test_off(make, opts, value, caplog):
    """
    Nothing but True turns it on, and without it nothing differs from stock
    """
    opts["smi"] = value
    doors = make()
    # a look-up costs nothing more
    assert type(doors) is LazyLoader
    assert sorted(doors) == [f"door.{name}" for name in NAMES]
    with pytest.raises(KeyError) as exc:
        doors["door.lock"]  # pylint: disable=pointless-statement
    assert type(exc.value) is KeyError
    assert doors.missing_fun_string("door.lock") == "'door.lock' is not available."
    assert doors["door.shut"]("front") is True
    assert "deprecated" not in caplog.text
    assert doors.interfaces["door"].interface.__name__ == "DoorInterface"


def test_a_coroutine(make):
    doors = make(
        bell="""
        async def ring():
            return True
        """
    )
    assert type(doors["bell.ring"]) is LoadedCoro
    assert type(doors["door.close"]) is LoadedFunc


def test_reload_and_clear(make, tmp_path):
    """
    A module that no longer declares an interface has none
    """
    doors = make()
    assert "door.close" in doors
    (tmp_path / "wooden_door.py").write_text(
        "__virtualname__ = 'door'\n"
        "def __virtual__():\n    return __virtualname__\n"
        "def open_(name):\n    return True\n"
    )
    doors.clear()
    assert "door.open_" in doors
    assert not doors.interfaces
    with pytest.raises(KeyError) as exc:
        doors["door.lock"]  # pylint: disable=pointless-statement
    assert type(exc.value) is KeyError


def test_threads(make):
    doors = make()
    answers = []

    def ask():
        for name in ("close", "lock", "knock", "ring"):
            answers.append((name, f"door.{name}" in doors))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 64
    assert set(answers) == {
        ("close", True),
        ("lock", False),
        ("knock", True),
        ("ring", False),
    }


def test_a_declaration_is_a_string():
    class PairInterface(Interface):
        __modulename__ = "pair"

    declaration = PairInterface("salt.modules.pair")
    assert declaration == "pair" and declaration() is declaration
    assert copy.deepcopy(declaration) is declaration
    assert type(pickle.loads(pickle.dumps(declaration))) is str
    assert type(str(declaration)) is str


def test_yaml_is_as_on_stock(make):
    """
    No dumper learns of subclasses of str, and no name of a loader is one
    """

    class Name(str):
        pass

    doors = make()
    assert "door.close: door" in salt.utils.yaml.safe_dump(
        {name: name.partition(".")[0] for name in doors}
    )
    with pytest.raises(yaml.representer.RepresenterError):
        yaml.safe_dump(Name("front"))


def test_interfaces_inherit():
    class One(Interface):
        __modulename__ = "one"

        def first(self):
            pass

    class Two(Interface):
        __modulename__ = "two"

        def second(self):
            pass

        class Extra(Feature):
            def third(self):
                pass

    class Both(One, Two):
        pass

    assert set(salt.interfaces.functions(Both)) == {"first", "second", "third"}
    assert salt.interfaces.features(Both) == {"Extra": ["third"]}


@pytest.mark.parametrize(
    "arguments, message",
    (
        ({"lacks": {"Wings": "none"}}, "lacks 'Wings', which is neither a feature"),
        ({"lacks": {"Wings": "none"}}, "Its features are: Locks"),
        ({"own": ["status"]}, "lists 'status' as its own function"),
        ({"own": "knock"}, "own is a list of functions"),
        ({"lacks": ["Locks"]}, "lacks a dictionary of reasons"),
    ),
)
def test_wrong_declarations(arguments, message):
    class DoorInterface(Interface):
        __modulename__ = "door"

        def status(self, name):
            pass

        class Locks(Feature):
            def lock(self, name):
                pass

    with pytest.raises(TypeError, match=message):
        DoorInterface("door", **arguments)
    with pytest.raises(TypeError, match=r"Declare it with DoorInterface\(__name__\)"):
        DoorInterface()


def test_wrong_interfaces():
    with pytest.raises(TypeError, match="Set __modulename__ in Interface"):
        Interface("door")
    for decorator in (Interface.supported, Interface.not_applicable):
        with pytest.raises(TypeError, match="needs a grain"):
            decorator()
