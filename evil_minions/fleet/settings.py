"""What a fleet is told at its start.

A real minion answers a misspelt function after four seconds with an error. Whoever starts a load asks here first, so
that he does not measure errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from evil_minions import defaults
from evil_minions.errors import UsageError
from evil_minions.inventory.targets import KINDS, Target, needs_pillar
from evil_minions.rng import Assignment, check_shares

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evil_minions.network.path import Region


_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """One fleet, or one worker's share of it; most fields have the name of their option."""

    # the master as minions report it in their grains, and its IP address
    master: str
    address: str
    minions: int
    # for control socket, keys and samples
    folder: Path
    request_port: int = defaults.REQUEST_PORT
    # the master's own options of these names
    transport: str = defaults.TRANSPORTS[0]
    zmq_filtering: bool = False
    # a file of the master's `autosign_grains_dir`, by which it accepts keys
    autosign: Path | None = None
    # number of the first minion
    first: int = 0
    # most minions of a worker process
    per_process: int = defaults.PER_PROCESS
    # holds a place for the number
    id_format: str = defaults.ID_FORMAT
    # of all random numbers
    seed: int = defaults.SEED
    # most sign-ins that are begun in a second, and that are under way, as well as pillars; minions that start later
    # are not bounded
    auth_rate: float = defaults.AUTH_RATE
    window: int = defaults.WINDOW
    # a template of grains, in place of the package's; or a file of systems, roles and sites in shares
    grains: Path | None = None
    population: Path | None = None
    # an address that all minions report beside their own, so that the master takes them for present
    connects_from: str | None = None
    # a recording to replay; what its times are multiplied by, and the spread of a log-normal factor on top of that
    recording: Path | None = None
    slowdown: float = defaults.SLOWDOWN
    jitter: float = defaults.JITTER
    # seconds between two beacon events of a minion; 0 is none
    beacon_interval: float = 0.0
    # what shares of the fleet get, as it starts: behaviours (names of presets, or paths of files), states of keys (see
    # `evil_minions.fleet.ramp`), networks (also for targets; of several that mean a minion the last one holds)
    behaviours: tuple[Assignment, ...] = ()
    keys: tuple[Assignment, ...] = ()
    network: tuple[Region, ...] = ()
    # the number of the worker
    worker: int = 0
    # of a worker: the numbers of the fleet as it starts, from the first up to the second
    whole: tuple[int, int] = (0, 0)

    @property
    def numbers(self) -> range:
        """The numbers of the minions."""
        return range(self.first, self.first + self.minions)

    def ids(self) -> list[str]:
        """Return the ids of the minions."""
        return [self.id_format.format(number) for number in self.numbers]

    def check(self) -> None:
        """Raise UsageError if a value can't be used."""
        transports = ", ".join(defaults.TRANSPORTS)
        for wrong, problem in (
            (
                self.minions < 1 or self.per_process < 1 or self.first < 0,
                "A fleet has at least one minion, one minion for each process, and no negative numbers.",
            ),
            (self.request_port not in _PORTS, f"{self.request_port} is no port: give one between 1 and 65535."),
            (
                self.transport not in defaults.TRANSPORTS,
                f"There is no transport {self.transport!r}: give one of {transports}.",
            ),
            (
                self.zmq_filtering and self.transport != "zeromq",
                f"The transport {self.transport} filters by itself: leave out --zmq-filtering.",
            ),
            (self.auth_rate <= 0, "--auth-rate must be more than 0."),
            (self.grains and self.population, "--grains and --population exclude each other: leave one out."),
            (self.slowdown < 0 or self.jitter < 0, "--slowdown and --jitter must not be negative."),
            (self.beacon_interval < 0, "--beacon-interval must not be negative."),
            (
                not self._has_distinct_ids(),
                f"--id-format {self.id_format!r} must hold a place for a number, such as 'minion-{{:05d}}'.",
            ),
        ):
            if wrong:
                raise UsageError(problem)
        check_shares(self.behaviours, "--behaviour")
        check_shares([Assignment("", region.share or 0.0) for region in self.network], "--network")
        self._check_networks()

    def _has_distinct_ids(self) -> bool:
        try:
            return self.id_format.format(0) != self.id_format.format(1)
        except (IndexError, KeyError, ValueError):
            return False

    def _check_networks(self) -> None:
        for region in self.network:
            if region.tgt_type not in KINDS:
                raise UsageError(f"tgt_type of a network is {region.tgt_type!r}: give one of {', '.join(KINDS)}.")
            if region.tgt is not None and needs_pillar(Target(region.tgt, region.tgt_type)):
                raise UsageError(
                    f"The target {region.tgt!r} of a network is one by pillar, which no minion has before it connects: "
                    "name ids or grains."
                )

    def workers(self) -> Iterator[FleetSettings]:
        """Return the settings of each worker: as few as needed, of equal size."""
        count = -(-self.minions // self.per_process)
        rate, window = self.auth_rate / count, max(4, self.window // count)
        first, whole = self.first, (self.first, self.first + self.minions)
        for worker in range(count):
            minions = self.minions // count + (worker < self.minions % count)
            yield replace(self, worker=worker, whole=whole, first=first, minions=minions, auth_rate=rate, window=window)
            first += minions
