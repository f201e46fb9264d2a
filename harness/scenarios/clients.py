"""The clients of a scenario: what they ask a master for, and when their requests arrive."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.scenarios import runners
from harness.scenarios.expected import Expected
from harness.scenarios.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from evil_minions import Table

TARGET_TYPES = (
    "glob", "list", "pcre", "grain", "grain_pcre", "pillar", "pillar_pcre", "pillar_exact", "compound", "nodegroup",
    "ipcidr",
)  # fmt: skip
API, CLI, RUNNER, SALT_RUN = "api", "cli", "runner", "salt-run"
KINDS = (API, CLI, RUNNER, SALT_RUN)
# they call the master's runners; the others ask minions
RUNNERS = frozenset({RUNNER, SALT_RUN})
# they go through salt-api; the others are processes of Salt's own commands
OVER_API = frozenset({API, RUNNER})
# the function with which a batch finds out, before it begins, who is there
GATHER = "test.ping"
_BATCH = re.compile(r"(100|[1-9]\d?)%|[1-9]\d*")


@dataclass(frozen=True)
class Arrival:
    """When requests arrive: an open model, in which nobody waits for the answers of others."""

    # "poisson" (at random) or "constant" (at equal distances) have a rate and a duration; "burst" is all at once
    kind: str
    # requests a second
    rate: float = 0.0
    duration_s: float = 0.0
    # how many requests come at once
    burst: int = 0
    # seconds from the begin of the load to the first request
    start_s: float = 0.0


@dataclass(frozen=True)
class Clients:
    """One block `[[clients]]`: what these clients ask for, how, and when their requests arrive."""

    # what reports call them
    name: str
    # "api" is a request to salt-api, "cli" a process of Salt's `salt`, "runner" a request to the runner client of
    # salt-api, "salt-run" a process of that name
    kind: str
    # of an execution module, or of a runner
    function: str
    # the minions that have to answer; "" for a runner's function that names no minions
    tgt: str
    arrival: Arrival
    # how Salt reads `tgt`
    tgt_type: str = "glob"
    # "sync" waits for the answer, "async" is content with the job's id
    mode: str = "sync"
    # of the function
    args: tuple[object, ...] = ()
    kwarg: dict[str, object] = field(default_factory=dict)
    # given to Salt, as the option -t is
    timeout_s: int = 5
    # when the client itself gives up
    give_up_s: float = 300.0
    # the size of a batch as Salt's option -b takes it; "" for none
    batch: str = ""
    # seconds between a minion's return and the next one's turn
    batch_wait: int = 0
    # the group of users that send the requests; "" for the bed's own user
    user: str = ""
    # targets of an orchestration's steps that differ from `tgt`, by the steps' ids
    steps: dict[str, str] = field(default_factory=dict)

    @property
    def publishes(self) -> frozenset[str] | None:
        """Return the functions that a request has the master publish; None if only the master knows."""
        if self.kind in RUNNERS:
            return runners.publishes(self.function)
        return frozenset({self.function, GATHER} if self.batch else {self.function})

    @property
    def single(self) -> bool:
        """Return whether each request is one job, published once."""
        return self.kind not in RUNNERS and not self.batch

    @property
    def targets(self) -> dict[str, str]:
        """Return every target by the name under which its size is kept: the block's own, and those of steps."""
        found = {self.name: self.tgt} if self.tgt else {}
        return found | {self.step(name): tgt for name, tgt in self.steps.items()}

    def expects(self, sizes: Mapping[str, int]) -> Expected:
        """Return what a complete answer holds; `sizes` are those of `targets`."""
        return Expected(sizes.get(self.name, 0), {name: sizes[self.step(name)] for name in self.steps})

    def step(self, name: str) -> str:
        """Return the name under which the size of a step's target is kept."""
        return f"{self.name} / {name}"

    @property
    def text(self) -> str:
        """Return in words what these clients do."""
        arrival = self.arrival
        when = (
            f"{arrival.burst} at once"
            if arrival.kind == "burst"
            else f"{arrival.rate:g} a second for {arrival.duration_s:g} s"
        )
        target = f" on {self.tgt!r} ({self.tgt_type})" if self.tgt else ""
        batch = f", {self.batch} at a time" if self.batch else ""
        user = f", by the users {self.user}" if self.user else ""
        return f"{self.name}: {when}, {self.kind} {self.mode}, {self.function}{target}{batch}{user}"


def read_clients(table: Table, users: Container[str] = ()) -> tuple[Clients, ...]:
    """Return the clients of a scenario, whose groups of users are `users`.

    Two of the same name are refused: reports couldn't tell them apart.
    """
    seen: dict[str, Clients] = {}
    faults = Faults()
    for row in table.tables("clients", least=1):
        with faults.part():
            entry = _clients(row)
            if entry.name in seen:
                raise row.error("name", f"is {entry.name!r} a second time: give every block its own `name`")
            if entry.user and entry.user not in users:
                raise row.error("user", f"is {entry.user!r}, but there is no table `[users.{entry.user}]`")
            seen[entry.name] = entry
    faults.end()
    return tuple(seen.values())


