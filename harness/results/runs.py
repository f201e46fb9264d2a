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
from harness.processes.kernel import ended, owner, rebooted
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from datetime import datetime

    from harness.scenarios.scenario import Scenario

FORMAT = 1
FOLDER = Path("build/runs")
LATEST = "latest"
KILLED = "the process that ran it was killed"
# a file that reserves room on the disk, so that a run that fills it can still note that
RESERVE, RESERVE_BYTES = ".reserve", 64 * 1024


@dataclass(frozen=True)
class Run:
    """What ran: `started` is UTC in ISO 8601, `command` repeats it, `problem` says why a run failed.

    `status` is running, finished, interrupted, failed, or killed. `minions`, `seed` and `transport` are the scenario's
    own unless the command changed them. Each tree was run `repeats` times, in turn with the others; `trees` are their
    labels, see `harness.choices`. `host` and `owner` name the process that runs it (see
    `harness.processes.kernel`).
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
    repeats: int = 1
    transport: str | None = None

    def places(self, folder: Path) -> list[dict[str, Path]]:
        """Return for each repeat the folder of each tree in the run's `folder`."""
        return [{tree: place(folder, tree, repeat) for tree in self.trees} for repeat in range(1, self.repeats + 1)]

    @property
    def killed(self) -> bool:
        """Return whether the process that ran it has ended without a note; of other machines nobody can tell."""
        before = self.host == socket.gethostname() and rebooted(self.owner)
        return self.status == "running" and (before or ended(self.owner) is True)

    def scenario(self, folder: Path) -> Scenario:
        """Return the scenario as it ran, from the copy in the run's `folder`."""
        name = self.id.split("-", 1)[1]
        scenario = scenarios.load(folder / "scenario.toml")
        scenario = scenario.changed(minions=self.minions, seed=self.seed, transport=self.transport)
        return dataclasses.replace(scenario, name=name)


def place(folder: Path, tree: str, repeat: int) -> Path:
    """Return where a repeat (from 1) of a tree has its samples and logs: the first one right in the run's `folder`."""
    return folder / tree if repeat == 1 else folder / f"repeat-{repeat}" / tree


def create(
    parent: Path,
    when: datetime,
    scenario: Scenario,
    file: Path,
    trees: tuple[str, ...],
    command: str,
    *,
    repeats: int = 1,
) -> Path:
    """Make the folder of a new run of the scenario in `file`, started at `when` (UTC), and return it."""
    note_killed(parent)
    stamp = f"{when:%Y%m%dT%H%M%SZ}"
    for number in range(100):
        folder = parent / f"{stamp}{f'.{number}' if number else ''}-{scenario.name}"
        try:
            folder.mkdir(mode=0o700, parents=True)
            break
        except FileExistsError:
            continue
        except OSError as error:
            raise disk_error(error, parent) from error
    else:
        raise SettingsError(f"{parent} has a hundred runs of this second: name another folder with --folder.")
    run = Run(
        id=folder.name,
        started=when.isoformat(timespec="seconds"),
        trees=trees,
        minions=scenario.minions,
        seed=scenario.seed,
        command=command,
        host=socket.gethostname(),
        owner=owner(os.getpid()),
        repeats=repeats,
        transport=scenario.transport,
    )
    try:
        _fill(folder, file, run)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise disk_error(error, folder) from error
    return folder


def _fill(folder: Path, file: Path, run: Run) -> None:
    (folder / RESERVE).write_bytes(bytes(RESERVE_BYTES))
    shutil.copyfile(file, folder / "scenario.toml")
    write(folder, run)


def write(folder: Path, run: Run) -> None:
    """Write `run.json` in one step: if there is no room for it, the old one stays."""
    values = {"format": FORMAT, **dataclasses.asdict(run)}
    draft = folder / ".run.json"
    try:
        draft.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        draft.replace(folder / "run.json")
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read(folder: Path) -> Run:
    """Return what ran in `folder`.

    Raises:
        SettingsError: if it is no run.
    """
    try:
        values = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        values["trees"] = tuple(values["trees"])
        # runs of older versions have no owner, no repeats and no transport
        values = {"host": "", "owner": "", "repeats": 1, "transport": None, **values}
        return Run(**{column.name: values[column.name] for column in dataclasses.fields(Run)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{folder} is not the folder of a run: give one of those in {FOLDER}, or latest."
        ) from error


def end(folder: Path, status: str, problem: str = "") -> Run:
    """Record how the run in `folder` ended, and return it; a finished one becomes the latest."""
    run = dataclasses.replace(read(folder), status=status, problem=problem)
    (folder / RESERVE).unlink(missing_ok=True)
    write(folder, run)
    if status == "finished":
        _make_latest(folder)
    return run


def note_killed(parent: Path) -> list[Path]:
    """Record of each run in `parent` whose process was killed that it was, and return their folders."""
    found = []
    for path in sorted(parent.glob("*/run.json")):
        # a folder that is no run, or belongs to another user, is left alone
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
    """Point `latest` at `folder` in one step: a reader sees the old run or the new one, never nothing."""
    draft = folder.parent / f".{LATEST}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    draft.symlink_to(folder.name)
    draft.replace(folder.parent / LATEST)
