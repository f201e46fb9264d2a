"""Rendering: Salt's own Jinja and data formats, and the functions that templates may call.

Functions only look at grains, pillar and files, or are what the minion simulates; whatever would run a program's code
here is refused. What templates read notes it, so it is no dictionary on purpose: code in C would read a dictionary
without a note.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
import salt.utils.data
import salt.utils.dictupdate
import salt.utils.jinja
import salt.utils.templates
from jinja2 import filters, nodes
from salt.exceptions import SaltRenderError
from salt.utils.decorators.jinja import JinjaFilter, JinjaGlobal, JinjaTest

from evil_minions.functions.modules import FUNCTIONS
from evil_minions.functions.modules.cmd import execute

if TYPE_CHECKING:
    from evil_minions.states.compile.client import FileClient, Line


class TrackedMapping(Mapping[str, Any]):
    """A mapping, and the names that were looked at, found or not."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Begin with nothing looked at."""
        self._values = values
        self.seen: set[str] = set()
        # what only shows in files: whether it is there matters, its value doesn't
        self.shown: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        """Return a value, and remember that."""
        self.seen.add(str(name))
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a name, and remember the question."""
        self.seen.add(str(name))
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names: everything has been seen then."""
        self.see_all()
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of names; counting them counts as having looked at all."""
        self.see_all()
        return len(self._values)

    def __repr__(self) -> str:
        """Return all of it as text."""
        self.see_all()
        return repr(dict(self._values))

    def see_all(self) -> Mapping[str, Any]:
        """Remember that everything was looked at, and return it."""
        self.seen.update(map(str, self._values))
        return self._values

    def names(self, looks: set[str]) -> list[str]:
        """Return the names of the top level among what was looked at, found or not."""
        return sorted(name for name in looks if name in self._values or ":" not in name)

    def see(self, path: str, delimiter: str = ":") -> Mapping[str, Any]:
        """Remember a look at what a path such as `a:b` leads to, and return everything."""
        self.seen.add(path.split(delimiter, 1)[0])
        self.seen.add(path)
        return self._values


class Options(TrackedMapping):
    """A minion's options, whose grains, pillar and id are looked at as such."""

    def __init__(self, values: Mapping[str, Any], grains: TrackedMapping, pillar: TrackedMapping) -> None:
        """Begin with nothing looked at."""
        super().__init__(values)
        self._grains = grains
        self._pillar = pillar

    def __getitem__(self, name: str) -> Any:
        """Return an option."""
        if name == "grains":
            return self._grains
        if name == "pillar":
            return self._pillar
        if name == "id":
            return self._grains["id"]
        return self._values[name]

    def see_all(self) -> Mapping[str, Any]:
        """Remember that everything was looked at."""
        self._grains.see_all()
        self._pillar.see_all()
        return self._values


_DELIMITER = ":"


