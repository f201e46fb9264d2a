"""All benchmarks, by name, in the order of the results' page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import (
    console,
    density,
    fleet,
    handler,
    interfaces,
    package_fleet,
    package_states,
    pillar,
    pillar_changes,
    pillar_failures,
    pillar_scale,
    query,
    returns,
    targets,
    waiting,
)

if TYPE_CHECKING:
    from benchmarks.benchmark import Benchmark

ALL: tuple[Benchmark, ...] = (
    pillar.PILLAR,
    pillar_scale.PILLAR_SCALE,
    pillar_failures.PILLAR_FAILURES,
    pillar_changes.PILLAR_CHANGES,
    handler.HANDLER,
    returns.RETURNS,
    targets.TARGETS,
    waiting.WAITING,
    package_states.PACKAGE_STATES,
    package_fleet.PACKAGE_FLEET,
    console.CONSOLE,
    interfaces.INTERFACES,
    query.QUERY,
    fleet.FLEET,
    density.DENSITY,
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in ALL}
