"""The clients of a scenario: what they ask a master for, and when their requests arrive.

The schedule is computed before the load begins and never looks at an answer, which is what makes the model an open one:
a master that slows down gets the same requests as one that doesn't. The same scenario and seed always give the same
schedule.

For most clients the scenario names the function. What the steps of an orchestration publish only the master knows: with
such clients, all jobs count as asked for, except those that master and waiting clients publish by themselves. Source
for functions of runners: salt/runners/manage.py, jobs.py and state.py of Salt 3008.5.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import Faults

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from evil_minions import Table


# polling, not work
OVERHEAD = frozenset({"saltutil.find_job"})
# of the master's own jobs, which no minion hears of
_OF_MASTER = ("runner.", "wheel.")
_ANY = "*"


@dataclass(frozen=True)
class Asked:
    """The functions `names`, and all but the overhead if `any` is true."""

    names: frozenset[str]
    any: bool = False

    def __contains__(self, function: object) -> bool:
        """Return whether a publication of `function` is what clients asked for."""
        if function in self.names:
            return True
        return self.any and function not in OVERHEAD and not str(function).startswith(_OF_MASTER)

    def lines(self) -> list[str]:
        """Return this as lines of text, for `read`."""
        return [*sorted(self.names), *([_ANY] if self.any else [])]

    @staticmethod
    def read(lines: Iterable[str]) -> Asked:
        """Return what `lines` wrote."""
        names = frozenset(lines)
        return Asked(names - {_ANY}, _ANY in names)


@dataclass(frozen=True)
class Expected:
    """How many minions a complete answer names; `steps` has the numbers of an orchestration's steps that differ."""

    minions: int
    steps: dict[str, int] = field(default_factory=dict)


PING = "test.ping"
# these runners ping their target, and name who answered or who did not
STATUS, UP, DOWN = "manage.status", "manage.up", "manage.down"
LIST_JOBS, ACTIVE = "jobs.list_jobs", "jobs.active"
_ORCHESTRATIONS = frozenset({"state.orchestrate", "state.orch", "state.sls"})
_PINGING = frozenset({STATUS, UP, DOWN})
# functions that the master publishes for each of these runners
_PUBLISHED = {
    **dict.fromkeys(_PINGING, frozenset({PING})),
    ACTIVE: frozenset({"saltutil.running"}),
    LIST_JOBS: frozenset[str](),
}


def orchestrates(function: str) -> bool:
    """Return whether a runner's function runs an orchestration."""
    return function in _ORCHESTRATIONS


def asks_minions(function: str) -> bool:
    """Return whether a runner's function takes a target and a timeout of its own."""
    return function in _PINGING


def names_minions(function: str) -> bool:
    """Return whether the answer says which minions answered, so that its completeness can be judged by them."""
    return function in _PINGING or function in _ORCHESTRATIONS


LOGINS = START, REQUEST = ("start", "request")
MOST = 1000
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Group:
    """One table `[users.NAME]`: users who may all do the same."""

    # the table's own; users are called NAME-001 and so on
    name: str
    # how many users there are
    count: int
    # what each may do, as Salt's `external_auth` and `publisher_acl` take it
    permissions: tuple[object, ...]
    # when they log in: "start" is once, when the load begins; "request" is again for each request
    login: str = START

    def user(self, number: int) -> str:
        """Return the user who sends the request of this number: they take turns."""
        return f"{self.name}-{number % self.count + 1:03d}"

    @property
    def users(self) -> list[str]:
        """Return the names of all users."""
        return [self.user(number) for number in range(self.count)]


def read_users(table: Table) -> dict[str, Group]:
    """Return the groups of users by name.

    Raises:
        ScenarioError: for anything that is not understood.
    """
    found: dict[str, Group] = {}
    faults = Faults()
    for name in table:
        with faults.part():
            found[name] = _group(table, name)
    faults.end()
    return found


def _group(parent: Table, name: str) -> Group:
    if not _NAME.fullmatch(name):
        raise parent.error(name, "is no name of a group: take lower-case letters, digits and hyphens, a letter first")
    table = parent.table(name).allow("count", "permissions", "login")
    found = table.take("permissions", list)
    if not found:
        raise table.error("permissions", "is empty, so nobody could do anything: give at least one, such as 'test.*'")
    for entry in found:
        if not _permission(entry):
            raise table.error(
                "permissions",
                f"holds {entry!r}, but may hold functions such as 'test.*', '@runner', or tables such as "
                "{ 'web*' = ['state.apply'] } only",
            )
    return Group(name, table.count("count", low=1, high=MOST), tuple(found), table.choice("login", LOGINS, START))


def _permission(entry: object) -> bool:
    """Return whether an entry is one of Salt's: a function, or a table of targets with lists of functions."""
    if isinstance(entry, str):
        return bool(entry)
    if not isinstance(entry, dict) or not entry:
        return False
    return all(isinstance(of, list) and of and all(isinstance(one, str | dict) for one in of) for of in entry.values())


@dataclass(frozen=True)
class Request:
    """One request: the clients that send it, its number among theirs, and when it is due, in seconds from the start."""

    clients: str
    number: int
    due_s: float


def requests_of(clients: Clients, seed: int) -> list[Request]:
    """Return the requests of one block of clients, in order.

    Each block draws from a generator of its own, seeded with its name, so that adding a block leaves the others as
    they were.
    """
    source = random.Random(f"{seed}/{clients.name}")  # noqa: S311  # a repeatable schedule is no secret
    return [Request(clients.name, number, due) for number, due in enumerate(_times(clients.arrival, source))]


def _times(arrival: Arrival, source: random.Random) -> Iterator[float]:
    if arrival.kind == "burst":
        yield from [arrival.start_s] * arrival.burst
        return
    now = 0.0 if arrival.kind == "constant" else source.expovariate(arrival.rate)
    while now < arrival.duration_s:
        yield round(arrival.start_s + now, 6)
        now += 1 / arrival.rate if arrival.kind == "constant" else source.expovariate(arrival.rate)


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
            return _PUBLISHED.get(self.function)
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
    if "steps" in table and (kind not in RUNNERS or not orchestrates(function)):
        raise table.error("steps", f"belongs to an orchestration, {function!r} of kind {kind!r} is none")
    if "timeout_s" in table and kind in RUNNERS and not asks_minions(function):
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
    if names_minions(function):
        tgt = table.take("tgt", str, "*")
        for key in ("tgt", "tgt_type", "timeout") if asks_minions(function) else ():
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
