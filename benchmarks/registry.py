"""All that can be measured, in the order of the results' page: benchmarks, and scenarios of load runs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from benchmarks import console, fleet, handler, interfaces, package_states, pillar, query, returns, targets
from benchmarks.benchmark import Aim, Figure
from harness import figures
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.benchmark import Benchmark
    from harness.scenarios.scenario import Scenario

ALL: tuple[Benchmark, ...] = (
    pillar.PILLAR,
    pillar.PILLAR_SCALE,
    pillar.PILLAR_FAILURES,
    pillar.PILLAR_CHANGES,
    handler.HANDLER,
    returns.RETURNS,
    targets.TARGETS,
    package_states.PACKAGE_STATES,
    package_states.PACKAGE_FLEET,
    console.CONSOLE,
    interfaces.INTERFACES,
    query.QUERY,
    fleet.FLEET,
    fleet.DENSITY,
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in ALL}
BOTH = ("stock", "patched")
# requests that were answered: of what a result has, the requests without the errors
ANSWERED = "client_answered"
FIELDS = (
    *("client_requests", ANSWERED, "client_errors", "publications_per_job", "client_latency_s.p50", "longest_wait_s"),
    *("find_jobs_per_execution", "acknowledged_ratio", "duplicate_ratio"),
    *("returns_expected", "returns_kept", "returns_lost", "returns_per_s", "master_cpu_ms_per_return", "ramp_up_s"),
)


@dataclass(frozen=True)
class Subject:
    """A benchmark or a scenario. `name` is that of its evidence in pages, `load/default` for a scenario.

    `arguments` run it as a module of ours; `own` is the hash of what it measures with, as it is now.
    """

    name: str
    about: str
    figures: tuple[Figure, ...]
    minions: int
    command: str
    arguments: tuple[str, ...]
    minutes: float
    own: str
    extensions: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Return the name of its file of evidence."""
        return f"{self.name.replace('/', '-')}.json"


@dataclass(frozen=True)
class Load:
    """A scenario on the page: the trees that a run must have, the fields that are shown, and what it takes."""

    name: str
    minutes: float
    trees: tuple[str, ...] = BOTH
    fields: tuple[str, ...] = FIELDS

    @cached_property
    def scenario(self) -> Scenario:
        """Return it as it is now."""
        return scenarios.load(scenarios.find(self.name))

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """Return the figures that its run gives, with the limits that it sets to the patched tree as aims."""
        aims = {
            limit.field: Aim(limit.minimum, limit.maximum)
            for limit in self.scenario.thresholds
            if "patched" in limit.trees
        }
        fields = (*self.fields, *(name for name in aims if name not in self.fields))
        return tuple(Figure(field, *_named(field), aim=aims.get(field)) for field in fields)

    @property
    def subject(self) -> Subject:
        """Return what the page needs of it."""
        tree = "both" if self.trees == BOTH else self.trees[0]
        options = ("--scenario", self.name, "--tree", tree)
        return Subject(
            f"load/{self.name}",
            self.scenario.description,
            self.figures,
            self.scenario.minions,
            f"nox -s load -- {' '.join(options)}",
            ("harness", "load", *options),
            self.minutes,
            own(scenarios.dump(self.scenario)),
        )


MEMORY = "peak_memory_mb.MWorkerQueue"
LOADS = (
    Load("default", 10),
    Load("burst", 12),
    Load("livelock", 30, fields=(*FIELDS, MEMORY)),
    Load("fifty-jobs", 30, fields=(*FIELDS, MEMORY)),
    Load("day-of-trouble", 12),
    # stock Salt breaks down before there is something to compare; one request has no median
    Load("ten-thousand", 15, ("patched",), tuple(name for name in FIELDS if name != "client_latency_s.p50")),
)


def own(scenario: Mapping[str, Any]) -> str:
    """Return the hash of a scenario but for its seed."""
    return hashlib.sha256(json.dumps({**scenario, "seed": 0}, sort_keys=True).encode()).hexdigest()


def subjects() -> list[Subject]:
    """Return all, in the order of the page."""
    benchmarks = (
        Subject(
            one.name,
            one.about,
            one.figures,
            one.minions,
            one.command(one.minions, one.rounds),
            ("benchmarks", one.name),
            one.minutes,
            one.own(),
            one.extensions,
        )
        for one in ALL
    )
    return [*(load.subject for load in LOADS), *benchmarks]


def _named(field: str) -> tuple[str, str]:
    """Return the words and the unit of a field of a result."""
    if field == ANSWERED:
        return "Client requests answered", ""
    if field in figures.BY_NAME:
        return figures.BY_NAME[field].label, figures.BY_NAME[field].unit
    name, _, role = field.partition(".")
    unit = figures.BY_NAME[name].unit if name in figures.BY_NAME else "s"
    return f"{name.partition('_mb')[0].replace('_', ' ').capitalize()} of {role}", unit
