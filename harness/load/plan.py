"""The input of the load generator: the scenario, where the bed is and what a complete answer holds.

It travels in one environment variable, because it holds the password of the bed's API and files stay behind.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.scenarios import scenario as scenarios
from harness.scenarios.clients import CLI, SALT_RUN

if TYPE_CHECKING:
    from harness.scenarios.clients import Clients, Expected

VARIABLE = "SALTBED_PLAN"
ZERO = "zero"
"""The file beside the samples that says when the schedule began."""
# what clients of a kind type
COMMANDS = {CLI: "salt", SALT_RUN: "salt-run"}
# how long a user waits to be stopped; far beyond any run
FOREVER_S = 1_000_000.0


@dataclass(frozen=True)
class ApiAccess:
    """Where salt-api is, and how the clients log in."""

    # the address of each of its processes; none without salt-api
    urls: tuple[str, ...] = ()
    # the bed's own user
    user: str = ""
    password: str = ""
    # the way in which salt-api checks users
    eauth: str = ""


@dataclass(frozen=True)
class Share:
    """Which part of the schedule a process has."""

    # how many processes share the schedule
    workers: int = 1
    # the number of this one, from 0
    worker: int = 0

    def file(self, name: str) -> str:
        """Return the name of this process's file of samples of one kind."""
        return f"{name}.{self.worker}.csv" if self.workers > 1 else f"{name}.csv"


@dataclass(frozen=True)
class Plan:
    """The load of one tree's run."""

    # these three give the scenario
    scenario_file: Path
    minions: int
    seed: int
    # how many minions each block of clients targets, by the names in `Clients.targets`
    expected: dict[str, int]
    # the folder for raw samples
    samples: Path
    api: ApiAccess
    # the start of the command line of Salt's commands, by the clients' kind
    commands: dict[str, tuple[str, ...]]
    # the environment of these commands
    command_environment: dict[str, str]
    share: Share = Share()

    def expects(self, clients: Clients) -> Expected:
        """Return what a complete answer to `clients` holds."""
        return clients.expects(self.expected)

    @property
    def scenario(self) -> scenarios.Scenario:
        """Return the scenario."""
        return scenarios.load(self.scenario_file).changed(minions=self.minions, seed=self.seed)


def to_environment(plan: Plan) -> dict[str, str]:
    """Return the environment variable that carries `plan`."""
    values = {**asdict(plan), "scenario_file": str(plan.scenario_file), "samples": str(plan.samples)}
    return {VARIABLE: json.dumps(values)}


def from_environment() -> Plan:
    """Return the plan of this process, and forget it, so that no child inherits the password."""
    values = json.loads(os.environ.pop(VARIABLE))
    return Plan(
        **{
            **values,
            "scenario_file": Path(values["scenario_file"]),
            "samples": Path(values["samples"]),
            "api": ApiAccess(**{**values["api"], "urls": tuple(values["api"]["urls"])}),
            "commands": {kind: tuple(command) for kind, command in values["commands"].items()},
            "share": Share(**values["share"]),
        }
    )


def write_zero(samples: Path, zero: float) -> None:
    """Write when the schedule began, in seconds since the epoch, for the process that watches the load."""
    (samples / ZERO).write_text(f"{zero:.6f}\n", encoding="utf-8")


def read_zero(samples: Path) -> float | None:
    """Return the schedule's zero, or None while the clients are not ready yet."""
    try:
        text = (samples / ZERO).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return float(text) if text.endswith("\n") else None
