"""What a fleet is told at its start."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.assignments import Part, check
from evil_minions.errors import UsageError
from evil_minions.inventory.target import KINDS, Target, needs_pillar
from evil_minions.network.path import NetworkPath, Region
from evil_minions.network.transports.transport import TRANSPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_ID_FORMAT: Final = "minion-{:05d}"
KEEP, DROP = "keep", "drop"
_PORTS: Final = range(1, 65536)
_PATHS: Final = ("folder", "grains", "population", "recording")


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """One fleet, or a worker's share of it.

    `address` is the master's IP address, `first` the number of the first minion, `auth_rate` the most sign-ins that
    are begun in a second at the start, `window` the most that are under way then. `behaviours` and `keys` are shares
    of the fleet as it starts, which has the numbers from `whole[0]` up to `whole[1]`. `recording` is what the minions
    replay, `slowdown` what its times are multiplied by, `jitter` the spread of a log-normal factor on top.
    `states` is the number of made-up states of a highstate, None for those of the master's own files; `file_cache`
    says whether minions keep these files and what states have done, `beacon_interval` the seconds between two beacon
    events of a minion, `connects_from` an address that all minions report beside their own. `network` are networks
    between minions and master, for shares of the fleet or for targets, of which the last one holds.
    """

    master: str
    address: str
    request_port: int
    minions: int
    folder: Path
    first: int = 0
    per_process: int = 2500
    id_format: str = DEFAULT_ID_FORMAT
    seed: int = 1
    auth_rate: float = 300.0
    window: int = 48
    grains: Path | None = None
    recording: Path | None = None
    slowdown: float = 1.0
    jitter: float = 0.1
    states: int | None = None
    beacon_interval: float = 0.0
    connects_from: str | None = None
    worker: int = 0
    behaviours: tuple[Part, ...] = ()
    keys: tuple[Part, ...] = ()
    population: Path | None = None
    whole: tuple[int, int] = (0, 0)
    transport: str = "zeromq"
    network: tuple[Region, ...] = ()
    file_cache: str = KEEP

    def check(self) -> None:
        """Raise UsageError if a value can't be used."""
        if self.minions < 1 or self.per_process < 1 or self.first < 0:
            raise UsageError("A fleet has at least one minion, one minion for each process, and no negative numbers.")
        if self.request_port not in _PORTS:
            raise UsageError(f"{self.request_port} is no port: give one between 1 and 65535.")
        if self.transport not in TRANSPORTS:
            raise UsageError(f"There is no transport {self.transport!r}: give one of {', '.join(TRANSPORTS)}.")
        if self.auth_rate <= 0:
            raise UsageError("--auth-rate must be more than 0.")
        if self.grains and self.population:
            raise UsageError("--grains and --population exclude each other: leave one out.")
        check(self.behaviours, "--behaviour")
        check([Part("", region.share or 0.0) for region in self.network], "--network")
        self._check_networks()
        self._check_traffic()
        try:
            distinct = self.id_format.format(0) != self.id_format.format(1)
        except (IndexError, KeyError, ValueError):
            distinct = False
        if not distinct:
            raise UsageError(
                f"--id-format {self.id_format!r} must hold a place for a number, such as 'minion-{{:05d}}'."
            )

    def _check_networks(self) -> None:
        for region in self.network:
            if region.tgt_type not in KINDS:
                raise UsageError(f"tgt_type of a network is {region.tgt_type!r}: give one of {', '.join(KINDS)}.")
            if region.tgt is not None and needs_pillar(Target(region.tgt, region.tgt_type)):
                raise UsageError(
                    f"The target {region.tgt!r} of a network is one by pillar, which no minion has before it connects: "
                    "name ids or grains."
                )

    def _check_traffic(self) -> None:
        """Raise UsageError if a value of what minions answer and send can't be used."""
        if self.slowdown < 0 or self.jitter < 0:
            raise UsageError("--slowdown and --jitter must not be negative.")
        if self.states is not None and self.states < 1:
            raise UsageError("--states must be at least 1.")
        if self.file_cache not in (KEEP, DROP):
            raise UsageError(f"--file-cache {self.file_cache} is unknown: give {KEEP} or {DROP}.")
        if self.beacon_interval < 0:
            raise UsageError("--beacon-interval must not be negative.")

    def ids(self) -> list[str]:
        """Return the ids of the minions."""
        return [self.id_format.format(number) for number in range(self.first, self.first + self.minions)]

    def shares(self) -> Iterator[FleetSettings]:
        """Return the settings of each worker: as few as needed, of equal size."""
        count = -(-self.minions // self.per_process)
        whole = (self.first, self.first + self.minions)
        first = self.first
        for worker in range(count):
            minions = self.minions // count + (worker < self.minions % count)
            yield replace(
                self,
                worker=worker,
                whole=whole,
                first=first,
                minions=minions,
                auth_rate=self.auth_rate / count,
                window=max(4, self.window // count),
            )
            first += minions

    def to_json(self) -> str:
        """Return the settings as one line."""
        data: dict[str, Any] = asdict(self)
        for name in _PATHS:
            data[name] = str(data[name]) if data[name] else None
        return json.dumps(data)

    @classmethod
    def from_json(cls, text: str) -> FleetSettings:
        """Return the settings that `to_json` wrote."""
        data = json.loads(text)
        for name in _PATHS:
            data[name] = Path(data[name]) if data[name] else None
        for name in ("behaviours", "keys"):
            data[name] = tuple(Part(**part) for part in data[name])
        data["whole"] = tuple(data["whole"])
        data["network"] = tuple(
            Region(**{**region, "path": NetworkPath(**region["path"])}) for region in data["network"]
        )
        return cls(**data)
