"""
Reading source files, and the report made of them
"""

import json

import pytest

import salt.interfaces.report.__main__ as command
from salt.interfaces.conformance import Finding
from salt.interfaces.report import calls, known, matrix, page, source

MODULE = '''
from salt.modules.other import taken as mine
from salt.utils.functools import alias_function, namespaced_function

__virtualname__ = "pack"
__func_alias__ = {"list_": "list"}
LIMIT = 3

if True:
    mine = namespaced_function(mine, globals())


def __virtual__():
    return __virtualname__


def list_(limit=LIMIT, *names, root=None, **kwargs):
    """
    .. versionadded:: 1

    List them. And more.
    """
    if limit:
        return {}
    return []


again = alias_function(list_, "again")
short = list_


try:
    import nothing
except ImportError:

    def fallback():
        return nothing


def _private():
    pass


class Helper:
    def method(self):
        pass
'''


@pytest.fixture
def tree(tmp_path):
    """
    A source tree with a module that takes a function over from another one.
    """
    modules = tmp_path / "salt" / "modules"
    modules.mkdir(parents=True)
    modules.joinpath("other.py").write_text("def taken(path): ...\n")
    modules.joinpath("my_pack.py").write_text(MODULE)
    return tmp_path


def test_functions_as_the_loader_sees_them(tree):
    """
    Aliases, copies and conditions are followed.
    """
    read = source.Source(tree / "salt" / "modules" / "my_pack.py", tree)
    assert read.virtualname == "pack"
    signature = "(limit=3, *names, root=None, **kwargs)"
    assert {name: str(one.signature) for name, one in read.functions.items()} == {
        "mine": "(path)",
        "list": signature,
        "again": signature,
        "short": signature,
        "fallback": "()",
    }
    assert read.functions["list"].doc == "List them"
    assert read.functions["list"].returns == {"dict", "list"}


@pytest.mark.parametrize("listed", ("__all__", "__load__"))
def test_only_what_the_module_lists(tree, listed):
    """
    The loader takes nothing else.
    """
    path = tree / "salt" / "modules" / "my_pack.py"
    path.write_text(MODULE + f'\n{listed} = ["short"]\n')
    assert list(source.Source(path, tree).functions) == ["short"]


@pytest.mark.parametrize(
    "declaration",
    ("PackInterface(__name__)()", 'PackInterface(__name__, profile="minimal")'),
)
def test_a_declaration_gives_the_name_and_the_profile(tree, declaration):
    """
    Nothing is imported for it.
    """
    folder = tree / "salt" / "interfaces"
    folder.mkdir()
    folder.joinpath("pack_module.py").write_text(
        'class PackInterface(Interface):\n    __modulename__ = "pack"\n'
    )
    path = tree / "salt" / "modules" / "foo.py"
    path.write_text(
        "from salt.interfaces.pack_module import PackInterface\n"
        f"__virtualname__ = {declaration}\n"
    )
    read = source.Source(path, tree)
    assert (read.virtualname, read.interface) == ("pack", "PackInterface")
    assert read.profile == ("minimal" if "minimal" in declaration else None)


def test_calls_of_salts_own_code(tree):
    """
    Calls, tests and names that are put together.
    """
    tree.joinpath("salt", "states").mkdir()
    tree.joinpath("salt", "states", "pack.py").write_text(
        "def f(key):\n"
        '    __salt__["pack.install"]("a", refresh=True)\n'
        '    if "pack.hold" in __salt__:\n'
        '        __salt__["pack.hold"]("a")\n'
        '    __salt__.get("pack.search")\n'
        '    __salt__[f"pack.ch{key}"]()\n'
    )
    uses = calls.Uses("pack", calls.calls(tree))
    assert uses.needed("install") and uses.needed("chroot")
    assert not uses.needed("hold") and not uses.needed("search")
    assert not uses.needed("nothing")
    assert uses.passed("install") == {"refresh"}


FINDING = Finding("changed-default", "install", "refresh", "is True by default")


def test_known_differences_have_reasons():
    """
    A line without one is refused, and what matches nothing is told.
    """
    with pytest.raises(known.KnownError, match="Line 2 of the file"):
        known.Known(["# a comment", "pkg aptpkg install changed-default refresh"])
    lines = ["pkg apt* install changed-default refresh # why", "pkg x y z - # gone"]
    listed = known.Known(lines)
    assert listed.reason("pkg", "aptpkg", FINDING) == "why"
    assert listed.reason("pkg", "yumpkg", FINDING) is None
    assert listed.unused(["pkg"]) == ["2: pkg x y z -"]
    assert listed.unused(["service"]) == []


@pytest.fixture(scope="module")
def data():
    """
    The matrix of two interfaces of the real tree.
    """
    return matrix.matrix(virtualnames=["pkgbuild", "timezone"])


def test_the_matrix_is_plain_data(data):
    """
    It survives JSON, and says its version.
    """
    assert json.loads(json.dumps(data)) == data
    assert data["format"] == 1
    assert list(data["interfaces"]) == ["pkgbuild", "timezone"]
    modules = data["interfaces"]["timezone"]["modules"]
    assert sorted(modules) == ["mac_timezone", "timezone", "win_timezone"]
    cell = modules["mac_timezone"]["functions"]["set_zone"]
    assert cell["is"] == "differs"
    assert [one["code"] for one in cell["findings"]] == ["renamed-parameter"]


def test_the_page_shows_every_cell_and_loads_nothing(data):
    """
    One row for each function, one cell for each module, no address in it.
    """
    text = page.page(data)
    cells = sum(
        len(one["functions"]) * len(one["modules"])
        for one in data["interfaces"].values()
    )
    assert text.count("<td ") == cells
    assert text.count("<section ") == 2
    assert "http" not in text and " src=" not in text and "@import" not in text
    assert "renamed-parameter: timezone is called" in text


def test_the_page_escapes():
    """
    A docstring or a name is text, whatever is in it.
    """
    cell = {"is": "conforms", "signature": "(a='<b>')", "findings": []}
    data = {
        "interfaces": {
            "x<y": {
                "doc": "<script>",
                "functions": {
                    "f": {
                        "tier": "core",
                        "feature": None,
                        "signature": "(<)",
                        "doc": "",
                    }
                },
                "modules": {
                    "m": {
                        "files": ["<m>.py"],
                        "verdict": "conforms",
                        "profile": None,
                        "functions": {"f": cell},
                    }
                },
            }
        },
        "summary": {"interfaces": 1, "functions": 1, "modules": {"conforms": 1}},
    }
    text = page.page(data)
    assert text.count("<script>") == 1
    assert "<b>" not in text and "x<y" not in text and "<m>" not in text


def test_exit_codes(tmp_path, capsys):
    """
    0 if all is known, 1 if something is not, 2 for wrong input.
    """
    empty = tmp_path / "known.txt"
    empty.write_text("")
    wanted = ["check", "timezone", "--known", str(empty)]
    assert command.main(wanted) == command.DIFFERENCES
    assert "mac_timezone.set_zone: renamed-parameter" in capsys.readouterr().out
    empty.write_text("timezone mac_timezone * renamed-parameter * # why\n")
    assert command.main(wanted) == command.DONE
    assert "2 differences, 2 of them known" in capsys.readouterr().out
    empty.write_text("timezone\n")
    assert command.main(wanted) == command.WRONG
    assert command.main(["json", "nonsense"]) == command.WRONG
    assert "There is no interface 'nonsense'" in capsys.readouterr().err
    output = tmp_path / "page.html"
    assert command.main(["page", "timezone", "--output", str(output)]) == command.DONE
    assert output.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
