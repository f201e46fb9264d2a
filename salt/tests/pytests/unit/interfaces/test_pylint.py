"""
The rule that a virtual name with an interface is declared through it
"""

import ast
import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("pylint")

ROOT = pathlib.Path(__file__).resolve().parents[4]
DECLARED = ("pkg",)
IMPORT = "from salt.interfaces.pkg_module import PkgInterface\n"

WRONG = {
    "another class": "from salt.interfaces.pkg_module import Interface\n"
    "__virtualname__ = Interface(__name__)()\n",
    "another place": "from somewhere import PkgInterface\n"
    "__virtualname__ = PkgInterface(__name__)()\n",
    "not imported": "__virtualname__ = PkgInterface(__name__)()\n",
    "no name": IMPORT + "__virtualname__ = PkgInterface()()\n",
    "a string": IMPORT + '__virtualname__ = PkgInterface("pkg")()\n',
    "called with it": IMPORT + "__virtualname__ = PkgInterface(__name__)(1)\n",
}
RIGHT = {
    "called": IMPORT + "__virtualname__ = PkgInterface(__name__)()\n",
    "an instance": IMPORT + "__virtualname__ = PkgInterface(__name__)\n",
    "a profile": IMPORT
    + '__virtualname__ = PkgInterface(__name__, profile="minimal")()\n',
    "no interface": '__virtualname__ = "nothing_of_that_name"\n',
}


def lint(*paths):
    """
    Run pylint with this rule only; give the names of files to symbols of messages.
    """
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pylint",
            "--rcfile=/dev/null",
            "--load-plugins=tests.support.pylint_interfaces",
            "--disable=all",
            "--enable=interface-not-declared,wrong-interface-declaration,interface-to-declare",
            "--output-format=json",
            *map(str, paths),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {}
    for message in json.loads(run.stdout):
        found.setdefault(pathlib.Path(message["path"]).name, []).append(
            message["symbol"]
        )
    return found


@pytest.fixture
def modules(tmp_path):
    """
    The folder of modules of a source tree that has the interface of pkg.
    """
    folder = tmp_path / "salt" / "modules"
    folder.mkdir(parents=True)
    interfaces = tmp_path / "salt" / "interfaces"
    interfaces.mkdir()
    for name in ("pkg_module.py", "user_module.py"):
        text = ROOT.joinpath("salt", "interfaces", name).read_text(encoding="utf-8")
        interfaces.joinpath(name).write_text(text, encoding="utf-8")
    return folder


def test_wrong_declarations_are_errors_and_right_ones_are_not(modules):
    """
    A string for a name that is declared elsewhere is an error too.
    """
    expected = {}
    for number, text in enumerate([*WRONG.values(), *RIGHT.values()]):
        path = modules / f"case{number}.py"
        path.write_text(text)
        if number < len(WRONG):
            expected[path.name] = ["wrong-interface-declaration"]
    modules.joinpath("my_pkg.py").write_text('__virtualname__ = "pkg"\n')
    modules.joinpath("my_user.py").write_text('__virtualname__ = "user"\n')
    # the file's own name is its virtual name
    modules.joinpath("user.py").write_text('"""Users"""\n')
    expected["my_pkg.py"] = ["interface-not-declared"]
    expected["my_user.py"] = expected["user.py"] = ["interface-to-declare"]
    assert lint(*modules.glob("*.py")) == expected


def classified(source):
    """
    Give the symbols that the checker gives a real module, of which it needs few lines.
    """
    import astroid
    from pylint.testutils import UnittestLinter

    from tests.support import pylint_interfaces

    linter = UnittestLinter()
    checker = pylint_interfaces.InterfaceChecker(linter)
    linter.config.declared_interfaces = DECLARED
    needed = [
        node
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom)
        or getattr(node, "name", None) == "__virtual__"
        or getattr(getattr(node, "targets", [None])[0], "id", None) == "__virtualname__"
    ]
    text = ast.unparse(ast.Module(needed, []))
    checker.visit_module(astroid.parse(text, path=str(source.path)))
    return [message.msg_id for message in linter.release_messages()]


def test_all_implementations_are_classified(every):
    """
    Each file of a virtual name with an interface is declared, or is said not to be;
    no declaration in Salt is wrong, and no other module is spoken of.
    """
    shared = {
        name: [source for provider in listed for source in provider.sources]
        for name, listed in every.items()
    }
    seen = 0
    for name, sources in shared.items():
        for source in sources:
            expected = []
            if len(sources) > 1:
                seen += 1
                if source.interface is None:
                    expected = [
                        (
                            "interface-not-declared"
                            if name in DECLARED
                            else "interface-to-declare"
                        )
                    ]
            assert classified(source) == expected, source.path
    assert seen == 82
