"""
What an author of a module learns from the log when it is loaded
"""

import inspect
import pathlib

import pytest

import tests.pytests.contract
from salt.interfaces.pkg_module import PkgInterface
from salt.loader.lazy import LazyLoader

SOURCE = (
    pathlib.Path(tests.pytests.contract.__file__)
    .with_name("wood_pkg.py")
    .read_text(encoding="utf-8")
)
INSTALL = "name=None, refresh=False, pkgs=None, sources=None, **kwargs"


@pytest.fixture
def load(tmp_path, caplog):
    """
    Return a function that loads the module and returns what is logged of it
    """

    def load(source):
        (tmp_path / "wood_pkg.py").write_text(source)
        loader = LazyLoader(
            [str(tmp_path)], {"smi": True}, "module", loaded_base_name=tmp_path.name
        )
        loader._load_all()  # pylint: disable=protected-access
        return [one.getMessage() for one in caplog.records if one.levelno > 20]

    return load


def test_a_right_module(load):
    assert load(SOURCE) == []


@pytest.mark.parametrize(
    "name, right, wrong, message",
    (
        (
            "list_pkgs",
            "versions_as_list=False, **kwargs",
            "versions_as_list=False",
            "takes no **kwargs",
        ),
        ("install", INSTALL, INSTALL[:-10], "takes no **kwargs"),
        ("install", INSTALL, f"manager, {INSTALL}", "requires the argument 'manager'"),
        (
            "install",
            INSTALL,
            INSTALL.replace("h=False", "h=True"),
            "has another default for 'refresh' than False",
        ),
        ("remove", "name=None, ", "name, ", "has another default for 'name' than None"),
        (
            "remove",
            "name=None, pkgs=None, **kwargs",
            "name=None, packages=None",
            "takes no argument 'pkgs'",
        ),
        ("version", "*names, **kwargs", "names, **kwargs", "takes no *names"),
        (
            "latest_version",
            "*names, **kwargs",
            "*names, fromrepo",
            "takes no **kwargs",
        ),
        (
            "upgrade_available",
            "name, **kwargs",
            "package, **kwargs",
            "takes no argument 'name'",
        ),
        (
            "upgrade_available",
            "name, **kwargs",
            "refresh, name, **kwargs",
            "takes 'name' at another position",
        ),
    ),
)
def test_ten_mistakes(load, tmp_path, name, right, wrong, message):
    """
    Each is named with the line and the signature that is expected
    """
    head = f"def {name}("
    assert SOURCE.count(head + right) == 1
    source = SOURCE.replace(head + right, head + wrong)
    line = source[: source.index(head)].count("\n") + 1
    expected = f"{name}{inspect.signature(vars(PkgInterface)[name])}."
    (logged,) = load(source)
    assert logged.startswith(f"{tmp_path / 'wood_pkg.py'}:{line}: 'pkg.{name}' ")
    assert message in logged and logged.endswith(f"PkgInterface has {expected}")


@pytest.mark.parametrize(
    "right, wrong, message",
    (
        ('own=["saw"]', 'own=["install"]', "lists 'install' as its own function"),
        ('{"Groups"', '{"Group"', "lacks 'Group', which is neither a feature nor"),
    ),
)
def test_a_wrong_declaration(load, caplog, right, wrong, message):
    load(SOURCE.replace(right, wrong))
    assert message in caplog.text
    assert 'wood_pkg.py", line 11' in caplog.text
