"""The rules that Salt's own hooks check before a commit, on the files that our topics change.

The hooks themselves (`tools/precommit` of Salt's repository) are in no source distribution: what is here asks the
same of docs, modules that a loader takes, docstrings and changelog entries. The linters are run by `style`.

While a topic has neither, its entry stands in our tree under the topic's name, ``changelog/TOPIC.fixed.md``: a made-up
number is, or will be, a stranger's issue. `submit` is told the number, and the branch has the name that upstream wants.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patches.patch import Patch

KINDS: Final = ("added", "changed", "deprecated", "fixed", "removed", "security")
ENTRY = re.compile(rf"^changelog/(?P<name>[^/.]+)\.(?P<kind>{'|'.join(KINDS)})\.md$")


def entries(patch: Patch) -> tuple[str, ...]:
    """Return a topic's changelog entries that are named as they should be: by a number, or by the topic."""
    found = ((path, ENTRY.match(path)) for path in patch.files)
    return tuple(path for path, match in found if match and (match["name"].isdigit() or match["name"] == patch.topic))


def is_unnumbered(path: str) -> bool:
    """Tell whether a path is an entry that still bears the name of its topic."""
    match = ENTRY.match(path)
    return match is not None and not match["name"].isdigit()


def numbered(path: str, number: int | None) -> str:
    """Return the path as upstream wants it: an entry without a number gets this one, anything else stays."""
    match = ENTRY.match(path)
    return f"changelog/{number}.{match['kind']}.md" if number and match and is_unnumbered(path) else path


#: Kinds of modules of a loader that have a page each in Salt's reference, and the folder of the page if it is another.
PAGES: Final = {
    **{
        kind: kind
        for kind in (
            *("auth", "beacons", "cache", "executors", "grains", "modules", "netapi", "output", "pillar", "proxy"),
            *("queues", "renderers", "returners", "roster", "runners", "sdb", "serializers", "states", "thorium"),
            *("tokens", "tops", "wheel"),
        )
    },
    "cloud": "clouds",
    "engines": "engines",
    "fileserver": "file_server",
}
#: Pages of the reference that are about no module, and those that nobody looks at.
FREE_PAGES: Final = ("doc/ref/cli/", "doc/ref/configuration/", "doc/ref/internals/")
FREE_NAMES: Final = ("index.rst", "glossary.rst", "faq.rst", "README.rst")
#: `salt/KIND/NAME.py` has three parts; what has more is inside a package of modules.
FLAT: Final = 3
#: Folders whose modules a loader takes.
LOADED: Final = (*PAGES, "log_handlers", "matchers", "metaproxy", "utils", "wrapper")
SUMMARY = re.compile(r"^\.\. autosummary::\n(?:[ \t]+:.*\n)*\n+(?P<names>(?:[ \t]+[\w.]+\n?)+)", re.MULTILINE)
EXAMPLE = re.compile(r"CLI Examples?:")


