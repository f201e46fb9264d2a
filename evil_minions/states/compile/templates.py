"""Rendering: Salt's own Jinja and data formats; whatever would run a program's code here is refused."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
import salt.utils.jinja
import salt.utils.templates
from jinja2 import filters, nodes
from salt.exceptions import SaltRenderError
from salt.utils.decorators.jinja import JinjaFilter, JinjaGlobal, JinjaTest

from evil_minions.states.compile.library import TrackedMapping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evil_minions.states.compile.client import FileClient
    from evil_minions.states.compile.library import Library, Options

DATA: Final = ("yaml", "json", "yamlex", "json5", "hjson", "toml", "msgpack")
"""Renderers that only read."""


class Templates:
    """What templates of one run are rendered with."""

    def __init__(self, library: Library, options: Options, client: FileClient) -> None:
        """Begin with what the run is about."""
        self._library = library
        self._options = options
        self._client = client

    def content(self, path: str, saltenv: str, **more: Any) -> None:
        """Render a file that only goes to the minion, for the sake of what it includes.

        The values that show in it don't matter then, such as the minion's id: nothing else follows from them, unless
        files are included under conditions, or functions are called.

        Raises:
            SaltRenderError: if it can't be rendered.

        """
        looks = (self._library.grains, self._library.pillar)
        before = [set(each.seen) for each in looks]
        self._client.taken.clear()
        self.render(path, saltenv, "", path, **more)
        if all(_is_plain(Path(each)) for each in (path, *self._client.taken)):
            for each, seen in zip(looks, before, strict=True):
                each.shown |= each.seen - seen
                each.seen = seen

    def render(self, text: Any, saltenv: str = "base", sls: str = "", tmplpath: str | None = None, **more: Any) -> str:
        """Return what Jinja makes of a template.

        Raises:
            SaltRenderError: if it makes nothing of it.

        """
        found = salt.utils.templates.JINJA(
            text,
            to_str=True,
            salt=self._library,
            grains=self._library.grains,
            opts=self._options,
            pillar=self._library.pillar,
            saltenv=saltenv,
            sls=sls,
            tmplpath=tmplpath,
            fileclient=self._client,
            proxy={},
            **more,
        )
        if not found.get("result", False):
            raise SaltRenderError(str(found.get("data", "Unknown render error in jinja renderer")))
        data = found["data"]
        return data.decode() if isinstance(data, bytes) else str(data)


def _is_plain(path: Path) -> bool:
    """Return whether a template includes what it includes always, and calls nothing."""
    try:
        tree = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(path.read_text())  # noqa: S701 - it is only read
    except (jinja2.TemplateError, OSError, UnicodeDecodeError):
        return False
    including = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
    above = [node for node in tree.body if isinstance(node, including) and isinstance(node.template, nodes.Const)]
    return len(list(tree.find_all(including))) == len(above) and not any(
        name.name == "salt" for name in tree.find_all(nodes.Name)
    )


class Renderers(dict[str, "Callable[..., Any]"]):
    """The renderers of one run; one that isn't there is refused with a sentence."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        """Return what refuses a renderer."""

        def refuse(*_args: object, **_keywords: object) -> None:
            raise SaltRenderError(
                f"A fleet does not run the renderer {name}, only jinja and {', '.join(DATA)}: "
                "write the file with these, or replay a recording of a real minion."
            )

        return refuse


def watch() -> None:
    """Have filters, tests and globals of Jinja see all of what they are given whole: they may read it in C."""

    def seeing(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            return function(*map(_seen, args), **{name: _seen(value) for name, value in keywords.items()})

        return call

    for table in (filters.FILTERS, JinjaFilter.salt_jinja_filters, JinjaTest.salt_jinja_tests):
        for name, function in table.items():
            if not hasattr(function, "jinja_pass_arg"):
                table[name] = seeing(function)
    JinjaGlobal.salt_jinja_globals = {
        name: seeing(function) for name, function in JinjaGlobal.salt_jinja_globals.items()
    }


def _seen(value: Any) -> Any:
    """Return a value, all of it if it is looked at by its parts."""
    return dict(value.see_all()) if isinstance(value, TrackedMapping) else value


def data_renderers(rend: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return those of Salt's renderers that only read."""
    return {name: rend[name] for name in DATA if name in rend}
