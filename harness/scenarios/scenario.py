"""Scenarios: what a load run does, as a small TOML file read into frozen dataclasses.

A scenario is data so that the same load can be repeated on two trees, on two machines and a year later, and so that a
reader sees in half a minute what was asked of the master. Every key is checked before anything starts.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evil_minions import TRANSPORTS, Transport, nearest, read_table
from harness import choices, paths
from harness.choices import PILLARS, TRANSPORT, WITHOUT_API, Pillar
from harness.errors import Faults, ScenarioError
from harness.scenarios.clients import OVER_API, Asked, Clients, Group, Request, read_clients, read_users, requests_of
from harness.scenarios.fleet import read_fleet
from harness.scenarios.thresholds import Threshold, read_thresholds
from harness.scenarios.timeline import Event, read_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from evil_minions import Table


def requests(scenario: Scenario) -> list[Request]:
    """Return every request of the scenario, in the order in which they are due."""
    every = [request for clients in scenario.clients for request in requests_of(clients, scenario.seed)]
    return sorted(every, key=lambda request: request.due_s)


def check(scenario: Scenario, ids: Sequence[str]) -> None:
    """Raise ScenarioError if clients target none of the minions `ids`, or no client has a request to send."""
    faults = Faults()
    for clients in scenario.clients:
        for name, tgt in clients.targets.items():
            if not matches(tgt, clients.tgt_type, ids):
                faults.add(
                    f"The clients `{name}` target none of the {len(ids):,} minions ({ids[0]} to {ids[-1]}) with "
                    f"{tgt!r}: change `tgt` or `minions`."
                )
    if not requests(scenario):
        faults.add(
            f"The schedule of {scenario.name} holds no request, so there is nothing to measure: raise `rate` or "
            "`duration_s`, or change `seed`."
        )
    faults.end()


def matches(tgt: str, tgt_type: str, ids: Sequence[str]) -> bool:
    """Return whether a target matches any of `ids`; True for kinds that only the fleet can tell.

    Source: salt.matchers.glob_match and salt.matchers.list_match of Salt 3008.5.
    """
    if tgt_type == "glob":
        return bool(fnmatch.filter(ids, tgt))
    if tgt_type == "list":
        known = set(ids)
        return any(name.strip() in known for name in tgt.split(","))
    return True


FOLDER = Path(__file__).parent
TREES = tuple(paths.TREES)
MOST_APIS = 16


@dataclass(frozen=True)
class Scenario:
    """Everything that a load run is told: each field is a key or a table of the scenario's file, and of results."""

    # the name of the file
    name: str
    # one sentence, for lists and reports
    description: str
    # how many minions there are when the load begins
    minions: int
    # what is asked, and when
    clients: tuple[Clients, ...]
    # of the pillars' content, of when requests arrive, and of the fleet's random choices
    seed: int = 1
    # "sql" for pillars out of PostgreSQL, "none" for none
    pillar: Pillar = "sql"
    # seconds that the fleet has to get ready, longer as long as more minions do
    ready_s: float = 300.0
    # seconds, after the last answer to a client, within which nothing may be on its way any more
    settle_s: float = 60.0
    # Salt's option of that name
    transport: Transport = TRANSPORT
    # options of the master's configuration
    master: dict[str, object] = field(default_factory=dict)
    # such options by the tree that has them, with precedence
    tree_master: dict[str, dict[str, object]] = field(default_factory=dict)
    # what is asked of the result
    thresholds: tuple[Threshold, ...] = ()
    # options of the fleet's command, in its own words
    fleet: tuple[str, ...] = ()
    # what happens to fleet and master while the clients are at work
    timeline: tuple[Event, ...] = ()
    # whether clients may ask for functions that the fleet does not know
    unknown_allowed: bool = False
    # groups of users that send requests, by name
    users: dict[str, Group] = field(default_factory=dict)
    # how many processes of salt-api there are
    salt_api: int = 1

    def master_options(self, tree: str) -> dict[str, object]:
        """Return the options of `tree`'s master; `tree` may be the label of a run's second one, such as stock-2."""
        return {**self.master, **self.tree_master.get(choices.kind(tree), {})}

    @property
    def asks_api(self) -> bool:
        """Return whether any clients go through salt-api."""
        return any(clients.kind in OVER_API for clients in self.clients)

    @property
    def functions(self) -> frozenset[str]:
        """Return the functions that clients ask minions for, as far as the scenario tells."""
        return frozenset().union(*(clients.publishes or () for clients in self.clients))

    @property
    def asked(self) -> Asked:
        """Return which publications are what clients asked for; every other one is the master's own overhead."""
        return Asked(self.functions, any(clients.publishes is None for clients in self.clients))

    def permissions(self, kinds: Container[str]) -> dict[str, list[object]]:
        """Return what each user may do who sends requests of one of `kinds`, by the user's name."""
        groups = {clients.user for clients in self.clients if clients.kind in kinds and clients.user}
        return {user: list(self.users[name].permissions) for name in sorted(groups) for user in self.users[name].users}

    @property
    def single_functions(self) -> frozenset[str]:
        """Return the functions of which each request is one job, so that jobs can be compared with requests.

        Those that batches and runners have the master publish as well are not among them.
        """
        others = [clients.publishes for clients in self.clients if not clients.single]
        if None in others:
            return frozenset()
        known = frozenset().union(*(functions or () for functions in others))
        return frozenset(clients.function for clients in self.clients if clients.single) - known

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
        """Return the scenario with another number of minions, another seed or another transport.

        Raises:
            ScenarioError: for a transport over which its clients can't ask.
        """
        given = {"minions": minions, "seed": seed, "transport": transport}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        found = dataclasses.replace(self, **changes)
        _check_transport(found)
        return found


