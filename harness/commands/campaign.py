"""A load run from the command to its report: the run folder, each tree in turn, then result and report."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness import choices, interrupt
from harness import report as page
from harness import verify as verification
from harness.bed import fleet as fleets
from harness.bed.settings import Tree
from harness.choices import WITHOUT_API, minion_ids
from harness.containers.backend import ContainerBackend, ContainerSettings
from harness.errors import Faults, HarnessError, ScenarioError, SettingsError, disk_error
from harness.load import run as load
from harness.load import watch
from harness.load.backend import Job, LocalBackend
from harness.paths import TREES, shown_path
from harness.results import result, runs
from harness.results import trees as known
from harness.samples import ClockSample, read
from harness.scenarios import fleet
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from harness.load.backend import Backend
    from harness.progress import Progress
    from harness.results.result import Result
    from harness.scenarios.scenario import Scenario


@dataclass(frozen=True)
class RunRequest:
    """A load run as its user asks for it."""

    # a name, or the path of a file
    scenario: str
    # names of `TREES`, or folders with another Salt, which results call "other"; a tree may be there twice
    trees: tuple[str, ...]
    # where run folders go
    folder: Path
    # the command line that repeats it
    command: str
    # these three replace what the scenario says
    minions: int | None = None
    seed: int | None = None
    transport: str | None = None
    # how many processes here send the requests
    workers: int = 1
    # how the bed is made of containers; None for a bed of processes
    docker: ContainerSettings | None = None
    # how often each tree is run
    repeats: int = 1
    # the folder of the page that shows the run
    watch: Path | None = None


@dataclass(frozen=True)
class FinishedRun:
    """What a finished run left: its folder, its result, and the content of `result.json`."""

    folder: Path
    result: Result
    written: dict[str, Any]


def find(tree: str) -> tuple[str, Path]:
    """Return the name that results have for a tree, and its folder; `tree` is a name of ours or a folder.

    Raises:
        SettingsError: if there is no Salt.
    """
    name, path = (tree, TREES[tree]) if tree in TREES else ("other", Path(tree))
    if not Tree(path).found():
        advice = (
            "make both trees with `nox -s apply`" if name == tree else "give stock, patched, both, or such a folder"
        )
        raise SettingsError(f"{path} is neither a tree of Salt nor an environment with Salt in it: {advice}.")
    return name, path


def _check_files(request: RunRequest, scenario: Scenario, folder: Path) -> None:
    """Raise SettingsError if a file or folder that the scenario names is not there, or not for the master to see."""
    fleet.resolve(scenario.fleet, folder)
    for tree in request.trees:
        options = fleet.resolve_roots(scenario.master_options(tree), folder)
        if request.docker and any(name in options for name in fleet.ROOTS):
            raise SettingsError(
                f"A master in a container has no folders of this machine: run {scenario.name} without containers."
            )


def check_fleet(scenario: Scenario, folder: Path) -> None:
    """Raise ScenarioError if the simulated minions can't do what the scenario in `folder` asks of them."""
    spec = fleets.FleetSpec(scenario.minions, seed=scenario.seed, extra=fleet.resolve(scenario.fleet, folder))
    later = {moment.behaviour for moment in scenario.timeline if moment.behaviour}
    functions = frozenset() if scenario.unknown_allowed else scenario.functions
    try:
        fleets.check(spec, functions, later)
    except ScenarioError as error:
        hint = f' Or set `unknown_functions = "allow"` in {scenario.name}.'
        lines = [line + hint if any(name in line for name in functions) else line for line in str(error).splitlines()]
        raise ScenarioError("\n".join(lines)) from error


def labelled(trees: Sequence[str]) -> dict[str, Path]:
    """Return the folder of each tree by the label that results have for it, in order; see `find`."""
    found = [find(tree) for tree in trees]
    names = choices.labels([name for name, _ in found])
    return dict(zip(names, (path for _, path in found), strict=True))


def turn(trees: Sequence[str], number: int) -> list[str]:
    """Return the order of the trees in repeat `number` (from 0), so that each comes as often early as late.

    Every second repeat reverses the order of the one before it, and each such pair begins with another tree: a steady
    change of the machine affects all trees alike.
    """
    first = number // 2 % len(trees)
    order = [*trees[first:], *trees[:first]]
    return order[::-1] if number % 2 else order


def run(request: RunRequest, progress: Progress, when: datetime) -> FinishedRun:
    """Run a scenario on each tree, one after the other, each on a bed of its own; `when` is now, in UTC.

    With repeats the trees take turns, see `turn`.

    Raises SettingsError before anything is started, HarnessError if a run fails. What a failed or interrupted run
    left stays in its folder, whose `run.json` says so.
    """
    file = scenarios.find(request.scenario)
    scenario = scenarios.load(file).changed(minions=request.minions, seed=request.seed, transport=request.transport)
    faults = Faults()
    with faults.part():
        _check_files(request, scenario, file.parent)
    with faults.part():
        check_fleet(scenario, file.parent)
    with faults.part():
        scenarios.check(scenario, minion_ids(scenario.minions))
    faults.end()
    if request.watch:
        watch.check(request.watch)
        if request.docker or scenario.transport in WITHOUT_API:
            raise SettingsError(
                "--watch needs a salt-api on this machine: leave it out with --docker or --swarm, and over ws."
            )
    trees = labelled(request.trees)
    # the limits of other machines are not known
    if not request.docker:
        need = fleets.check_capacity(scenario.largest, pillars=scenario.pillar == "sql")
        if need.minions >= fleets.WORTH_TELLING:
            progress.say(f"{need.description}.")
    if request.docker:
        _check_movable(trees)
    with interrupt.held() as release:
        folder = runs.create(
            request.folder, when, scenario, file, tuple(trees), request.command, repeats=request.repeats
        )
        with _noted(folder, progress):
            # from here on whatever comes is noted in the folder
            release()
            return _run(request, progress, scenario, file, trees, folder)


