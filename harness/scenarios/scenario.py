"""Scenarios: what a load run does, as a small TOML file read into frozen dataclasses.

A scenario is data so that the same load can be repeated on two trees, on two machines and a year later, and so that a
reader sees in half a minute what was asked of the master. Every key is checked before anything starts.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from harness.errors import ScenarioError
from harness.scenarios.clients import Clients, read_clients
from harness.scenarios.fleet import read_fleet
from harness.scenarios.table import Table, nearest
from harness.scenarios.thresholds import Threshold, read_thresholds
from harness.scenarios.timeline import Moment, read_timeline

FOLDER = Path(__file__).parent
TREES = ("stock", "patched")
TRANSPORTS = ("zeromq", "tcp", "ws")


@dataclass(frozen=True)
class Scenario:
    """Everything that a load run is told.

    `ready_s` limits the fleet's start; `settle_s` limits the wait, after the last answer to a client, for the last
    return. `master` holds options of the master's configuration, `tree_master` those of one tree only;
    `fleet` those of the fleet's command. `timeline` is what happens to fleet and master while the clients are at work.
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
    fleet: tuple[str, ...] = ()
    timeline: tuple[Moment, ...] = ()

    def master_options(self, tree: str) -> dict[str, object]:
        """Return the options of `tree`'s master."""
        return {**self.master, **self.tree_master.get(tree, {})}

    @property
    def functions(self) -> frozenset[str]:
        """Return the functions that clients ask for; every other publication is the master's own overhead."""
        return frozenset(clients.function for clients in self.clients)

    @property
    def load_s(self) -> float:
        """Return when the last request arrives and the timeline is over, in seconds after the load phase begins."""
        arrivals = (clients.arrival.start_s + clients.arrival.duration_s for clients in self.clients)
        return max([*arrivals, *(moment.at_s for moment in self.timeline)])

    @property
    def largest(self) -> int:
        """Return the most minions that there are at any moment."""
        return max([self.minions, *(moment.minions for moment in self.timeline)])

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
        "fleet",
        "clients",
        "timeline",
        "thresholds",
    )
    table.allow(*keys)
    trees = table.table("trees").allow(*TREES)
    tree_master = {tree: trees.table(tree).allow("master").take("master", dict, {}) for tree in trees}
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
        clients=read_clients(table),
        thresholds=tuple(read_thresholds(table.table("thresholds"))),
        fleet=read_fleet(table.table("fleet")),
        timeline=read_timeline(table),
    )
