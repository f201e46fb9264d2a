"""Functions of simulated minions: what one is, its call, and what it may ask of the minion that it runs on.

A function is a plain callable with the signature of Salt's own, so that wrong arguments fail with the same words. It
finds its minion in `CURRENT`.

The answers don't matter to a simulated minion, the questions do: they are most of what a highstate costs the master.
Source: requests recorded from a minion of Salt 3008.5.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import salt.utils.args
import salt.utils.stringutils

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    Ask = Callable[[Mapping[str, Any]], Awaitable[Any]]


class Host(Protocol):
    """A minion, as the functions that run on it see it."""

    id: str

    @property
    def rng(self) -> random.Random:
        """Random numbers that belong to no job."""

    @property
    def replay(self) -> Recorded | None:
        """What was recorded, None if the fleet replays nothing."""

    @property
    def planner(self) -> StateRunner:
        """What runs the master's own states."""

    def job_rng(self, pid: int) -> random.Random:
        """Return the random numbers of the job with this process id; shared, so use them at once."""

    def grains(self) -> dict[str, Any]:
        """Return the grains."""

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""

    def pillar_item(self, name: str) -> Any:
        """Return one value of the pillar's top level, or None; don't change it."""

    def running(self) -> list[dict[str, Any]]:
        """Return the data of every job that runs now."""

    def queued(self) -> list[dict[str, Any]]:
        """Return the data of every job that waits in the minion's own queue."""

    def stop_job(self, jid: str) -> int | None:
        """End a job for good, without a return; return the process id that it had, None if it doesn't run."""

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Have the master compile the pillar again; the one that is kept for targets stays as it is."""

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Start to fetch the pillar that is kept, in the background."""

    def asking(self) -> AbstractContextManager[Ask]:
        """Give what asks the master, over a connection of its own; it raises ExchangeError without an answer."""

    def fire(self, tag: str, data: object) -> None:
        """Send an event to the master's bus."""

    def register_resources(self) -> None:
        """Tell the master which resources this minion manages: none."""


class Recorded(Protocol):
    """What was recorded, as a job asks for it: see `evil_minions.recording.replay`."""

    def find(self, name: str, args: Sequence[Any]) -> Function | None:
        """Return what answers to a function with these arguments."""


class StateRunner(Protocol):
    """What runs the master's own states: see `evil_minions.states`."""

    async def run(self, call: Call, host: Any, mods: Sequence[str] | None, options: Mapping[str, Any]) -> Any:
        """Run a highstate (`mods` is None) or some state files; return what comes of it, and the exit code."""

    async def synchronise(self, host: Any, kinds: Sequence[str], saltenvs: Sequence[str]) -> dict[str, list[str]]:
        """Fetch the master's own modules of some kinds; return the names of the new ones by kind."""


@dataclass(slots=True)
class Call:
    """One function of one job; a function may set `retcode`, and `out`, the outputter; `table` has all functions."""

    host: Host
    load: Mapping[str, Any]
    pid: int
    retcode: int = 0
    out: str | None = None
    table: Mapping[str, Function] = field(default_factory=dict)

    @property
    def rng(self) -> random.Random:
        """The job's random numbers, the same in each run with the same seed; get them once, and use them at once."""
        return self.host.job_rng(self.pid)

    def others(self) -> list[dict[str, Any]]:
        """Return the data of the jobs that run beside this one."""
        return [data for data in self.host.running() if data["pid"] != self.pid]


CURRENT: ContextVar[Call] = ContextVar("call")


async def ask_all(host: Host, loads: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Ask the master for several things one after the other, over a connection of their own; return the answers.

    Raises:
        ExchangeError: if the master doesn't answer one of them.
    """
    with host.asking() as ask:
        return [await ask(load) for load in loads]


async def fetch(ask: Ask, load: Mapping[str, Any]) -> bytes:
    """Return a file of the master, fetched part by part up to an empty one; `load` has its path and environment."""
    content = b""
    while True:
        part = await ask({**load, "cmd": "_serve_file", "loc": len(content)})
        data = salt.utils.stringutils.to_bytes(part["data"]) if isinstance(part, dict) and "data" in part else b""
        if not data:
            return content
        content += data


MODULE_KINDS: Final = (
    "clouds",
    "beacons",
    "modules",
    "states",
    "sdb",
    "grains",
    "renderers",
    "returners",
    "output",
    "utils",
    "log_handlers",
    "executors",
    "proxymodules",
    "engines",
    "thorium",
    "serializers",
    "matchers",
    "resources",
)


START_SECONDS: Final = 0.085
MISSING_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Function:
    """An execution function.

    `origin` is where Salt has it (`salt.modules.test:ping`), for documentation in error messages. `outputter` is what
    Salt's module declares for it. `seconds` is what a real minion takes on average beyond the start of any job.
    """

    call: Callable[..., Any]
    origin: str
    outputter: str | None = None
    seconds: float = 0.0

    def documentation(self) -> str:
        """Return the docstring of Salt's own function, or of ours if Salt has none; imported when somebody asks."""
        module, _, name = self.origin.partition(":")
        try:
            return getattr(importlib.import_module(module), name).__doc__ or ""
        except (ImportError, AttributeError):
            # a function of a site; an error here would leave its caller without any return
            return self.call.__doc__ or ""


@lru_cache(maxsize=256)
def _signature(call: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Return the argument names of a function, and whether it takes any keyword."""
    specification = salt.utils.args.get_function_argspec(call)
    return frozenset(specification.args), bool(specification.keywords)


def bind(call: Callable[..., Any], args: Sequence[Any], load: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments and keywords that a published argument list stands for.

    Source: load_args_and_kwargs in salt/minion.py of Salt 3008.5, whose module would cost 20 MB for each process.

    Raises:
        SaltInvocationError: if a keyword isn't one of the function's.
    """
    names, takes_any = _signature(call)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    invalid: list[str] = []
    for arg in args:
        if isinstance(arg, dict) and arg.get("__kwarg__", False) is True:
            found = {name: value for name, value in arg.items() if name != "__kwarg__"}
        else:
            found = salt.utils.args.parse_input([arg], condition=False)[1]
            if not found:
                positional.append(arg)
        for name, value in found.items():
            if takes_any or name in names:
                keywords[name] = value
            else:
                invalid.append(f"{name}={value}")
    if invalid:
        salt.utils.args.invalid_kwargs(invalid)
    if takes_any:
        keywords.update({f"__pub_{name}": value for name, value in load.items()})
    return positional, keywords