def _clients(table: Table) -> Clients:
    keys = ("name", "kind", "function", "args", "kwarg", "tgt", "tgt_type", "steps", "mode", "timeout_s", "give_up_s")
    table.allow(*keys, "batch", "batch_wait", "user", "rate", "duration_s", "arrival", "burst", "start_s")
    function = table.take("function", str)
    kind = table.choice("kind", KINDS)
    tgt_type = table.choice("tgt_type", TARGET_TYPES, Clients.tgt_type)
    mode = table.choice("mode", ("sync", "async"), Clients.mode)
    tgt = _runner_target(table, function) if kind in RUNNERS else table.take("tgt", str)
    if "steps" in table and (kind not in RUNNERS or not runners.orchestrates(function)):
        raise table.error("steps", f"belongs to an orchestration, {function!r} of kind {kind!r} is none")
    if "timeout_s" in table and kind in RUNNERS and not runners.asks_minions(function):
        raise table.error("timeout_s", f"has no meaning for {function!r}, which takes none: leave it out")
    user = table.take("user", str, "")
    if user and kind == SALT_RUN:
        raise table.error("user", "can't stand beside the kind 'salt-run', which knows no permissions: take 'runner'")
    return Clients(
        name=table.take("name", str, f"{kind} {function}"),
        kind=kind,
        function=function,
        args=tuple(table.take("args", list, [])),
        kwarg=table.take("kwarg", dict, {}),
        tgt=tgt,
        tgt_type=tgt_type,
        mode=mode,
        timeout_s=table.count("timeout_s", Clients.timeout_s, low=1, high=3600),
        give_up_s=table.number("give_up_s", Clients.give_up_s, low=1, high=3600),
        batch=_batch(table, kind, mode),
        batch_wait=table.count("batch_wait", Clients.batch_wait, high=3600),
        user=user,
        steps=_steps(table),
        arrival=_arrival(table),
    )


def _runner_target(table: Table, function: str) -> str:
    """Return the minions that a runner's answer has to name, "" for a function whose answer names none."""
    if runners.names_minions(function):
        tgt = table.take("tgt", str, "*")
        for key in ("tgt", "tgt_type", "timeout") if runners.asks_minions(function) else ():
            if key in table.take("kwarg", dict, {}):
                other = "timeout_s" if key == "timeout" else key
                raise table.error("kwarg", f"holds `{key}`: give it as `{other}` of the clients")
        return tgt
    for key in ("tgt", "tgt_type"):
        if key in table:
            raise table.error(key, f"has no meaning for {function!r}, whose answer names no minions: leave it out")
    return ""


def _batch(table: Table, kind: str, mode: str) -> str:
    """Return the size of a batch as Salt takes it, "" for none."""
    if "batch" not in table:
        if "batch_wait" in table:
            raise table.error("batch_wait", "needs a `batch` beside it")
        return ""
    if kind in RUNNERS:
        raise table.error("batch", f"is for the kinds 'api' and 'cli', not for {kind!r}")
    if kind == API and mode == "async":
        raise table.error("batch", "of the kind 'api' is sync only, as salt-api has no other: take the kind 'cli'")
    value = table.values["batch"]
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, int | str) or not _BATCH.fullmatch(text):
        raise table.error("batch", f"is {value!r}, but has to be a number of minions, or a share from '1%' to '100%'")
    return text


def _steps(table: Table) -> dict[str, str]:
    """Return the targets of an orchestration's steps, by the steps' ids."""
    steps = table.take("steps", dict, {})
    for name, tgt in steps.items():
        if not isinstance(tgt, str):
            raise table.error(f"steps.{name}", f"is {tgt!r}, but has to be a target, such as 'web*'")
    return steps


def _arrival(table: Table) -> Arrival:
    start_s = table.number("start_s", Arrival.start_s)
    if "burst" in table:
        for key in ("rate", "duration_s", "arrival"):
            if key in table:
                raise table.error(key, "can't stand beside `burst`: give `burst`, or `rate` and `duration_s`")
        return Arrival("burst", burst=table.count("burst", low=1, high=10_000), start_s=start_s)
    if "rate" not in table:
        raise table.error("rate", "is missing: give `rate` and `duration_s`, or `burst`")
    return Arrival(
        table.choice("arrival", ("poisson", "constant"), "poisson"),
        rate=table.number("rate", low=0.001, high=1000),
        duration_s=table.number("duration_s", low=1, high=86_400),
        start_s=start_s,
    )
