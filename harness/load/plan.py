"""What the load generator is told: the scenario, where the bed is and what a complete answer holds.

It travels in one environment variable, because it holds the password of the bed's API and files stay behind.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.processes.ports import HOST
from harness.scenarios import scenario as scenarios
from harness.scenarios.clients import CLI, SALT_RUN

if TYPE_CHECKING:
    from harness.scenarios.clients import Clients
    from harness.scenarios.expected import Expected

VARIABLE = "SALTBED_PLAN"
ZERO = "zero"
"""The file beside the samples that says when the schedule began."""
# what clients of a kind type
COMMANDS = {CLI: "salt", SALT_RUN: "salt-run"}
# how long a user waits to be stopped; far beyond any run
FOREVER_S = 1_000_000.0


@dataclass(frozen=True)
class Plan:
    """The load of one tree's run.

    `scenario_file`, `minions` and `seed` give the scenario; `expected` is the number of minions that each block of
    clients targets, by the names in `Clients.targets`; `samples` is the folder for raw samples; `urls` (of each of its
    processes), `user`, `password` and `eauth` belong to salt-api; `commands` starts Salt's commands, by the clients'
    kind, with `command_environment`. Of `workers` processes that share the schedule this is number `worker`; the last
    `remote` of them are on other hosts. Their director listens on `address`.
    """

    scenario_file: Path
    minions: int
    seed: int
    expected: dict[str, int]
    samples: Path
    urls: tuple[str, ...]
    user: str
    password: str
    eauth: str
    commands: dict[str, tuple[str, ...]]
    command_environment: dict[str, str]
    workers: int = 1
    worker: int = 0
    remote: int = 0
    address: str = HOST

    @property
    def requests_file(self) -> Path:
        """Return the file for this process's samples of requests."""
        return self.samples / (f"requests.{self.worker}.csv" if self.workers > 1 else "requests.csv")

    @property
    def logins_file(self) -> Path:
        """Return the file for this process's samples of log-ins."""
        return self.samples / (f"logins.{self.worker}.csv" if self.workers > 1 else "logins.csv")

    def expects(self, clients: Clients) -> Expected:
        """Return what a complete answer to `clients` holds."""
        return clients.expects(self.expected)

    @property
    def scenario(self) -> scenarios.Scenario:
        """Return the scenario."""
        return scenarios.load(self.scenario_file).changed(minions=self.minions, seed=self.seed)


def to_environment(plan: Plan) -> dict[str, str]:
    """Return the environment variable that carries `plan`."""
    values = {**vars(plan), "scenario_file": str(plan.scenario_file), "samples": str(plan.samples)}
    return {VARIABLE: json.dumps(values)}


def from_environment() -> Plan:
    """Return the plan of this process, and forget it, so that no child inherits the password."""
    values = json.loads(os.environ.pop(VARIABLE))
    values["scenario_file"] = Path(values["scenario_file"])
    values["samples"] = Path(values["samples"])
    values["urls"] = tuple(values["urls"])
    values["commands"] = {kind: tuple(command) for kind, command in values["commands"].items()}
    return Plan(**values)


def write_zero(samples: Path, zero: float) -> None:
    """Tell whoever watches the load when the schedule's zero is, in seconds since the epoch."""
    (samples / ZERO).write_text(f"{zero:.6f}\n", encoding="utf-8")


def read_zero(samples: Path) -> float | None:
    """Return the schedule's zero, or None while the clients are not ready yet."""
    try:
        text = (samples / ZERO).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return float(text) if text.endswith("\n") else None
