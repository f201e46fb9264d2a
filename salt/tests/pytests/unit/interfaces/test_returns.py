"""
The check of returns: what real managers returned passes, what is damaged does not

``recorded.json`` holds results of apt, dnf, zypper and systemd: what ``--record`` of the
contract writes, without most entries of long lists.
"""

import copy
import json
import pathlib
import random

import pytest

import salt.loader
import salt.runners.interfaces
import tests.pytests.contract
from salt.interfaces.pkg_module import PkgInterface
from tests.pytests.contract.conftest import check
from tests.pytests.contract.returns import problem
from tests.support.mock import MagicMock

FOLDER = pathlib.Path(tests.pytests.contract.__file__).parent
RECORDED = json.loads((FOLDER / "recorded.json").read_text(encoding="utf-8"))
DAMAGED = 200
OTHERS = [7, 1.5, None, "no", True, [], {}, object()]


@pytest.mark.parametrize(
    "right, wrong, reason",
    (
        ('{"Groups"', '{"Group"', "lacks 'Group'"),
        ("__virtualname__ = ", "__virtualname__ = 'pkg'\n_ = ", "declares no"),
    ),
)
def test_only_the_given_module_is_called(
    minion_opts, tmp_path, caplog, right, wrong, reason
):
    """
    Where the module of an author does not load, Salt's own one would serve the name
    """
    file = tmp_path / "modules" / "wood_pkg.py"
    file.parent.mkdir()
    source = (FOLDER / "wood_pkg.py").read_text(encoding="utf-8")
    minion_opts["module_dirs"] = [str(tmp_path)]
    minion_opts["providers"] = {"pkg": "wood_pkg"}
    file.write_text(source, encoding="utf-8")
    check(salt.loader.minion_mods(minion_opts), "pkg", file)
    assert right in source
    file.write_text(source.replace(right, wrong), encoding="utf-8")
    with pytest.raises(pytest.exit.Exception, match=f"not serve 'pkg': .*{reason}"):
        check(salt.loader.minion_mods(minion_opts), "pkg", file)


@pytest.fixture(scope="module")
def schemas():
    found = {}
    for name in {key.partition(".")[0] for key, _ in RECORDED}:
        for function, one in salt.runners.interfaces.schema(name).items():
            found[f"{name}.{function}"] = one["returns"]
    return found


def test_recorded(schemas):
    assert len({key for key, _ in RECORDED}) > 20
    for key, value in RECORDED:
        assert problem(value, schemas[key]) is None, key


def test_files(minion_opts, tmp_path):
    """
    What states call to change files returns what the interface says
    """
    functions = salt.loader.minion_mods(minion_opts)
    schema = salt.runners.interfaces.schema("file")
    text, link = str(tmp_path / "a" / "text"), str(tmp_path / "link")
    for name, arguments in (
        ("makedirs", (text,)),
        ("touch", (text,)),
        ("append", (text, "one line")),
        ("symlink", (text, link)),
        ("copy", (text, f"{text}2")),
        ("makedirs", (text,)),
        ("remove", (link,)),
    ):
        value = functions[f"file.{name}"](*arguments)
        assert problem(value, schema[name]["returns"]) is None, (name, value)


def places(value, schema, path=()):
    """
    Yield the places of a value that have a type, with their schemas
    """
    if "anyOf" in schema:
        fitting = [one for one in schema["anyOf"] if problem(value, one) is None]
        yield path, schema
        for one in fitting[:1]:
            yield from (row for row in places(value, one, path) if row[0] != path)
    elif "type" in schema:
        yield path, schema
        if schema["type"] == "object":
            fields = schema.get("properties", {})
            rest = schema.get("additionalProperties", {})
            for key, one in value.items():
                yield from places(one, fields.get(key, rest), (*path, key))
        elif schema["type"] == "array":
            for number, one in enumerate(value):
                yield from places(one, schema.get("items", {}), (*path, number))


def damaged(key, value, schema, rand):
    """
    Return a value with one place that is of another type, or lacks a key
    """
    box = [copy.deepcopy(value)]
    path, found = rand.choice(list(places(value, schema)))
    path = (0, *path)
    parent = box
    for step in path[:-1]:
        parent = parent[step]
    required = found.get("required", [])
    if required and rand.random() < 0.5:
        del parent[path[-1]][rand.choice(required)]
    else:
        wrong = [one for one in OTHERS if problem(one, found)]
        parent[path[-1]] = rand.choice(wrong)
    return box[0]


def test_damaged(schemas):
    rand = random.Random(44)
    rows = [rand.choice(RECORDED) for _ in range(DAMAGED)]
    for key, value in rows:
        wrong = damaged(key, value, schemas[key], rand)
        assert problem(wrong, schemas[key]), (key, value, wrong)


def test_a_contract_tests_no_other_name():
    """
    The system's own package manager would be tested in the place of the module
    """
    declaration = PkgInterface("salt.loaded.ext.modules.wood")
    functions = MagicMock(interfaces={"service": declaration}, missing_modules={})
    with pytest.raises(pytest.exit.Exception, match="it declares 'pkg'"):
        check(functions, "service", pathlib.Path("wood.py"))
    functions.interfaces = {"pkg": declaration}
    check(functions, "pkg", pathlib.Path("wood.py"))
