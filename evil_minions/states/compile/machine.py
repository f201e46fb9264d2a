"""Salt's state compiler with states that aren't executed."""

from __future__ import annotations

import functools
import importlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.loader
import salt.state
import salt.states
import salt.utils.minions
import salt.utils.url

from evil_minions.functions import MODULE_KINDS
from evil_minions.states.compile import fetching, templates

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from evil_minions.states.compile.client import Line
    from evil_minions.states.compile.fetching import World

_FOLDER = Path(salt.states.__file__).parent
_VIRTUAL = re.compile(r"^__virtualname__ = ['\"](\w+)['\"]", re.MULTILINE)
_RAN = "_State__run_num"


@functools.cache
def _virtual_names() -> dict[str, str]:
    """Return the modules of states by the names that they have in state files, where those differ."""
    found = {}
    for path in sorted(_FOLDER.glob("*.py")):
        match = _VIRTUAL.search(path.read_text(encoding="utf-8"))
        if match and match.group(1) != path.stem:
            found[match.group(1)] = path.stem
    return found


@functools.cache
def _module(name: str) -> ModuleType | None:
    """Return Salt's module of a state, None if it has none or can't be imported here."""
    for each in (name, _virtual_names().get(name)):
        if each and (_FOLDER / f"{each}.py").is_file():
            try:
                return importlib.import_module(f"salt.states.{each}")
            except Exception:  # noqa: BLE001, S112 - whatever a module needs may be missing here
                continue
    return None


class States(Mapping[str, Any]):
    """The state functions that there are: those of Salt, and any of modules that the master has in `_states`."""

    def __init__(self) -> None:
        """Begin without modules of the master's."""
        self.custom: set[str] = set()
        self.opts: dict[str, Any] = {}
        self.inject_globals: dict[str, Any] = {}

    def __getitem__(self, full: str) -> Any:
        """Return Salt's function, for its arguments alone."""
        name, _, function = full.partition(".")
        if name in self.custom:
            return _anything
        module = _module(name)
        if module is not None:
            aliases = getattr(module, "__func_alias__", {})
            for each in (function, *(real for real, alias in aliases.items() if alias == function)):
                found = getattr(module, each, None)
                if callable(found) and not each.startswith("_"):
                    return found
        raise KeyError(full)

    def __contains__(self, full: object) -> bool:
        """Return whether there is such a function."""
        try:
            self[str(full)]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """Iterate over nothing: nobody lists all functions."""
        return iter(())

    def __len__(self) -> int:
        """Return no number of functions."""
        return 0

    def missing_fun_string(self, full: str) -> str:
        """Return why a function isn't there, in Salt's words."""
        name = full.partition(".")[0]
        return "" if _module(name) is not None else f"'{name}' __virtual__ returned False"


def _anything(name: str, **_keywords: object) -> None:
    """Stand for a function of the master's own module, which takes whatever it is given."""


class State(salt.state.State):  # type: ignore[misc] # Salt has no types
    """Salt's state machine, whose states only say what they need."""

    world: World
    run: Run

    def load_modules(self, data: Any = None, proxy: Any = None) -> None:
        """Take what the run has prepared; nothing is loaded that could be executed."""
        run: Run = self.opts["__run__"]
        self.run = run
        self.utils: dict[str, Any] = {}
        self.minion_functions = None
        self.functions = run.functions
        self._trusted_functions = run.functions
        self.serializers: dict[str, Any] = {}
        self.states = run.states
        self.states.opts = self.opts
        self.rend = run.renderers

    def _gather_pillar(self) -> Any:
        """Return the pillar that the minion has fetched."""
        return self.opts["pillar"]

    def module_refresh(self) -> None:
        """Load nothing again."""

    def _mod_init(self, low: dict[str, Any]) -> None:
        """Prepare nothing for a kind of states."""

    def _mod_aggregate(self, low: dict[str, Any], running: dict[str, Any]) -> dict[str, Any]:
        """Leave each state alone."""
        return low

    def _run_check_creates(self, low: dict[str, Any]) -> dict[str, Any]:
        """Find none of the files that a state creates: the files of this machine are not the minion's."""
        return {"comment": "Creates files not found", "result": False}

    def check_refresh(self, data: dict[str, Any], ret: dict[str, Any]) -> None:
        """Refresh nothing."""

    def event(self, chunk_ret: Any, length: int, fire_event: Any = False) -> None:
        """Fire nothing: the minion's own events come from elsewhere."""

    def call(self, low: dict[str, Any], chunks: Any = None, running: Any = None, retries: int = 1) -> dict[str, Any]:
        """Return the result of one state."""
        number = getattr(self, _RAN)
        errors = self.verify_data(low)
        if errors:
            setattr(self, _RAN, number + 1)
            comment = "".join(f"{error}\n" for error in errors)
            return {"result": False, "name": low.get("name"), "changes": {}, "comment": comment, "__run_num__": number}
        ret: dict[str, Any] = {"result": False, "name": low["name"], "changes": {}}
        if any(each in low for each in ("unless", "onlyif", "creates")):
            ret.update(self._run_check(low))
        world = self.run.world
        if ret["result"] is False:
            dry, world.test = world.test, world.test or bool(low.get("__prereq__"))
            try:
                ret = fetching.apply(world, low, salt.state._gen_tag(low))  # noqa: SLF001 - Salt's name of a state
            finally:
                world.test = dry
        if low.get("__prereq__"):
            low["__prereq__"] = False
            return ret
        spent = fetching.milliseconds(low)
        self.run.line.work += spent
        setattr(self, _RAN, number + 1)
        return {
            **ret,
            "__sls__": low.get("__sls__"),
            "__run_num__": number,
            "start_time": "",
            "duration": spent,
            "__id__": low["__id__"],
        }