def _run(
    request: RunRequest, progress: Progress, scenario: Scenario, file: Path, trees: Mapping[str, Path], folder: Path
) -> FinishedRun:
    facts = {
        **known.machine_facts(trees),
        "bed": {"made_of": request.docker.description if request.docker else "processes"},
    }
    _write_facts(folder, facts)
    progress.say(f"{scenario.name}: {scenario.description}")
    template = Job("", folder, scenario, folder / "scenario.toml", folder, file.parent, request.workers, request.watch)
    _run_all(request, trees, template, facts, progress)
    return evaluate(folder, progress)


@contextlib.contextmanager
def _noted(folder: Path, progress: Progress) -> Iterator[None]:
    try:
        yield
        with interrupt.held():
            runs.end(folder, "finished")
    except KeyboardInterrupt:
        runs.end(folder, "interrupted")
        progress.say(f"Interrupted; samples and logs so far are in {shown_path(folder)}.")
        raise
    except HarnessError as error:
        _note_failed(folder, str(error))
        progress.say(f"The run failed; its samples and logs are in {shown_path(folder)}.")
        raise
    except BrokenPipeError as error:
        # nobody reads the progress any more
        runs.end(folder, "interrupted", str(error))
        raise
    except OSError as error:
        _note_failed(folder, str(error))
        raise disk_error(error, folder) from error
    except BaseException as error:
        _note_failed(folder, f"{type(error).__name__}: {error}")
        raise
    progress.end()


def _note_failed(folder: Path, problem: str) -> None:
    """Note why a run failed; where even that can't be written, the error itself has to do."""
    with contextlib.suppress(OSError):
        runs.end(folder, "failed", problem)


def evaluate(folder: Path, progress: Progress | None = None) -> FinishedRun:
    """Compute the result of a run, verify it, and write both; with `progress` write the report as well."""
    if progress:
        progress.show("working out and verifying the result")
    verifier = verification.Verifier(folder)
    found = result.compute(folder, verifier.look)
    written = result.write(found, folder, verifier.found(found.trees).verdict)
    if progress:
        progress.show("writing the report")
        page.write(folder, known=(written, found.first))
    return FinishedRun(folder, found, written)


def _run_all(
    request: RunRequest, trees: Mapping[str, Path], template: Job, facts: dict[str, Any], progress: Progress
) -> None:
    """Run each tree in its turn, as `template` says for all; what is learned meanwhile joins the `facts` of the run."""
    folder, made = template.folder, facts["bed"]
    loads: dict[str, list[float]] = {}
    for number, name in _turns(tuple(trees), request.repeats):
        if request.repeats > 1:
            progress.say(f"{name}: repeat {number} of {request.repeats}")
        job = replace(template, name=name, tree=trees[name], folder=runs.place(folder, name, number))

        def note(source: str, name: str = name) -> None:
            made.setdefault("postgresql", {})[name] = source
            _write_facts(folder, facts)

        # the first tree may have left a busy machine to the second
        loads.setdefault(name, []).append(os.getloadavg()[0])
        facts["trees"][name]["load_average"] = round(median(loads[name]), 2)
        _write_facts(folder, facts)
        load.run(job, progress, _place(request, progress), note)
        others = [f"{clock.name} {clock.offset_s:+.3f} s" for clock in read(job.samples, ClockSample) if clock.offset_s]
        if others:
            made.setdefault("clocks", {})[name] = ", ".join(others)
            _write_facts(folder, facts)


def _turns(trees: Sequence[str], repeats: int) -> list[tuple[int, str]]:
    """Return all runs in their order: the number of the repeat, from 1, and the tree."""
    return [(number + 1, tree) for number in range(repeats) for tree in turn(trees, number)]


def _write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    (folder / known.ENVIRONMENT).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _check_movable(trees: Mapping[str, Path]) -> None:
    """Refuse a tree that no container can run: an environment finds its Python where it was made only."""
    for path in trees.values():
        if not Tree(path).is_source():
            raise SettingsError(
                f"{path} has a Python of its own, which can't go into a container: give stock, patched or another tree "
                "of Salt, or leave out --docker or --swarm."
            )


def _place(request: RunRequest, progress: Progress) -> Callable[[Job], Backend]:
    """Return what makes the backend of a job: processes of this machine, or containers."""
    settings = request.docker
    return (lambda job: ContainerBackend(job, settings, progress.say)) if settings else LocalBackend
