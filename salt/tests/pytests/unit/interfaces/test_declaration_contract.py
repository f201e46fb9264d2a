"""
What an author of a module learns from the contract of its declaration
"""

import inspect
import pathlib

import pytest

import tests.pytests.contract
from salt.interfaces.pkg_module import PkgInterface
from tests.pytests.contract.declaration_contract import load, problems

WOOD = pathlib.Path(tests.pytests.contract.__file__).with_name("wood_pkg.py")
SOURCE = WOOD.read_text(encoding="utf-8")
LIGHTS = '''
from salt.interfaces import Feature, Interface


class LightsInterface(Interface):
    __modulename__ = "lights"

    def state(self, name) -> dict:
        """Say which lights are on"""

    class Dimming(Feature):
        def dim(self, name, percent=50) -> bool:
            """Dim a light"""

        def brightness(self, name) -> int:
            """Say how bright a light is"""


__virtualname__ = LightsInterface(__name__)()


def state(name):
    return {"on": []}
'''


@pytest.fixture
def found(tmp_path, minion_opts):
    """
    Return a function that returns what is wrong with the source of a module
    """

    def found(source):
        file = tmp_path / "wood_pkg.py"
        file.write_text(source, encoding="utf-8")
        return problems(file, *load(file, minion_opts), {"os_family": "Debian"})

    return found


@pytest.mark.parametrize("source", [SOURCE, LIGHTS])
def test_right_modules(found, source):
    assert found(source) == []


@pytest.mark.parametrize(
    "name, right, wrong, message",
    (
        ("version", "def version(", "def _version(", "lacks version"),
        ("remove", "pkgs=None, **kwargs", "packages=None", "takes no argument 'pkgs'"),
        (
            "remove",
            "pkgs=None, **kwargs",
            "**kwargs",
            "never uses 'pkgs' of its **kwargs",
        ),
        ("install", "refresh=False", "refresh=True", "has another default"),
        ("upgrade_available", "(name, ", "(refresh, name, ", "another position"),
        (
            "upgrade_available",
            "(name, **kwargs):",
            "(name, **kwargs) -> str:",
            "returns 'str' by its annotation",
        ),
        ("saw", 'own=["saw"]', "own=[]", "has saw, which is neither in the interface"),
        ("hammer", 'own=["saw"]', 'own=["saw", "hammer"]', "has no hammer"),
        ("group_list", "def saw(", "def group_list(", "which it says that it lacks"),
    ),
)
def test_mistakes(found, tmp_path, name, right, wrong, message):
    """
    Each is named with the line of the module, and with the signature of the interface
    """
    begin = SOURCE.index(f"def {name}(") if f"def {name}(" in SOURCE else 0
    place = SOURCE.find(right, begin)
    place = SOURCE.index(right) if place < 0 else place
    lines = [
        line
        for line in found(SOURCE[:place] + wrong + SOURCE[place + len(right) :])
        if message in line
    ]
    assert lines
    for line in lines:
        assert line.startswith(f"{tmp_path / 'wood_pkg.py'}:")
        method = vars(PkgInterface).get(name)
        if method:
            assert f"PkgInterface has {name}{inspect.signature(method)} at " in line
            assert "/salt/interfaces/pkg_module.py:" in line


def test_a_feature_in_part(found):
    (line,) = found(LIGHTS + "\n\ndef dim(name, percent=50):\n    return True\n")
    assert "lacks brightness of Dimming; LightsInterface has brightness(self" in line


def test_a_class_that_is_no_feature(found):
    (line,) = found(LIGHTS.replace("Dimming(Feature)", "Dimming"))
    assert "LightsInterface.Dimming is ignored" in line


@pytest.mark.parametrize("name", ['"pkg"', "'wood'"])
def test_a_forgotten_call(found, name):
    head, _, tail = SOURCE.partition("__virtualname__ = PkgInterface(")
    tail = tail.partition(")()\n")[2]
    with pytest.raises(AssertionError, match=r"wood_pkg\.py:\d+: it declares no"):
        found(f"{head}__virtualname__ = {name}\n{tail}")


def test_the_call_of_the_interface_itself_is_forgotten(found):
    """
    It is called with what is the module's own, or that is lost
    """
    head, _, tail = SOURCE.partition("__virtualname__ = PkgInterface(")
    tail = tail.partition(")()\n")[2]
    lines = found(f"{head}__virtualname__ = PkgInterface\n{tail}")
    (line,) = (one for one in lines if "the interface itself" in one)
    assert "wood_pkg.py:11: " in line
    assert line.endswith("call it, PkgInterface(__name__)()")


def test_a_module_that_does_not_load(found):
    for head, line, error in (
        ("import no_such_module\n", 1, "No module named 'no_such_module'"),
        ("\n\n1 / 0\n", 3, "division by zero"),
        ("\ndef:\n", 2, "SyntaxError"),
    ):
        with pytest.raises(
            AssertionError, match=rf"wood_pkg\.py:{line}: it does not load: .*{error}"
        ):
            found(head + SOURCE)


def test_a_module_without_functions(found):
    head, _, tail = SOURCE.partition("__virtualname__ = PkgInterface(")
    with pytest.raises(AssertionError, match="it has no public function"):
        found(f"{head}__virtualname__ = PkgInterface({tail.partition(')()')[0]})()\n")


def test_not_applicable_on_another_platform(found):
    """
    Only where refresh_db is not applicable a module may lack it
    """
    assert any(
        "lacks refresh_db; PkgInterface has refresh_db(self" in line
        for line in found(SOURCE.replace("def refresh_db(", "def _refresh_db("))
    )


@pytest.mark.parametrize(
    "right, wrong, message",
    (
        ("state(self, name)", "state(name)", "LightsInterface.state is not 'self'"),
        ("def dim(self", "def state(self", "has state in Dimming and the core"),
    ),
)
def test_mistakes_of_an_interface(found, right, wrong, message):
    lines = found(LIGHTS.replace(right, wrong, 1))
    assert any(message in line for line in lines), lines


@pytest.mark.parametrize(
    "value, right",
    (
        ("'wood'", False),
        ("NAME", False),
        ("NAME if NAME else __virtualname__", False),
        ("bool(NAME) and NAME", False),
        ("'pkg'", True),
        ("'pkg' if NAME else False", True),
        ("(False, 'wood is scarce')", True),
    ),
)
def test_another_name(found, tmp_path, value, right):
    """
    The loader would give the interface to the name that __virtual__ returns
    """
    source = SOURCE.replace("return __virtualname__", f"return {value}")
    assert source != SOURCE
    line = source.splitlines().index(f"    return {value}") + 1
    source += "\n\nNAME = 'wood'\n"
    assert found(source) == (
        []
        if right
        else [
            f"{tmp_path / 'wood_pkg.py'}:{line}: __virtual__ returns 'wood', and the"
            " module declares 'pkg': return __virtualname__"
        ]
    )