class Run:
    """What one run has: its functions, renderers, states and world."""

    def __init__(self, line: Line, functions: Mapping[str, Callable[..., Any]], world: World) -> None:
        """Take what is there before the compiler."""
        self.line = line
        self.world = world
        self.states = States()
        self.functions = {**{name: functions[name] for name in functions}, "saltutil.sync_all": self._sync}
        self.renderers = templates.Renderers()

    def prepare(self, data: Mapping[str, Callable[..., Any]], render: Callable[..., str]) -> None:
        """Take the renderers that only read, and one for Jinja."""
        self.renderers.update(data)

        def jinja(text: Any, saltenv: str = "base", sls: str = "", **more: Any) -> Any:
            more.pop("renderers", None)
            from_string = more.pop("argline", "") == "-s"
            return io.StringIO(render(text, saltenv, sls, from_str=from_string, **more))

        self.renderers["jinja"] = jinja

    def _sync(self, saltenvs: list[str], refresh: bool = False) -> dict[str, list[str]]:
        """Fetch the master's own modules of every kind, as saltutil.sync_all does before a highstate."""
        found: dict[str, list[str]] = {kind: [] for kind in MODULE_KINDS}
        client = self.world.client
        for kind in MODULE_KINDS:
            for saltenv in saltenvs:
                prefix = f"_{kind}/"
                for path in client.file_list(saltenv):
                    if path.startswith(prefix) and path.endswith((".py", ".pyx", ".so", ".zip")):
                        client.deliver(salt.utils.url.create(path), saltenv)
                        found[kind].append(path)
                        if kind == "states":
                            self.states.custom.add(Path(path).stem)
        # custom grains would have the pillar compiled again; here all grains come from the template
        return {**found, "grains": []}


class HighState(salt.state.HighState):  # type: ignore[misc] # Salt has no types
    """Salt's highstate over the simulated minion's connections."""

    def __init__(self, opts: dict[str, Any], run: Run) -> None:  # pylint: disable=super-init-not-called
        """Compile with the options of the minion, which hold its grains and pillar."""
        self.opts = opts
        self.client = run.world.client
        self.preserve_client = True
        self._run = run
        salt.state.BaseHighState.__init__(self, opts)
        self.state = State(self.opts, file_client=self.client)
        self.matchers = {"confirm_top.confirm_top": self._is_meant}
        self.proxy = None
        self._pydsl_all_decls: dict[str, Any] = {}
        self._pydsl_render_stack: list[Any] = []

    def _is_meant(self, match: str, data: Any, _nodegroups: Any = None) -> bool:
        """Return whether a target of the top file means the minion; its type stands among the data."""
        kind = "compound"
        for item in data:
            if isinstance(item, dict) and "match" in item:
                kind = str(item["match"])
        if kind == "nodegroup":
            groups = self.opts["nodegroups"]
            match, kind = " ".join(salt.utils.minions.nodegroup_comp(match, groups)), "compound"
        return bool(self._run.line.ask(match=[match, kind]))
