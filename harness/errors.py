"""What can go wrong with the bed, as one tree of exceptions.

Every command of the harness prints the message of one of these and ends with its `exit_code`. A message is one sentence
in one line that says what to do next; only a ScenarioError may have several, a line for each fault of the file.

    HarnessError (3)
    ├── SettingsError (2)         a setting, an option or a file of settings is wrong
    │   └── ScenarioError         a scenario file
    ├── StartError                something of the bed did not start or did not answer in time
    │   ├── DockerError           an engine of Docker is missing or refuses
    │   ├── DiskError             a disk is full
    │   ├── MasterError           the master did not start
    │   └── WardenError           the process that owns the bed's processes is gone
    ├── ProcessError              a process of the bed ended, or did not end in time
    ├── SaltProcessError          a process that does tasks with one Salt ended, or a task of it failed
    └── RunError                  a load run could not be completed
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL = (
    "A disk that the bed writes to is full ({}): free some space, or set TMPDIR or --folder to a folder on a larger "
    "disk."
)


# errors for which another folder helps
REFUSED = frozenset(
    (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.ENOENT,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENAMETOOLONG,
    )
)


class HarnessError(Exception):
    """Anything that the harness reports to its user as one sentence."""

    exit_code: ClassVar[int] = 3


class SettingsError(HarnessError):
    """A setting, an option or a file of settings is wrong."""

    exit_code = 2


class ScenarioError(SettingsError):
    """A scenario file is wrong."""


class StartError(HarnessError):
    """Something of the bed did not start or did not answer in time."""


class DockerError(StartError):
    """An engine of Docker is missing or refuses."""


class DiskError(StartError):
    """A disk is full."""


class MasterError(StartError):
    """The master did not start."""


class WardenError(StartError):
    """The process that owns the bed's processes is gone."""


class ProcessError(HarnessError):
    """A process of the bed ended, or did not end in time."""


class SaltProcessError(HarnessError):
    """A process that does tasks with one Salt ended, or a task of it failed."""


class RunError(HarnessError):
    """A load run could not be completed."""


class Faults:
    """Collects the faults of a scenario, of parts that can be read one without the other."""

    def __init__(self) -> None:
        """Begin with none."""
        self._faults: list[str] = []

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._faults)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Note the ScenarioError that a part raises; what comes after this part goes on."""
        try:
            yield
        except ScenarioError as error:
            self.add(str(error))

    def add(self, text: str) -> None:
        """Note an error, or several, each in a line of its own."""
        self._faults += text.splitlines()

    def end(self) -> None:
        """Raise ScenarioError with a line for each error that was noted, if there are any."""
        if self._faults:
            # two checks may find the same
            raise ScenarioError("\n".join(dict.fromkeys(self._faults)))


def is_full(error: OSError) -> bool:
    """Say whether a write failed because its disk, or the user's part of it, is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def disk_error(error: OSError, path: Path | str, needed_mb: int | None = None) -> HarnessError:
    """Return the error that tells a user what became of writing below `path`.

    `needed_mb` is how many megabytes are needed there, if that is known.
    A full disk is common enough in a test bed to be told apart from every other failed write.
    """
    if is_full(error):
        return DiskError(FULL.format(f"{path}: {_room(Path(path), needed_mb)}"))
    if error.errno in REFUSED:
        return SettingsError(f"Cannot write below {path}: {error.strerror}; choose a folder that you may write to.")
    return StartError(f"Cannot write below {path}: {error.strerror}; see to that disk, or choose another folder.")


def _room(path: Path, needed_mb: int | None) -> str:
    there = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    left = f"{shutil.disk_usage(there).free / 2**20:.1f} MB are left"
    return left if needed_mb is None else f"{left}, and the bed needs about {needed_mb} MB there"


def end_error(what: str, code: int, log: Path, text: str, ended: float | None = None) -> StartError:
    """Return the error for a process that ended too early; `text` is the end of its log.

    `code` is its exit code, or minus the signal that ended it; `ended` is when, in seconds since the epoch.
    """
    if os.strerror(errno.ENOSPC) in text:
        return DiskError(FULL.format(f"{what} could not write on; its log is {log}"))
    by = f" ({signal.Signals(-code).name})" if -code in set(signal.Signals) else ""
    when = "" if ended is None else f" at {time.strftime('%H:%M:%S', time.localtime(ended))}"
    said = f"the last lines of {log} are:\n{text}" if text else f"its log {log} is empty."
    return StartError(f"{what} ended with exit code {code}{by}{when}; {said}")
