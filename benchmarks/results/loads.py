"""Load runs: for each scenario the newest finished run of it as it stands today, and the rows of that.

A run of other minions, another transport or an older definition of the scenario measured something else, one without
both trees compares nothing, and one whose sources contradict each other proves nothing, so they are passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.errors import DamagedFile
from benchmarks.figure import Aim
from benchmarks.results.row import Row, Section, read_source
from harness import figures
from harness.errors import SettingsError
from harness.results import result as results
from harness.results import runs
from harness.scenarios import scenario as scenarios
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.results.row import Source
    from harness.scenarios.scenario import Scenario

BOTH = ("stock", "patched")
FIELDS = (
    "client_requests",
    "client_errors",
    "publications_per_job",
    "client_latency_s.p50",
    "longest_wait_s",
    "find_jobs_per_execution",
    "acknowledged_ratio",
    "duplicate_ratio",
    "returns_expected",
    "returns_lost",
    "returns_per_s",
    "master_cpu_ms_per_return",
    "ramp_up_s",
)


@dataclass(frozen=True)
class Chosen:
    """A scenario on the page, with the trees that a run must have, and the fields of its result that are shown."""

    scenario: str
    trees: tuple[str, ...] = BOTH
    fields: tuple[str, ...] = FIELDS


CHOSEN = (
    Chosen("default"),
    Chosen("burst"),
    Chosen("livelock", fields=(*FIELDS, "peak_memory_mb.MWorkerQueue")),
    Chosen("fifty-jobs", fields=(*FIELDS, "peak_memory_mb.MWorkerQueue")),
    Chosen("day-of-trouble"),
    # stock Salt breaks down before there is something to compare; one request has no median
    Chosen("ten-thousand", trees=("patched",), fields=tuple(name for name in FIELDS if name != "client_latency_s.p50")),
)


def sections(folder: Path, chosen: Sequence[Chosen] = CHOSEN) -> list[Section]:
    """Return a section for each chosen scenario, measured or not. Raises DamagedFile if a result is broken."""
    return [_section(one, scenarios.load(scenarios.find(one.scenario)), folder) for one in chosen]


def _section(chosen: Chosen, scenario: Scenario, folder: Path) -> Section:
    usual = f"nox -s load -- --scenario {scenario.name} --tree {'both' if chosen.trees == BOTH else chosen.trees[0]}"
    aims = {limit.field: Aim(limit.minimum, limit.maximum) for limit in scenario.thresholds if "patched" in limit.trees}
    fields = (*chosen.fields, *(name for name in aims if name not in chosen.fields))
    found = _newest(chosen, scenario, folder)
    if found is None:
        rows = [Row(*_named(field), usual, aims.get(field)) for field in fields]
        return Section(f"load: {scenario.name}", scenario.description, tuple(rows))
    values, source = found
    rows = []
    for field in fields:
        stock, ours = (thresholds.lookup(values["trees"].get(tree, {}), field) for tree in BOTH)
        measured = None if ours is None else source
        ratio = ours / stock if ours is not None and stock else None
        rows.append(Row(*_named(field), source.command, aims.get(field), stock, ours, ratio, measured))
    return Section(f"load: {scenario.name}", scenario.description, tuple(rows))


def _named(field: str) -> tuple[str, str]:
    """Return the words and the unit of a field."""
    if field in figures.BY_NAME:
        return figures.BY_NAME[field].label, figures.BY_NAME[field].unit
    name, _, role = field.partition(".")
    unit = figures.BY_NAME[name].unit if name in figures.BY_NAME else "s"
    return f"{name.partition('_mb')[0].replace('_', ' ').capitalize()} of {role}", unit


def _newest(chosen: Chosen, scenario: Scenario, folder: Path) -> tuple[dict[str, Any], Source] | None:
    """Return the result of the newest run that counts, and where it comes from."""
    for path in sorted(folder.glob(f"*-{scenario.name}/result.json"), reverse=True):
        try:
            run = runs.read(path.parent)
            if run.status != "finished" or not set(chosen.trees) <= set(run.trees):
                continue
            # in results of another format a field of the same name may mean something else
            if json.loads(path.read_text(encoding="utf-8"))["format"] != results.FORMAT:
                continue
            values = results.load(path.parent)
            # such a run disagrees with its samples, or was never verified
            if values.get("disagrees", True):
                continue
            facts = json.loads((path.parent / "environment.json").read_text(encoding="utf-8"))
            if not _same(values["scenario"], scenario) or facts.get("bed", {}).get("made_of") != "processes":
                continue
            return values, _source(run, facts)
        except SettingsError as error:
            raise DamagedFile(str(error)) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DamagedFile(
                f"{path} or a file beside it is damaged: run `python -m harness result {path.parent}`, "
                "or delete the run."
            ) from None
    return None


def _same(ran: dict[str, Any], scenario: Scenario) -> bool:
    """Say whether a run had the scenario as it stands, but for the seed."""
    now = json.loads(json.dumps(scenarios.dump(scenario)))
    return {**ran, "seed": 0} == {**now, "seed": 0}


def _source(run: runs.Run, facts: dict[str, Any]) -> Source:
    machine = {**facts["machine"], "python": facts["versions"]["python"]}
    command = run.command.replace("python -m harness load", "nox -s load --")
    return read_source(command, run.started, machine, facts["trees"])
