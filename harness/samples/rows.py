"""The rows of a run's sample files; each field is a column of its file."""

from __future__ import annotations

from dataclasses import dataclass

from harness.scenarios.timeline import OF_MASTER


@dataclass(frozen=True)
class ClientSample:
    """One request of a client, in `requests.csv`; times are seconds since the epoch.

    `scheduled` is when it was due, `started` when it was sent. `jids` are the ids of the jobs that its answer names,
    separated by spaces. `expected` and `answered` count minions. `error` is empty for a complete answer.
    """

    clients: str
    kind: str
    function: str
    mode: str
    number: int
    scheduled: float
    started: float
    finished: float
    jids: str
    expected: int
    answered: int
    error: str

    @property
    def latency_s(self) -> float:
        """Return the seconds from when the request was due to when it was answered."""
        return self.finished - self.scheduled


@dataclass(frozen=True)
class LoginSample:
    """One log-in at salt-api in the load phase, in `logins.csv`.

    `time` (seconds since the epoch) is when it began, `seconds` how long it took. `why` is `start` (the load began),
    `request` (the user logs in for each) or `expired` (the token was not valid any more). `error` is empty unless it
    failed.
    """

    time: float
    user: str
    why: str
    seconds: float
    error: str


@dataclass(frozen=True)
class RunnerSample:
    """The answer of an asynchronous runner that the master's job cache held at the end, in `runners.csv`.

    `jid` is the runner's own id, `jids` are those of the jobs that its answer names, separated by spaces. `answered`
    counts minions. `error` is empty unless the answer tells of one.
    """

    jid: str
    answered: int
    jids: str
    error: str


APART = 10_000_000
"""Between the numbers of the processes of two containers, which are a container's own."""


@dataclass(frozen=True)
class ProcessSample:
    """One process at one time, in `processes.csv`; `cpu_s` is cumulative, see `harness.processes.monitor`."""

    time: float
    role: str
    pid: int
    cpu_s: float
    rss_kb: int


@dataclass(frozen=True)
class FleetSample:
    """The fleet at one time, in `fleet.csv`: states up to `ready`, memory, and counters since the fleet's start.

    `executing` counts the jobs that minions have got and have no return for yet. `heard` is how often a publication
    came to a minion, whoever it was for, and `heard_bytes` what these took.
    """

    time: float
    minions: int
    connected: int
    authenticated: int
    ready: int
    rss_kb: int
    base_rss_kb: int
    cpu_s: float
    publications: int
    heard: int
    heard_bytes: int
    executions: int
    find_jobs: int
    returns: int
    return_sends: int
    returns_acked: int
    returns_given_up: int
    executing: int


@dataclass(frozen=True)
class AcceptedJob:
    """One job that the master accepted, as its job cache has it, in `accepted.csv`: published, or in a queue.

    `targeted` is how many minions the master counts on; 0 if its job cache does not say.
    """

    jid: str
    fun: str
    targeted: int


@dataclass(frozen=True)
class ClockSample:
    """The clock of another machine or container of the bed, in `clocks.csv` and `clocks.K.csv`.

    `offset_s` is how far it was ahead of the clock that all samples are in, to `error_s` (half of the quickest round
    trip); its samples have been corrected by that. `drift_s` is by how much that changed until the end of the run. What
    is within its error is 0.
    """

    name: str
    offset_s: float
    error_s: float
    drift_s: float


@dataclass(frozen=True)
class MachineSample:
    """The machine at the time of a sample of the fleet, in `machine.csv`; see `harness.processes.kernel`.

    `monotonic` is the clock that nobody sets. `busy_s` is the CPU time of all processes of the machine since its start,
    `stolen_s` what a hypervisor gave to others, `harness_s` that of the process that takes the samples. `available_mb`
    is the memory that is left, `swapped_mb` what was swapped out since the machine's start.
    """

    time: float
    monotonic: float
    busy_s: float
    stolen_s: float
    harness_s: float
    available_mb: int
    swapped_mb: int
    load_average: float


@dataclass(frozen=True)
class KeptReturn:
    """One return that the master's job cache holds, in `kept.csv`."""

    jid: str
    minion: str


@dataclass(frozen=True)
class MomentSample:
    """One moment of the scenario's timeline that came, in `timeline.csv`.

    `time` (seconds since the epoch) is when it began, `seconds` how long it took until done, `at_s` when it was due
    after the load's start. `minions` counts those that it affected. `error` is empty unless it was refused.
    """

    time: float
    at_s: float
    seconds: float
    do: str
    name: str
    minions: int
    error: str

    @property
    def of_master(self) -> bool:
        """Return whether it was done to the master, not to the fleet."""
        return self.do in OF_MASTER


@dataclass(frozen=True)
class Timeline:
    """The phases of a run, in `timeline.json`; seconds since the epoch.

    `fleet_start`: the fleet's command was started; `ready`: all minions were ready; `load_start`: the schedule's zero;
    `clients_done`: the last client had its answer; `settled`: nothing was on its way any more, or the limit was
    reached (`settled_in_time` is false then).
    """

    fleet_start: float
    ready: float
    load_start: float
    clients_done: float
    settled: float
    settled_in_time: bool
