"""Scenarios: what a load run does, as a small TOML file read into frozen dataclasses.

A scenario is data so that the same load can be repeated on two trees, on two machines and a year later, and so that a
reader sees in half a minute what was asked of the master. Every key is checked before anything starts.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from harness.errors import ScenarioError
from harness.scenarios.table import Table, nearest
from harness.scenarios.thresholds import Threshold, read_thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).parent
TREES = ("stock", "patched")
TRANSPORTS = ("zeromq", "tcp", "ws")
TARGET_TYPES = (
    "glob", "list", "pcre", "grain", "grain_pcre", "pillar", "pillar_pcre", "pillar_exact", "compound", "nodegroup",
    "ipcidr",
)  # fmt: skip


@dataclass(frozen=True)
class Arrival:
    """When requests arrive: an open model, in which nobody waits for the answers of others.

    `kind` is `poisson` or `constant` (`rate` requests a second for `duration_s` seconds) or `burst` (`burst` requests
    at once). `start_s` is the delay after the load phase begins.
    """

    kind: str
    rate: float = 0.0
    duration_s: float = 0.0
    burst: int = 0
    start_s: float = 0.0


@dataclass(frozen=True)
class Clients:
    """One kind of client: what it asks for, how, and when its requests arrive.

    `kind` is `api` (a request to salt-api) or `cli` (a process of Salt's own `salt`). `mode` is `sync` (waits for the
    minions' answers) or `async` (is content with the job's id). `timeout_s` is given to Salt, as `-t` is; `give_up_s`
    is when the client itself gives up.
    """

    name: str
    kind: str
    function: str
    tgt: str
    arrival: Arrival
    tgt_type: str = "glob"
    mode: str = "sync"
    args: tuple[object, ...] = ()
    kwarg: dict[str, object] = field(default_factory=dict)
    timeout_s: int = 5
    give_up_s: float = 300.0

    @property
    def text(self) -> str:
        """Return in words what these clients do."""
        arrival = self.arrival
        when = (
            f"{arrival.burst} at once"
            if arrival.kind == "burst"
            else f"{arrival.rate:g} a second for {arrival.duration_s:g} s"
        )
        return f"{self.name}: {when}, {self.kind} {self.mode}, {self.function} on {self.tgt!r} ({self.tgt_type})"


@dataclass(frozen=True)
class Scenario:
    """Everything that a load run is told.

    `ready_s` limits the fleet's start; `settle_s` limits the wait, after the last answer to a client, for the last
    return. `master` holds options of the master's configuration, `tree_master` those of one tree only.
    """

    name: str
    description: str
    minions: int
    clients: tuple[Clients, ...]
    seed: int = 1
    pillar: Literal["sql", "none"] = "sql"
    ready_s: float = 300.0
    settle_s: float = 60.0
    transport: Literal["zeromq", "tcp", "ws"] = "zeromq"
    master: dict[str, object] = field(default_factory=dict)
    tree_master: dict[str, dict[str, object]] = field(default_factory=dict)
    thresholds: tuple[Threshold, ...] = ()

    def master_options(self, tree: str) -> dict[str, object]:
        """Return the options of `tree`'s master."""
        return {**self.master, **self.tree_master.get(tree, {})}

    @property
    def functions(self) -> frozenset[str]:
        """Return the functions that clients ask for; every other publication is the master's own overhead."""
        return frozenset(clients.function for clients in self.clients)

    @property
    def load_s(self) -> float:
        """Return when the last request arrives, in seconds after the load phase begins."""
        return max(clients.arrival.start_s + clients.arrival.duration_s for clients in self.clients)

    def changed(self, *, minions: int | None = None, seed: int | None = None, transport: str | None = None) -> Scenario:
        """Return the scenario with another number of minions, another seed or another transport."""
        given = {"minions": minions, "seed": seed, "transport": transport}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        return dataclasses.replace(self, **changes)


