"""A load run from the command to its report: the run folder, each tree in turn, then result and report."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.bed.settings import BedSettings
from harness.bed.tree import Tree
from harness.containers.stage import Containers
from harness.errors import HarnessError, SettingsError, disk_error
from harness.load import run as load
from harness.load.stage import Job, Local
from harness.processes.process import PACKAGES
from harness.report import page
from harness.results import machine, result, runs
from harness.scenarios import fleet, targets
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from harness.containers.stage import Settings
    from harness.load.stage import Stage
    from harness.progress import Progress
    from harness.results.result import Result

TREES = {"stock": PACKAGES / "build" / "stock", "patched": PACKAGES / "salt"}


@dataclass(frozen=True)
class Order:
    """What a user asked for: a scenario by name or file, the trees, changes to it, and where run folders go.

    `trees` are those with a name, and any folder with another Salt, which results call "other". `command` is the
    command line that repeats it. `workers` is the number of processes that send the requests.
    With `docker` the bed is made of containers.
    """

    scenario: str
    trees: tuple[str, ...]
    folder: Path
    command: str
    minions: int | None = None
    seed: int | None = None
    transport: str | None = None
    workers: int = 1
    docker: Settings | None = None


@dataclass(frozen=True)
class Outcome:
    """What a finished run left: its folder and its result."""

    folder: Path
    result: Result


def find(tree: str) -> tuple[str, Path]:
    """Return the name that results have for a tree, and its folder; `tree` is a name of ours or a folder.

    Raises SettingsError if there is no Salt.
    """
    name, path = (tree, TREES[tree]) if tree in TREES else ("other", Path(tree))
    if not Tree(path).found():
        advice = (
            "make both trees with `nox -s apply`" if name == tree else "give stock, patched, both, or such a folder"
        )
        raise SettingsError(f"{path} is neither a tree of Salt nor an environment with Salt in it: {advice}.")
    return name, path


def run(order: Order, progress: Progress, when: datetime) -> Outcome:
    """Run a scenario on each tree, one after the other, each on a bed of its own; `when` is now, in UTC.

    Raises SettingsError before anything is started, HarnessError if a run fails. What a failed or interrupted run
    left stays in its folder, whose `run.json` says so.
    """
    file = scenarios.find(order.scenario)
    scenario = scenarios.load(file).changed(minions=order.minions, seed=order.seed, transport=order.transport)
    fleet.resolve(scenario.fleet, file.parent)
    targets.check(scenario, BedSettings(Path(), Path(), minions=scenario.minions).minion_ids())
    trees = dict(find(tree) for tree in order.trees)
    folder = runs.create(order.folder, when, scenario, file, tuple(trees), order.command)
    made: dict[str, Any] = {"made_of": _made_of(order)}
    facts = {**machine.facts(trees), "bed": made}
    _write_facts(folder, facts)
    progress.say(f"{scenario.name}: {scenario.description}")
    try:
        for name, tree in trees.items():
            copy = folder / "scenario.toml"
            job = Job(name, tree, scenario, copy, folder / name, file.parent, order.workers)

            def note(source: str, name: str = name) -> None:
                made.setdefault("postgresql", {})[name] = source
                _write_facts(folder, facts)

            load.run(job, progress, _place(order, progress), note)
        progress.show("working out the result and the report")
        found = result.compute(folder)
        result.write(found, folder)
        page.write(folder)
    except KeyboardInterrupt:
        runs.end(folder, "interrupted")
        progress.say(f"Interrupted; samples and logs so far are in {shown(folder)}.")
        raise
    except HarnessError as error:
        runs.end(folder, "failed", str(error))
        progress.say(f"The run failed; its samples and logs are in {shown(folder)}.")
        raise
    except BrokenPipeError as error:
        # nobody reads the progress any more
        runs.end(folder, "interrupted", str(error))
        raise
    except OSError as error:
        # a full disk takes no note either
        with contextlib.suppress(OSError):
            runs.end(folder, "failed", str(error))
        raise disk_error(error, folder) from error
    except BaseException as error:
        runs.end(folder, "failed", f"{type(error).__name__}: {error}")
        raise
    runs.end(folder, "finished")
    progress.end()
    return Outcome(folder, found)


def _write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write `environment.json`."""
    (folder / "environment.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _made_of(order: Order) -> str:
    """Return what the bed is made of, for those who compare runs."""
    if not order.docker:
        return "processes"
    engines = 1 + len(order.docker.engines)
    return f"containers on {order.docker.base}, {order.docker.fleets * engines} with minions, engines: {engines}"


def _place(order: Order, progress: Progress) -> Callable[[Job], Stage]:
    """Return what makes the place where a job is run."""
    settings = order.docker
    return (lambda job: Containers(job, settings, progress.say)) if settings else Local


def shown(path: Path) -> str:
    """Return a path as short as the working folder allows."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
