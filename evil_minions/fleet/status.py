"""The state of a fleet, as its control socket tells it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ControlError
from evil_minions.samples.tally import Counters, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT: Final = 1
_COUNTS: Final = (
    "connected",
    "authenticated",
    "ready",
    "pending",
    "rejected",
    "denied",
    "dead",
    "partitioned",
    "executing",
    "expected",
)


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One worker: `base_rss_kb` is its memory before its first minion, `cpu_s` its cumulative CPU seconds."""

    pid: int
    minions: int
    rss_kb: int
    base_rss_kb: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Status:
    """Of the minions of a fleet, how many have both sockets connected, are signed in, are ready, await acceptance.

    `rejected` were turned away by the master, `denied` likewise because it knows another key of theirs; `dead` were
    killed; `partitioned` can't reach the master. `executing` counts jobs, not minions: those that minions have got and
    have no return for yet. `expected` are those that will get ready if all goes well.
    """

    connected: int
    authenticated: int
    ready: int
    pending: int
    rejected: int
    denied: int
    dead: int
    partitioned: int
    executing: int
    expected: int
    processes: tuple[ProcessStatus, ...]
    counters: Counters

    @property
    def minions(self) -> int:
        """How many there are."""
        return sum(process.minions for process in self.processes)

    @property
    def base_rss_kb(self) -> int:
        """The most memory in KB that a worker took before its first minion."""
        return max((process.base_rss_kb for process in self.processes), default=0)

    @property
    def kb_per_minion(self) -> float:
        """Memory in KB that one minion takes on average, beyond that of its process."""
        return sum(process.rss_kb - process.base_rss_kb for process in self.processes) / max(1, self.minions)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as the control socket sends it."""
        return {"format": FORMAT, "minions": self.minions, "base_rss_kb": self.base_rss_kb, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Status:
        """Return the status that `to_dict` wrote.

        Raises:
            ControlError: if it is something else, or of another format.

        """
        if data.get("format") != FORMAT:
            raise ControlError(f"The fleet's status has format {data.get('format')}, {FORMAT} is needed.")
        try:
            return cls(
                **{name: int(data[name]) for name in _COUNTS},
                processes=tuple(ProcessStatus(**process) for process in data["processes"]),
                counters=Counters(**data["counters"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ControlError(f"The fleet's status can't be read: {error}.") from error

    @classmethod
    def of(cls, parts: Sequence[Status]) -> Status:
        """Return the status of the parts of a fleet together."""
        return cls(
            **{name: sum(getattr(part, name) for part in parts) for name in _COUNTS},
            processes=tuple(process for part in parts for process in part.processes),
            counters=total(part.counters for part in parts),
        )


def combine(workers: Sequence[Mapping[str, Any]]) -> Status:
    """Return the status of a fleet from those of its workers."""
    fields = ("pid", "minions", "rss_kb", "base_rss_kb", "cpu_s")
    return Status(
        **{name: sum(int(worker[name]) for worker in workers) for name in _COUNTS},
        processes=tuple(ProcessStatus(**{field: worker[field] for field in fields}) for worker in workers),
        counters=total(Counters(**worker["counters"]) for worker in workers),
    )
