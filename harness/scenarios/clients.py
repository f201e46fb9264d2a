"""The clients of a scenario: what they ask a master for, and when their requests arrive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.scenarios.table import Table

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


def read_clients(table: Table) -> tuple[Clients, ...]:
    """Return the clients of a scenario, refusing two of the same name: reports couldn't tell them apart."""
    seen: dict[str, Clients] = {}
    for number, entry in enumerate(map(_clients, table.tables("clients")), start=1):
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
