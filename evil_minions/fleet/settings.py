"""What a fleet is told at its start, in groups that belong together.

A real minion answers a misspelt function after four seconds with an error. Whoever starts a load asks here first, so
that he does not measure errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from evil_minions import defaults
from evil_minions.errors import UsageError
from evil_minions.inventory.inventory import KINDS, Target, needs_pillar
from evil_minions.rng import Assignment, check_shares

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evil_minions.network.path import Region


_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Master:
    """The master of a fleet."""

    # as minions report it in their grains
    name: str
    # its IP address
    address: str
    request_port: int = defaults.REQUEST_PORT
    # the master's own option `transport`
    transport: str = defaults.TRANSPORTS[0]
    # the option of this name, which master and minions have in common
    zmq_filtering: bool = False
    # a file of its `autosign_grains_dir`, by which it accepts keys
    autosign: Path | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """How many minions there are, and what they are called."""

    minions: int
    # number of the first one
    first: int = 0
    # most minions of a worker process
    per_process: int = defaults.PER_PROCESS
    # holds a place for the number
    id_format: str = defaults.ID_FORMAT

    @property
    def numbers(self) -> range:
        """The numbers of the minions."""
        return range(self.first, self.first + self.minions)

    def ids(self) -> list[str]:
        """Return the ids of the minions."""
        return [self.id_format.format(number) for number in self.numbers]


@dataclass(frozen=True, slots=True)
class Start:
    """The pace of the start; neither bounds minions that start later."""

    # most sign-ins that are begun in a second
    auth_rate: float = defaults.AUTH_RATE
    # most sign-ins that are under way, and as many pillars
    window: int = defaults.WINDOW


@dataclass(frozen=True, slots=True)
class Looks:
    """What minions report of themselves."""

    # a template of grains, in place of the package's
    grains: Path | None = None
    # a file of systems, roles and sites in shares; excludes `grains`
    population: Path | None = None
    # an address that all minions report beside their own, so that the master takes them for present
    connects_from: str | None = None


@dataclass(frozen=True, slots=True)
class Replies:
    """What minions answer, and send unasked."""

    # a recording that they replay
    recording: Path | None = None
    # what its times are multiplied by
    slowdown: float = defaults.SLOWDOWN
    # the spread of a log-normal factor on top of that
    jitter: float = defaults.JITTER
    # so many made-up states in a highstate; None runs the master's own state files
    states: int | None = None
    # seconds between two beacon events of a minion; 0 is none
    beacon_interval: float = 0.0


@dataclass(frozen=True, slots=True)
class Shares:
    """What shares of the fleet get, as it starts."""

    # behaviours: names of presets, or paths of files
    behaviours: tuple[Assignment, ...] = ()
    # states of keys, see `evil_minions.fleet.ramp`
    keys: tuple[Assignment, ...] = ()
    # networks, for shares or for targets; of several targets that mean a minion the last one holds
    network: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """One fleet, or one worker's share of it."""

    master: Master
    size: Size
    # for control socket, keys and samples
    folder: Path
    # of all random numbers
    seed: int = defaults.SEED
    start: Start = field(default_factory=Start)
    looks: Looks = field(default_factory=Looks)
    replies: Replies = field(default_factory=Replies)
    shares: Shares = field(default_factory=Shares)
    # the number of the worker
    worker: int = 0
    # of a worker: the numbers of the fleet as it starts, from the first up to the second
    whole: tuple[int, int] = (0, 0)

    def check(self) -> None:
        """Raise UsageError if a value can't be used."""
        size = self.size
        if size.minions < 1 or size.per_process < 1 or size.first < 0:
            raise UsageError("A fleet has at least one minion, one minion for each process, and no negative numbers.")
        if self.master.request_port not in _PORTS:
            raise UsageError(f"{self.master.request_port} is no port: give one between 1 and 65535.")
        if self.master.transport not in defaults.TRANSPORTS:
            names = ", ".join(defaults.TRANSPORTS)
            raise UsageError(f"There is no transport {self.master.transport!r}: give one of {names}.")
        if self.master.zmq_filtering and self.master.transport != "zeromq":
            raise UsageError(f"The transport {self.master.transport} filters by itself: leave out --zmq-filtering.")
        if self.start.auth_rate <= 0:
            raise UsageError("--auth-rate must be more than 0.")
        if self.looks.grains and self.looks.population:
            raise UsageError("--grains and --population exclude each other: leave one out.")
        check_shares(self.shares.behaviours, "--behaviour")
        check_shares([Assignment("", region.share or 0.0) for region in self.shares.network], "--network")
        self._check_networks()
        self._check_replies()
        try:
            distinct = size.id_format.format(0) != size.id_format.format(1)
        except (IndexError, KeyError, ValueError):
            distinct = False
        if not distinct:
            raise UsageError(
                f"--id-format {size.id_format!r} must hold a place for a number, such as 'minion-{{:05d}}'."
            )

    def _check_networks(self) -> None:
        for region in self.shares.network:
            if region.tgt_type not in KINDS:
                raise UsageError(f"tgt_type of a network is {region.tgt_type!r}: give one of {', '.join(KINDS)}.")
            if region.tgt is not None and needs_pillar(Target(region.tgt, region.tgt_type)):
                raise UsageError(
                    f"The target {region.tgt!r} of a network is one by pillar, which no minion has before it connects: "
                    "name ids or grains."
                )

    def _check_replies(self) -> None:
        replies = self.replies
        if replies.slowdown < 0 or replies.jitter < 0:
            raise UsageError("--slowdown and --jitter must not be negative.")
        if replies.states is not None and replies.states < 1:
            raise UsageError("--states must be at least 1.")
        if replies.beacon_interval < 0:
            raise UsageError("--beacon-interval must not be negative.")

    def workers(self) -> Iterator[FleetSettings]:
        """Return the settings of each worker: as few as needed, of equal size."""
        minions = self.size.minions
        count = -(-minions // self.size.per_process)
        start = Start(self.start.auth_rate / count, max(4, self.start.window // count))
        whole = (self.size.first, self.size.first + minions)
        first = self.size.first
        for worker in range(count):
            size = replace(self.size, first=first, minions=minions // count + (worker < minions % count))
            yield replace(self, worker=worker, whole=whole, size=size, start=start)
            first += size.minions
