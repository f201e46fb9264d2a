"""Brings what containers wrote to where a run of one machine has it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness.containers import files, roles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker.models.containers import Container


def samples(containers: Mapping[str, Container], ahead: Mapping[str, float], output: Path) -> None:
    """Fetch the samples of all containers into `output`, and put them together as those of one machine.

    `ahead` has the seconds by which the clock of each container is ahead of ours.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folders = {
            name: files.fetch(container, str(roles.SAMPLES), Path(temporary, name))
            for name, container in containers.items()
        }
        files.merge_processes(((folder, ahead[name]) for name, folder in folders.items()), output / "processes.csv")
        fleets = [name for name in folders if name.startswith("fleet-")]
        files.merge_fleet(((folders[name] / "fleet", ahead[name]) for name in fleets), output / "fleet")
        for path in folders["clients"].iterdir():
            if path.is_file() and path.name != "processes.csv":
                files.set_back(path, output / path.name, ahead["clients"])


def logs(container: Container, folder: Path) -> None:
    """Fetch the logs of a container into `folder`, as far as it is still there."""
    from docker.errors import APIError  # noqa: PLC0415 - takes half a second, and a run without --docker needs none

    with contextlib.suppress(APIError, OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "container.log").write_bytes(container.logs(stdout=False))
    with contextlib.suppress(APIError, OSError), tempfile.TemporaryDirectory() as temporary:
        for path in files.fetch(container, str(roles.LOGS), Path(temporary)).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
