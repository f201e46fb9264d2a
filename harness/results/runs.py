"""Run folders: `build/runs/<when>-<scenario>/`, one for each load run, and `latest` beside them.

A folder holds all that its run left, so that it can be read, compared or sent to somebody: `run.json` (what ran and
how it ended), `scenario.toml` (a copy), `environment.json`, a folder for each tree with `logs/` and `samples/`,
`result.json` and `report.html`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SettingsError, disk_error
from harness.processes.owner import ended, owner
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from datetime import datetime

    from harness.scenarios.scenario import Scenario

FORMAT = 1
FOLDER = Path("build/runs")
LATEST = "latest"
KILLED = "the process that ran it was killed"


@dataclass(frozen=True)
class Run:
    """What ran: `started` is UTC in ISO 8601, `command` repeats it, `problem` says why a run failed.

    `status` is running, finished, interrupted, failed, or killed. `minions` and `seed` are the scenario's own unless
    the command changed them. `host` and `owner` name the process that runs it (see `harness.processes.owner`).
    """

    id: str
    started: str
    trees: tuple[str, ...]
    minions: int
    seed: int
    command: str
    status: str = "running"
    problem: str = ""
    host: str = ""
    owner: str = ""

    @property
    def killed(self) -> bool:
        """Return whether the process that ran it has ended without a note; of other machines nobody can tell."""
        return self.status == "running" and self.host == socket.gethostname() and ended(self.owner)

    def scenario(self, folder: Path) -> Scenario:
        """Return the scenario as it ran, from the copy in the run's `folder`."""
        name = self.id.split("-", 1)[1]
        scenario = scenarios.load(folder / "scenario.toml").changed(minions=self.minions, seed=self.seed)
        return dataclasses.replace(scenario, name=name)


def create(parent: Path, when: datetime, scenario: Scenario, file: Path, trees: tuple[str, ...], command: str) -> Path:
    """Make the folder of a new run of the scenario in `file`, started at `when` (UTC), and return it."""
    note_killed(parent)
    stamp = f"{when:%Y%m%dT%H%M%SZ}"
    for number in range(100):
        folder = parent / f"{stamp}{f'.{number}' if number else ''}-{scenario.name}"
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
        except OSError as error:
            raise disk_error(error, parent) from error
    else:
        raise SettingsError(f"{parent} has a hundred runs of this second: name another folder with --folder.")
    shutil.copyfile(file, folder / "scenario.toml")
    started = when.isoformat(timespec="seconds")
    ours = {"host": socket.gethostname(), "owner": owner(os.getpid())}
    write(folder, Run(folder.name, started, trees, scenario.minions, scenario.seed, command, **ours))
    return folder


def write(folder: Path, run: Run) -> None:
    """Write `run.json`."""
    values = {"format": FORMAT, **dataclasses.asdict(run)}
    (folder / "run.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Run:
    """Return what ran in `folder`. Raises SettingsError if it is no run."""
    try:
        values = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        values["trees"] = tuple(values["trees"])
        # runs of before have no owner
        values = {"host": "", "owner": "", **values}
        return Run(**{column.name: values[column.name] for column in dataclasses.fields(Run)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{folder} is not the folder of a run: give one of those in {FOLDER}, or latest."
        ) from error


def end(folder: Path, status: str, problem: str = "") -> Run:
    """Record how the run in `folder` ended, and return it; a finished one becomes the latest."""
    run = dataclasses.replace(read(folder), status=status, problem=problem)
    write(folder, run)
    if status == "finished":
        _make_latest(folder)
    return run


def note_killed(parent: Path) -> list[Path]:
    """Record of each run in `parent` whose process was killed that it was, and return their folders."""
    found = []
    for path in sorted(parent.glob("*/run.json")):
        # a folder that is no run, or one that belongs to somebody else, is none of ours
        with contextlib.suppress(SettingsError, OSError):
            if not path.parent.is_symlink() and read(path.parent).killed:
                end(path.parent, "killed", KILLED)
                found.append(path.parent)
    return found


def find(name: str | None, parent: Path = FOLDER) -> Path:
    """Return the folder of run `name`: a path, a name in `parent`; None or "latest" is the latest finished run."""
    note_killed(parent)
    if name is None or name == LATEST:
        latest = parent / LATEST
        if not latest.is_dir():
            raise SettingsError(f"There is no finished run in {parent} yet: start one with `nox -s load`.")
        return latest.resolve()
    for folder in (Path(name), parent / name):
        if (folder / "run.json").is_file():
            if read(folder).killed:
                end(folder, "killed", KILLED)
            return folder.resolve()
    raise SettingsError(f"There is no run {name}: give a folder in {parent}, or latest.")


def _make_latest(folder: Path) -> None:
    """Point `latest` at `folder` in one step: whoever reads it sees the old run or the new one, never nothing."""
    draft = folder.parent / f".{LATEST}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    draft.symlink_to(folder.name)
    draft.replace(folder.parent / LATEST)
