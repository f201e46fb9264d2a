"""The timeline of a scenario: what happens to the fleet and the master while the clients are at work.

A day on which nothing happens proves little. What goes wrong in a data centre (minions die, a network splits, keys are
rotated) is written down beside the load, so that it happens at the same moment of every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evil_minions import ORDERS, EvilMinionsError
from harness.errors import Faults
from harness.scenarios.clients import TARGET_TYPES
from harness.scenarios.fleet import NETWORK, read_path

if TYPE_CHECKING:
    from evil_minions import Order, Table

_SELECTION = ("share", "tgt", "tgt_type")


def _keys(order: Order) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what an order may and must be told beside `at_s`, `do` and `name`."""
    selection = _SELECTION if order.selects else ()
    if order.name == "network":
        return (*NETWORK, *selection), ()
    own = (order.argument,) if order.argument else ()
    return (*own, *(("for_s",) if order.name == "partition" else ()), *selection), own


OPTIONS = {name: _keys(order) for name, order in ORDERS.items()}
OPTIONS |= {"rotate-keys": ((), ()), "restart-master": ((), ())}


@dataclass(frozen=True)
class Event:
    """One block `[[timeline]]`: something that happens to the fleet or the master."""

    # seconds after the load begins
    at_s: float
    # a key of `OPTIONS`
    do: str
    # what reports call it
    name: str
    # of the fleet, 0 to 1; without it and without `tgt` all minions are meant
    share: float | None = None
    # the minions that are meant
    tgt: str | None = None
    tgt_type: str = "glob"
    # what the order needs: for "network" an object with the keys of `harness.scenarios.fleet.NETWORK`
    argument: Any = None

    @property
    def minions(self) -> int:
        """Return the new size of the fleet, 0 if it stays."""
        return self.argument if self.do == "scale" else 0

    @property
    def behaviour(self) -> str:
        """Return the behaviour that minions get, "" for none."""
        return self.argument if self.do == "behaviour" else ""

    @property
    def of_master(self) -> bool:
        """Return whether this is done to the master, not to the fleet."""
        return self.do not in ORDERS

    def request(self) -> dict[str, object]:
        """Return the request to the fleet's control socket."""
        request: dict[str, object] = {"do": self.do}
        if self.argument is not None:
            request[ORDERS[self.do].argument] = self.argument
        if self.share is not None:
            request["share"] = self.share
        if self.tgt is not None:
            request |= {"tgt": self.tgt, "tgt_type": self.tgt_type}
        return request


def read_timeline(table: Table) -> tuple[Event, ...]:
    """Return the moments under `[[timeline]]` in order of time; a partition with `for_s` brings its heal along.

    Raises:
        ScenarioError: for anything that is not understood.
    """
    if "timeline" not in table:
        return ()
    moments: list[Event] = []
    faults = Faults()
    for entry in table.tables("timeline", least=1):
        with faults.part():
            moments += _moments(entry)
    faults.end()
    return tuple(sorted(moments, key=lambda moment: moment.at_s))


def _moments(table: Table) -> list[Event]:
    do = table.choice("do", list(OPTIONS))
    allowed, required = OPTIONS[do]
    table.allow("at_s", "do", "name", *allowed)
    for key in required:
        if key not in table:
            raise table.error(key, f"is missing: `do = {do!r}` needs it")
    if "share" in table and "tgt" in table:
        raise table.error("share", "can't stand beside `tgt`: select minions by one of them")
    if "tgt_type" in table and "tgt" not in table:
        raise table.error("tgt_type", "needs a `tgt` beside it")
    at_s = table.number("at_s", high=86_400)
    share = table.number("share", low=0.0, high=1.0) if "share" in table else None
    tgt = table.take("tgt", str) if "tgt" in table else None
    moment = Event(
        at_s=at_s,
        do=do,
        name=table.take("name", str, _name(do, share, tgt, table)),
        share=share,
        tgt=tgt,
        tgt_type=table.choice("tgt_type", TARGET_TYPES, "glob"),
        argument=_argument(do, table),
    )
    if "for_s" not in table:
        return [moment]
    return [moment, Event(at_s + table.number("for_s", low=0.1, high=86_400), "heal", "heal")]


def _argument(do: str, table: Table) -> Any:
    """Return what an order needs beside the minions that are meant, None for nothing."""
    if do == "network":
        return read_path(table)
    if do == "scale":
        return table.count("minions", low=1, high=100_000)
    order = ORDERS.get(do)
    if order is None or not order.argument:
        return None
    if do == "behaviour":
        # the dry run of the fleet's command reads it
        return table.take(order.argument, str)
    value = table.values[order.argument]
    try:
        order.read(value)
    except EvilMinionsError as error:
        raise table.error(order.argument, f"can't be meant: {error}".rstrip(".")) from None
    return value


def _name(do: str, share: float | None, tgt: str | None, table: Table) -> str:
    """Return what reports call a moment that has no name of its own."""
    words = [do.replace("-", " ")]
    if do == "scale":
        words.append(f"to {table.count('minions'):,}")
    elif do == "network":
        words += [f"{key.rpartition('_')[0] or key} {value:g}" for key, value in read_path(table).items()]
    else:
        words += [str(table.values[key]) for key in OPTIONS[do][1]]
    if share is not None:
        words.append(f"{share * 100:g} %")
    if tgt is not None:
        words.append(tgt)
    return " ".join(words)
