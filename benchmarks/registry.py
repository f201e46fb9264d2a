"""All benchmarks, by name, in the order of the results' page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import (
    control,
    density,
    fleet,
    fleet_large,
    growth,
    handler,
    idle,
    interfaces,
    package_fleet,
    package_managers,
    package_states,
    pillar,
    pillar_changes,
    pillar_compile,
    pillar_experiment,
    pillar_failures,
    pillar_scale,
    query,
    query_live,
    replay,
    returns,
    set_up,
    sign_in,
    targets,
    transports,
    verify,
    waiting,
)

if TYPE_CHECKING:
    from benchmarks.benchmark import Benchmark

ALL: tuple[Benchmark, ...] = (
    pillar.PILLAR,
    pillar_scale.PILLAR_SCALE,
    pillar_failures.PILLAR_FAILURES,
    pillar_experiment.PILLAR_EXPERIMENT,
    pillar_changes.PILLAR_CHANGES,
    handler.HANDLER,
    returns.RETURNS,
    pillar_compile.PILLAR_COMPILE,
    sign_in.SIGN_IN,
    targets.TARGETS,
    idle.IDLE,
    waiting.WAITING,
    growth.GROWTHS,
    package_states.PACKAGE_STATES,
    package_fleet.PACKAGE_FLEET,
    package_managers.PACKAGE_MANAGERS,
    interfaces.INTERFACES,
    query.QUERY,
    query_live.QUERY_LIVE,
    fleet.FLEET,
    fleet_large.FLEET_TEN_THOUSAND,
    transports.FLEET_TCP,
    transports.FLEET_WS,
    density.DENSITY,
    replay.REPLAY,
    control.CONTROL,
    set_up.SET_UP,
    verify.VERIFY,
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in ALL}