@dataclass(frozen=True)
class Hooks:
    """A tree of Salt's."""

    tree: Path

    def check(self, names: Iterable[str]) -> list[str]:
        """Return what is wrong with some files of the tree, a line for each."""
        found: list[str] = []
        listed = list(names)
        for name in listed:
            path = PurePosixPath(name)
            if not (self.tree / name).is_file():
                continue
            if path.parts[0] == "changelog":
                found += self._entry(name)
            elif path.suffix == ".py" and path.parts[0] == "salt":
                found += self._module(name)
            elif path.suffix == ".rst" and name.startswith("doc/ref/"):
                found += self._page(name)
        for index in sorted({index for name in listed for index in self._indexes(name)}):
            found += self._index(index)
        return found

    def _entry(self, name: str) -> Iterator[str]:
        if ENTRY.match(name) is None:
            yield f"{name}: no name of a changelog entry: it is <number>.<kind>.md"
        if len((self.tree / name).read_text(encoding="utf-8").strip().splitlines()) != 1:
            yield f"{name}: a changelog entry is one line"

    def _module(self, name: str) -> Iterator[str]:
        """Check a module: its page, its virtual name, its docstrings."""
        parts = PurePosixPath(name).parts
        module = ast.parse((self.tree / name).read_bytes(), name)
        page = self._page_of(name)
        if page is not None and not (self.tree / page).is_file():
            yield f"{name}: no page in the reference: add {page}"
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
        yield from self._virtual(name, module, functions)
        for function in functions:
            docstring = ast.get_docstring(function, clean=False) or ""
            if len(parts) < FLAT or parts[1] not in LOADED or function.name.startswith("_"):
                continue
            if not docstring:
                yield f"{name}: the function {function.name} has no docstring"
            elif parts[1] == "modules" and len(parts) == FLAT and not EXAMPLE.search(docstring):
                yield f"{name}: the function {function.name} has no 'CLI Example:' in its docstring"
            if ":doc:" in docstring:
                yield f"{name}: the docstring of {function.name} uses :doc:, where Salt uses :ref: or :mod:"

    def _virtual(self, name: str, module: ast.Module, functions: Iterable[ast.FunctionDef]) -> Iterator[str]:
        """Check the first assignment of a virtual name: a literal that is a part of the file's name."""
        if name.endswith("/__init__.py") or not any(function.name == "__virtual__" for function in functions):
            return
        for node in module.body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if not any(isinstance(target, ast.Name) and target.id == "__virtualname__" for target in targets):
                continue
            value = node.value if isinstance(node, ast.Assign) else None
            if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                yield f"{name}:{node.lineno}: the first value of __virtualname__ is no literal"
            elif value.value not in PurePosixPath(name).name:
                yield f"{name}:{node.lineno}: the __virtualname__ '{value.value}' is no part of the file's name"
            return

    def _page(self, name: str) -> Iterator[str]:
        text = (self.tree / name).read_text(encoding="utf-8")
        is_virtual = ".. _virtual-" in text
        if name in self._pages and is_virtual:
            yield f"{name}: a page of a virtual module that hides the page of {self._pages[name]}"
        free = name.startswith(FREE_PAGES) or PurePosixPath(name).name in FREE_NAMES
        if not free and not is_virtual and name not in self._pages:
            yield f"{name}: a stray page: there is no such module in a folder that the reference is made of"

    def _indexes(self, name: str) -> Iterator[str]:
        """Return the index that lists a module or a page, or that it is."""
        page = self._page_of(name) if name.endswith(".py") else name
        if page is not None and page.startswith("doc/ref/") and "/all/" in page:
            yield str(PurePosixPath(page).with_name("index.rst"))

    def _index(self, name: str) -> Iterator[str]:
        """Check that an index lists all modules of its folder, once, in order."""
        path = self.tree / name
        match = SUMMARY.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        if match is None:
            return
        listed = match["names"].split()
        if listed != sorted(listed):
            yield f"{name}: the modules are not in order"
        for one, count in Counter(listed).items():
            if count > 1:
                yield f"{name}: lists {one} twice"
        folder = PurePosixPath(name).parent
        there = (module for page, module in self._pages.items() if PurePosixPath(page).parent == folder)
        wanted = {PurePosixPath(module).stem for module in there}
        shown = {one.rpartition(".")[2] for one in listed}
        yield from (f"{name}: does not list {one}" for one in sorted(wanted - shown))
        yield from (f"{name}: lists {one}, which is not there" for one in sorted(shown - wanted))

    def _page_of(self, name: str) -> str | None:
        """Return the page that a module has to have; None for those that need none."""
        path = PurePosixPath(name)
        if (
            len(path.parts) < FLAT
            or path.parts[0] != "salt"
            or path.name == "__init__.py"
            or path.parts[1] not in PAGES
        ):
            return None
        if path.parts[1] == "cloud" and path.parts[2] != "clouds":
            return None
        folder, stem = PAGES[path.parts[1]], path.with_suffix("")
        if path.parts[1] == "netapi" and len(path.parts) > FLAT:
            stem = PurePosixPath(*path.parts[:FLAT])
        return f"doc/ref/{folder}/all/{'.'.join(stem.parts)}.rst"

    @cached_property
    def _pages(self) -> dict[str, str]:
        """Each page that a module has to have, and the module."""
        names = (path.relative_to(self.tree).as_posix() for path in sorted((self.tree / "salt").rglob("*.py")))
        return {page: name for name in names if (page := self._page_of(name)) is not None}