def names() -> list[str]:
    """Return the names of the scenarios that come with the harness."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Path:
    """Return the file of scenario `name`, which is a name from `names()` or the path of a TOML file.

    Raises ScenarioError if there is none.
    """
    path = Path(name)
    if path.suffix == ".toml" or "/" in name:
        if not path.is_file():
            raise ScenarioError(
                f"There is no scenario file {name}: give the path of a TOML file or one of {', '.join(names())}."
            )
        return path
    if name not in names():
        hint = nearest(name, names())
        advice = f"did you mean {hint}?" if hint else f"give one of {', '.join(names())}, or the path of a TOML file."
        raise ScenarioError(f"There is no scenario {name}: {advice}")
    return FOLDER / f"{name}.toml"


def load(path: Path) -> Scenario:
    """Return the scenario in the TOML file `path`.

    Raises ScenarioError, one sentence that names the file and the key, for anything in it that is not understood.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} can't be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path.name} is not TOML: {error}.") from error
    return _scenario(Table(values, path.name), path.stem)


def dump(scenario: Scenario) -> dict[str, object]:
    """Return the scenario as plain values, for JSON."""
    return dataclasses.asdict(scenario)


def _scenario(table: Table, name: str) -> Scenario:
    keys = (
        "description",
        "minions",
        "seed",
        "pillar",
        "ready_s",
        "settle_s",
        "transport",
        "master",
        "trees",
        "clients",
        "thresholds",
    )
    table.allow(*keys)
    trees = table.table("trees").allow(*TREES)
    tree_master = {tree: trees.table(tree).allow("master").take("master", dict, {}) for tree in trees}
    clients = tuple(_clients(entry) for entry in table.tables("clients"))
    return Scenario(
        name=name,
        description=table.take("description", str),
        minions=table.count("minions", low=1, high=100_000),
        seed=table.count("seed", 1),
        pillar=cast("Literal['sql', 'none']", table.choice("pillar", ("sql", "none"), "sql")),
        ready_s=table.number("ready_s", 300.0, low=1),
        settle_s=table.number("settle_s", 60.0),
        transport=cast("Literal['zeromq', 'tcp', 'ws']", table.choice("transport", TRANSPORTS, "zeromq")),
        master=table.take("master", dict, {}),
        tree_master=tree_master,
        clients=_named(clients, table),
        thresholds=tuple(read_thresholds(table.table("thresholds"))),
    )


def _named(clients: Iterable[Clients], table: Table) -> tuple[Clients, ...]:
    """Return the clients, refusing two of the same name: reports couldn't tell them apart."""
    seen: dict[str, Clients] = {}
    for number, entry in enumerate(clients, start=1):
        if entry.name in seen:
            raise table.error(
                f"clients[{number}].name", f"is {entry.name!r} a second time: give every block its own `name`"
            )
        seen[entry.name] = entry
    return tuple(seen.values())


def _clients(table: Table) -> Clients:
    keys = ("name", "kind", "function", "args", "kwarg", "tgt", "tgt_type", "mode", "timeout_s", "give_up_s")
    table.allow(*keys, "rate", "duration_s", "arrival", "burst", "start_s")
    function = table.take("function", str)
    kind = table.choice("kind", ("api", "cli"))
    tgt_type = table.choice("tgt_type", TARGET_TYPES, "glob")
    return Clients(
        name=table.take("name", str, f"{kind} {function}"),
        kind=kind,
        function=function,
        args=tuple(table.take("args", list, [])),
        kwarg=table.take("kwarg", dict, {}),
        tgt=table.take("tgt", str),
        tgt_type=tgt_type,
        mode=table.choice("mode", ("sync", "async"), "sync"),
        timeout_s=table.count("timeout_s", 5, low=1, high=3600),
        give_up_s=table.number("give_up_s", 300.0, low=1, high=3600),
        arrival=_arrival(table),
    )


def _arrival(table: Table) -> Arrival:
    start_s = table.number("start_s", 0.0)
    if table.has("burst"):
        for key in ("rate", "duration_s", "arrival"):
            if table.has(key):
                raise table.error(key, "can't stand beside `burst`: give `burst`, or `rate` and `duration_s`")
        return Arrival("burst", burst=table.count("burst", low=1, high=10_000), start_s=start_s)
    if not table.has("rate"):
        raise table.error("rate", "is missing: give `rate` and `duration_s`, or `burst`")
    return Arrival(
        table.choice("arrival", ("poisson", "constant"), "poisson"),
        rate=table.number("rate", low=0.001, high=1000),
        duration_s=table.number("duration_s", low=1, high=86_400),
        start_s=start_s,
    )
