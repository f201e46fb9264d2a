"""What a backend is to run: one scenario on one tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.scenarios import fleet as options

if TYPE_CHECKING:
    from pathlib import Path

    from harness.load.remote import Remote
    from harness.scenarios.scenario import Scenario


@dataclass(frozen=True)
class Job:
    """What is to be run: the tree's name and folder, the scenario and its file, and the folder for what stays of it.

    `file` is the copy in the run's folder; files that it names are looked for in `beside`. The clients share their
    work among `workers` processes here, and `remote` ones of other hosts.
    """

    name: str
    tree: Path
    scenario: Scenario
    file: Path
    folder: Path
    beside: Path
    workers: int = 1
    remote: Remote | None = None
    # the folder of the page that shows the run
    watch: Path | None = None

    @property
    def samples(self) -> Path:
        """Return the folder of raw samples."""
        return self.folder / "samples"

    @property
    def fleet_options(self) -> tuple[str, ...]:
        """Return the options of the fleet's command."""
        return options.resolve(self.scenario.fleet, self.beside)

    @property
    def master_options(self) -> dict[str, object]:
        """Return the options of the master's configuration."""
        return options.resolve_roots(self.scenario.master_options(self.name), self.beside)
