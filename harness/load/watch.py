"""A page in the browser that shows a run while it goes on: `load --watch FOLDER`.

salt-api serves a copy of the page, which reads `live.json` beside it. That is a file that is written anew with each
sample, so looking on costs the master nothing.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from harness.errors import SettingsError
from harness.paths import write_private
from harness.samples import ProcessSample, monitor

if TYPE_CHECKING:
    from pathlib import Path

    from harness.bed.api import Api
    from harness.samples import FleetSample

INDEX, LIVE, PASSWORD = "index.html", "live.json", "watch.password"
# the end of the file of processes: a hundred processes have 5 KB a second
TAIL_BYTES = 1 << 16


def check(folder: Path) -> None:
    """Raise SettingsError if a folder holds no page."""
    if not (folder / INDEX).is_file():
        raise SettingsError(
            f"{folder} has no {INDEX}: give the folder of a page, as `python -m saltext.console --folder`."
        )


class Watch:
    """The page of one run, in a folder of its own."""

    def __init__(self, page: Path, folder: Path) -> None:
        """Copy the page."""
        self.folder = folder / "watch"
        self._password = folder / PASSWORD
        shutil.copytree(page, self.folder)
        # before the first sample
        self._write(None)

    def options(self) -> dict[str, str]:
        """Return the options of rest_cherrypy that serve it."""
        return {"app": str(self.folder / INDEX), "static": str(self.folder)}

    def instructions(self, api: Api) -> str:
        """Return where it is, with the password in a file of its own."""
        write_private(self._password, f"{api.password}\n")
        return f"watch it at {api.url}/app#/load as {api.user} ({api.eauth}), with the password in {self._password}"

    def show(self, name: str, phase: str, clients: str, sample: FleetSample, samples: Path) -> None:
        """Write what the page shows now: the sample, and the CPU and memory of the processes of each role."""
        shown = {"name": name, "phase": phase, "clients": clients, **asdict(sample), "processes": processes(samples)}
        self._write(shown)

    def _write(self, shown: object) -> None:
        draft = self.folder / f".{LIVE}"
        draft.write_text(json.dumps(shown), encoding="utf-8")
        draft.replace(self.folder / LIVE)


def processes(samples: Path) -> dict[str, list[float]]:
    """Return the CPU in seconds so far and the memory in MB of all processes of each role, as of the last sample."""
    try:
        with (samples / monitor.FILE).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            # the first line may be cut off, and the last is perhaps being written
            lines = file.read().decode(errors="replace").split("\n")[1:-1]
    except FileNotFoundError:
        return {}
    rows = [row for row in (line.split(",") for line in lines) if len(row) == len(fields(ProcessSample))]
    found: dict[str, list[float]] = {}
    for when, role, _, cpu_s, rss_kb in rows:
        if when == rows[-1][0]:
            total = found.setdefault(role, [0.0, 0.0])
            total[0] += float(cpu_s)
            total[1] += float(rss_kb) / 1024
    return found