def names() -> list[str]:
    """Return the names of the scenarios that come with the harness."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Path:
    """Return the file of scenario `name`, which is a name from `names()` or the path of a TOML file.

    Raises:
        ScenarioError: if there is none.
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

    Raises:
        ScenarioError: for what is not understood: a sentence for each fault, in a line of its own, with file and key.
    """
    return _scenario(read_table(path, path.name, ScenarioError), path.stem)


def _check_transport(scenario: Scenario) -> None:
    if scenario.transport in WITHOUT_API and scenario.asks_api:
        names = ", ".join(repr(clients.name) for clients in scenario.clients if clients.kind in OVER_API)
        raise ScenarioError(
            f"{scenario.name}: salt-api does not work over {scenario.transport}, as it looks for a socket that no such "
            f"master has: give the clients {names} the kind 'cli' or 'salt-run', or take zeromq or tcp."
        )


def dump(scenario: Scenario) -> dict[str, object]:
    """Return the scenario as plain values, for JSON."""
    return dataclasses.asdict(scenario)


def _scenario(table: Table, name: str) -> Scenario:
    faults = Faults()
    users = table.values.get("users")
    readers: dict[str, Callable[[], Any]] = {
        "description": lambda: table.take("description", str),
        "minions": lambda: table.count("minions", low=1, high=100_000),
        "seed": lambda: table.count("seed", Scenario.seed),
        "pillar": lambda: table.choice("pillar", PILLARS, Scenario.pillar),
        "ready_s": lambda: table.number("ready_s", Scenario.ready_s, low=1),
        "settle_s": lambda: table.number("settle_s", Scenario.settle_s),
        "transport": lambda: table.choice("transport", TRANSPORTS, Scenario.transport),
        "unknown_allowed": lambda: table.choice("unknown_functions", ("refuse", "allow"), "refuse") == "allow",
        "master": lambda: table.take("master", dict, {}),
        "tree_master": lambda: _tree_master(table.table("trees")),
        "fleet": lambda: read_fleet(table.table("fleet")),
        "clients": lambda: read_clients(table, users if isinstance(users, dict) else {}),
        "users": lambda: read_users(table.table("users")),
        "salt_api": lambda: table.count("salt_api", Scenario.salt_api, low=1, high=MOST_APIS),
        "timeline": lambda: read_timeline(table),
        "thresholds": lambda: tuple(read_thresholds(table.table("thresholds"))),
    }
    names = {key: key for key in readers} | {"unknown_allowed": "unknown_functions", "tree_master": "trees"}
    with faults.part():
        table.allow(*names.values())
    misspelt = bool(faults)
    found: dict[str, Any] = {}
    for key, read in readers.items():
        # one that is missing may be the one that is misspelt
        if names[key] in table or not misspelt:
            with faults.part():
                found[key] = read()
    faults.end()
    made = Scenario(name=name, **found)
    for check in (_check_transport, partial(_check_users, table)):
        with faults.part():
            check(made)
    faults.end()
    return made


def _check_users(table: Table, scenario: Scenario) -> None:
    for group in sorted(scenario.users.keys() - {entry.user for entry in scenario.clients}):
        raise table.error(f"users.{group}", "is used by no clients: give a block `user`, or leave the table out")


def _tree_master(trees: Table) -> dict[str, dict[str, object]]:
    trees.allow(*TREES)
    return {tree: trees.table(tree).allow("master").take("master", dict, {}) for tree in trees}
