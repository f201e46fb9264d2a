"""Takes samples of the fleet and of the machine while a load runs, and tells its progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from harness.processes import machine
from harness.samples.files import SampleFile
from harness.samples.rows import FleetSample, MachineSample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.load.backend import Fleet
    from harness.progress import Progress


class Recorder:
    """Takes a sample of the fleet every second, writes it and shows the run's progress."""

    def __init__(
        self,
        fleet: Fleet,
        folder: Path,
        progress: Progress,
        name: str,
        check: Callable[[], None] = lambda: None,
        *,
        here: bool = True,
    ) -> None:
        """Sample `fleet` into a file in `folder`; `name` is that of the tree.

        `check` raises an error if something that the run can't do without has ended; it is called before each sample.
        This machine is sampled only if the whole bed is `here`: what other machines do besides is not known.
        """
        self._here = here
        self._check = check
        self._fleet = fleet
        self._file = SampleFile(folder / "fleet.csv", FleetSample)
        self._machine = SampleFile(folder / "machine.csv", MachineSample)
        self._progress = progress
        self._name = name
        # hears the phase, what is said of the clients, and each sample
        self.shown: Callable[[str, str, FleetSample], None] = lambda *_: None

    def __enter__(self) -> Self:
        """Return the recorder."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the files of samples."""
        self._file.close()
        self._machine.close()

    def sample(self, phase: str, clients: str = "") -> FleetSample:
        """Take a sample now; `phase` and `clients` go into the line of progress."""
        self._check()
        now = time.time()
        if self._here:
            self._machine.write(machine.sample(now))
        sample = fleet_sample(self._fleet, now)
        self._file.write(sample)
        self.shown(phase, clients, sample)
        minions = f"{sample.connected:,} connected, {sample.ready:,} of {sample.minions:,} ready"
        sent = (
            f"{sample.publications:,} jobs, {sample.return_sends:,} returns sent, {sample.returns_acked:,} acknowledged"
        )
        self._progress.show(
            f"{self._name}: {phase}: {minions if phase == 'ramp-up' else ', '.join(filter(None, [clients, sent]))}"
        )
        return sample


def fleet_sample(fleet: Fleet, when: float) -> FleetSample:
    """Return the fleet's state as a sample taken at `when`, in seconds since the epoch."""
    status = fleet.status()
    counters = status.counters
    return FleetSample(
        time=when,
        minions=status.minions,
        connected=status.connected,
        authenticated=status.authenticated,
        ready=status.ready,
        rss_kb=sum(process.rss_kb for process in status.processes),
        base_rss_kb=sum(process.base_rss_kb for process in status.processes),
        cpu_s=sum(process.cpu_s for process in status.processes),
        publications=counters.publications,
        heard=counters.heard,
        heard_bytes=counters.heard_bytes,
        executions=counters.executions,
        find_jobs=counters.find_jobs,
        returns=counters.returns,
        return_sends=counters.return_sends,
        returns_acked=counters.returns_acked,
        returns_given_up=counters.returns_given_up,
        executing=status.executing,
    )
