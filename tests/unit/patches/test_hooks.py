"""The rules of Salt's own hooks: each finds its fault, and is silent where the hook is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patches.hooks import Hooks

if TYPE_CHECKING:
    from pathlib import Path

MODULE = '''\
"""
A module.
"""
__virtualname__ = "pkg"


def __virtual__():
    return __virtualname__


def install(name):
    """
    Install a package.

    CLI Example:

    .. code-block:: bash

        salt '*' pkg.install vim
    """
'''
INDEX = """\
modules
=======

.. currentmodule:: salt.modules

.. autosummary::
    :toctree:
    :template: autosummary.rst.tmpl

    aptpkg
    test
"""
FILES = {
    "salt/modules/__init__.py": "",
    "salt/modules/aptpkg.py": MODULE,
    "salt/modules/test.py": '"""Tests."""\n',
    "salt/utils/helper.py": "",
    "salt/job_criteria/calm.py": "",
    "doc/ref/modules/all/index.rst": INDEX,
    "doc/ref/modules/all/salt.modules.aptpkg.rst": "salt.modules.aptpkg\n",
    "doc/ref/modules/all/salt.modules.test.rst": "salt.modules.test\n",
    "doc/ref/modules/all/salt.modules.pkg.rst": ".. _virtual-pkg:\n",
    "doc/topics/free.rst": "free\n",
    "doc/ref/internals/free.rst": "free\n",
    "changelog/68123.added.md": "Added this\n",
}


def found(tree: Path, **changes: str | None) -> list[str]:
    """Write a tree with some files changed, and check all of it."""
    files = {**FILES, **changes}
    for name, text in files.items():
        if text is not None:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
    return Hooks(tree).check(files)


def test_a_tree_in_order(tmp_path: Path) -> None:
    """Nothing is said of what the hooks let pass."""
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "salt/modules/new.py",
            '"""New."""\n',
            "salt/modules/new.py: no page in the reference: add doc/ref/modules/all/",
        ),
        ("salt/netapi/rest/app.py", "", "add doc/ref/netapi/all/salt.netapi.rest.rst"),
        ("salt/fileserver/new.py", "", "add doc/ref/file_server/all/salt.fileserver.new.rst"),
        ("salt/cloud/clouds/new.py", "", "add doc/ref/clouds/all/salt.cloud.clouds.new.rst"),
        ("doc/ref/modules/all/salt.modules.gone.rst", "x\n", "salt.modules.gone.rst: a stray page"),
        ("doc/ref/job_criteria/all/salt.job_criteria.calm.rst", "x\n", "calm.rst: a stray page"),
        ("doc/ref/other.rst", "x\n", "doc/ref/other.rst: a stray page"),
        ("doc/ref/modules/all/salt.modules.test.rst", ".. _virtual-test:\n", "hides the page of salt/modules/test.py"),
        ("doc/ref/modules/all/index.rst", INDEX.replace("    test\n", ""), "index.rst: does not list test"),
        ("doc/ref/modules/all/index.rst", INDEX + "    zz\n", "index.rst: lists zz, which is not there"),
        ("doc/ref/modules/all/index.rst", INDEX + "    test\n", "index.rst: lists test twice"),
        (
            "doc/ref/modules/all/index.rst",
            INDEX.replace("    aptpkg\n    test\n", "    test\n    aptpkg\n"),
            "index.rst: the modules are not in order",
        ),
        (
            "salt/modules/aptpkg.py",
            MODULE.replace('__virtualname__ = "pkg"', "__virtualname__ = PkgInterface(__name__)()"),
            "salt/modules/aptpkg.py:4: the first value of __virtualname__ is no literal",
        ),
        ("salt/modules/aptpkg.py", MODULE.replace('"pkg"', '"apt_get"'), "is no part of the file's name"),
        ("salt/modules/aptpkg.py", MODULE.replace("CLI Example:", "Like this:"), "has no 'CLI Example:'"),
        ("salt/modules/aptpkg.py", MODULE.replace("Install a", ":doc:`x`"), "uses :doc:"),
        ("salt/modules/aptpkg.py", MODULE + "\n\ndef remove():\n    pass\n", "the function remove has no docstring"),
        ("changelog/68123.added.md", "One\nTwo\n", "a changelog entry is one line"),
        ("changelog/68123.wrong.md", "One\n", "no name of a changelog entry"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, name: str, text: str, said: str) -> None:
    """One fault, one line, in whatever folder of the tree."""
    listed = found(tmp_path, **{name: text})
    assert [line for line in listed if said in line], listed
    assert not [line for line in listed if name.rpartition("/")[2] not in line and "index.rst" not in line]


def test_a_literal_before_the_interface(tmp_path: Path) -> None:
    """The hook reads the first value alone: what an interface makes of it comes after."""
    text = MODULE.replace('"pkg"\n', '"pkg"\n__virtualname__ = PkgInterface(__name__)()\n')
    assert found(tmp_path, **{"salt/modules/aptpkg.py": text}) == []


def test_without_virtual_any_name_will_do(tmp_path: Path) -> None:
    """A module that always loads under its own name is not asked."""
    text = MODULE.replace("def __virtual__():\n    return __virtualname__\n", "").replace('"pkg"', "None")
    assert found(tmp_path, **{"salt/modules/aptpkg.py": text}) == []