class Library(Mapping[str, Callable[..., Any]]):
    """The functions of one run, by their names; `salt['grains.get']` and `salt.grains.get` are the same."""

    def __init__(
        self, grains: TrackedMapping, pillar: TrackedMapping, options: Options, client: FileClient, line: Line
    ) -> None:
        """Begin with what the run is about."""
        self.grains = grains
        self.pillar = pillar
        self._options = options
        self._client = client
        self._line = line
        self._own: dict[str, Callable[..., Any]] = {
            "cmd.retcode": lambda line, *_args, **_more: execute(str(line), self.grains).code,
            "cmd.run": lambda line, *_args, **_more: execute(str(line), self.grains).text,
            "cmd.shell": lambda line, *_args, **_more: execute(str(line), self.grains).text,
            "config.get": self._config,
            "config.option": self._config,
            "cp.cache_file": lambda path, saltenv="base", **_: client.cache_file(path, saltenv),
            "cp.get_file_str": self._text,
            "cp.hash_file": lambda path, saltenv="base": client.hash_file(path, saltenv),
            "cp.list_master": lambda saltenv="base", prefix="": client.file_list(saltenv, prefix),
            "cp.list_master_dirs": lambda saltenv="base", prefix="": client.dir_list(saltenv, prefix),
            "grains.fetch": self._grain,
            "grains.filter_by": self._filter_by,
            "grains.get": self._grain,
            "grains.has_value": lambda key: bool(self._grain(key)),
            "grains.equals": lambda key, value: str(value) == str(self._grain(key)),
            "mine.get": self._mine,
            "pillar.fetch": self._pillar,
            "pillar.get": self._pillar,
            "slsutil.merge": salt.utils.dictupdate.merge,
            "slsutil.update": salt.utils.dictupdate.update,
            **{
                f"match.{kind}": lambda tgt, *_args, kind=kind, **_more: line.ask(match=[tgt, kind])
                for kind in ("compound", "glob", "grain", "grain_pcre", "list", "pcre", "pillar", "ipcidr")
            },
        }

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a function.

        Raises:
            SaltRenderError: if neither this process nor the simulated minion knows it.
        """
        found = self._own.get(name)
        if found is not None:
            return found
        if name not in FUNCTIONS:
            raise SaltRenderError(
                f"A simulated minion does not know the function {name}: take it out of the state files, "
                "or replay a recording of a real minion."
            )
        return lambda *args, **keywords: self._relayed(name, list(args), keywords)

    def __getattr__(self, module: str) -> _Module:
        """Return a module, as in `salt.grains.get`."""
        if module.startswith("_"):
            raise AttributeError(module)
        return _Module(self, module)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a function, or a module, of this name."""
        return name in self._own or name in FUNCTIONS or any(each.startswith(f"{name}.") for each in self)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter({**self._own, **FUNCTIONS})

    def __len__(self) -> int:
        """Return their number."""
        return len({**self._own, **FUNCTIONS})

    def _relayed(self, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        """Have the simulated minion call a function.

        Raises:
            SaltRenderError: if that fails.
        """
        answer = self._line.ask(call=[name, args, keywords])
        if "error" in answer:
            raise SaltRenderError(str(answer["error"]))
        return answer["value"]

    def _grain(self, key: str, default: Any = "", delimiter: str = _DELIMITER, **_more: Any) -> Any:
        return salt.utils.data.traverse_dict_and_list(self.grains.see(key, delimiter), key, default, delimiter)

    def _pillar(
        self,
        key: str,
        default: Any = "",
        merge: bool = False,
        merge_nested_lists: Any = None,
        delimiter: str = _DELIMITER,
        **_more: Any,
    ) -> Any:
        found = salt.utils.data.traverse_dict_and_list(self.pillar.see(key, delimiter), key, default, delimiter)
        if merge and isinstance(default, Mapping) and isinstance(found, Mapping):
            return salt.utils.dictupdate.merge(dict(default), dict(found))
        return found

    def _config(self, key: str, default: Any = "", **_more: Any) -> Any:
        """Return an option, a grain, or a part of the pillar or of the master's options, the first that there is."""
        if key == "id" or key in self._options:
            return self._options[key]
        missing = object()
        for find in (self._grain, self._pillar):
            found = find(key, missing)
            if found is not missing:
                return found
        master = self._options["__master_opts__"]
        return salt.utils.data.traverse_dict_and_list(master, key, default)

    def _filter_by(
        self,
        lookup_dict: dict[str, Any],
        grain: str = "os_family",
        merge: Any = None,
        default: str = "default",
        base: str | None = None,
    ) -> Any:
        grains = self.grains.see(grain)
        return salt.utils.data.filter_by(lookup_dict, grain, grains, merge, default, base)

    def _text(self, path: str, saltenv: str = "base") -> Any:
        found = self._client.get_file(path, "", saltenv=saltenv)
        if not found:
            return False
        with open(found, encoding="utf-8") as file:  # noqa: PTH123 - a path of Salt's
            return file.read()

    def _mine(self, tgt: Any, fun: Any, tgt_type: str = "glob", **_more: Any) -> Any:
        return self._line.ask(ask={"cmd": "_mine_get", "tgt": tgt, "fun": fun, "tgt_type": tgt_type})


class _Module:
    """The functions of one module, by attribute."""

    def __init__(self, library: Library, name: str) -> None:
        self._library = library
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        if function.startswith("_"):
            raise AttributeError(function)
        return self._library[f"{self._name}.{function}"]


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
