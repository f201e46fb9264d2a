"""What needs a master's own Salt: a program for the Python of a Salt tree.

Salt is imported from the tree under test, never into the harness. `python -m harness.load.salt_side CONFIG_FOLDER`
takes one of:

kept JIDS OUTPUT           reads job ids from the file JIDS, a line each, and writes the returns kept: `kept.csv`
accepted FUNCTIONS OUTPUT  reads functions likewise, and writes the jobs of these that the master accepted
runners JOBS OUTPUT        reads asynchronous runners, and writes their answers
rotate SECONDS             has the master rotate its publication key

A master of Salt saves a job before it gives out its id, whatever it does with the job then, so the job cache knows also
of those that wait to be published. The master's own returner is asked, whichever the tree and its options have, because
what a client sees later with `jobs.lookup_jid` is what counts, not a file's presence.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import StartError
from harness.load import reading
from harness.load.reading import RunnerJob
from harness.processes.deadline import Deadline, until
from harness.samples import AcceptedJob, KeptReturn, RunnerSample, SampleFile
from harness.scenarios.clients import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    GetJid = Callable[[str], dict[str, dict[str, Any]]]

# how often an unreadable job is tried, and the seconds between two tries
TRIES, PAUSE_S = 10, 0.2
# how Salt ends the sentence about a file of the job cache that is not there
MISSING = " does not exist"
KINDS: dict[str, type] = {"kept": KeptReturn, "accepted": AcceptedJob, "runners": RunnerSample}


class JobCache:
    """The job cache of the master whose configuration is in a folder, through its own returner."""

    def __init__(self, config_folder: Path) -> None:
        """Load the returner."""
        import salt.minion  # noqa: PLC0415  # only this program's process may load Salt

        options = _options(config_folder)
        # the master itself writes to its log file
        options["log_file"] = "/dev/null"
        self._returners = salt.minion.MasterMinion(options, states=False, rend=False).returners
        self._name = options.get("ext_job_cache") or options["master_job_cache"]

    def kept(self, jids: Iterable[str]) -> Iterator[KeptReturn]:
        """Yield every return of `jids` that it holds."""
        get_jid = self._returners[f"{self._name}.get_jid"]
        for jid in jids:
            for minion, data in get_jid(jid).items():
                if "return" in data:
                    yield KeptReturn(jid, minion)

    def runners(self, jobs: Iterable[RunnerJob]) -> Iterator[RunnerSample]:
        """Yield the answer of every runner of `jobs` that has ended."""
        return answered(self._returners[f"{self._name}.get_jid"], jobs)

    def accepted(self, functions: Asked) -> Iterator[AcceptedJob]:
        """Yield every job of `functions` that it holds, in the order of their ids."""
        jobs = self._returners[f"{self._name}.get_jids"]()
        wanted = [(jid, job["Function"]) for jid, job in sorted(jobs.items()) if job.get("Function") in functions]
        return saved(self._returners[f"{self._name}.get_load"], wanted)


def saved(
    get_load: Callable[[str], dict[str, Any]],
    jobs: Iterable[tuple[str, str]],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[AcceptedJob]:
    """Yield every job, of (job id, function), that was saved with its minions.

    A master saves a job in two steps, before it gives out the id or publishes anything. Between the two the job can't
    be read; one whose master was stopped there stays so, and nobody was ever told its id. Whatever else a returner
    raises, and does not stop raising, is no such job, and raised.
    """
    for jid, function in jobs:
        for left in reversed(range(TRIES)):
            try:
                load = get_load(jid)
            except Exception as error:
                if left:
                    sleep(PAUSE_S)
                elif not str(error).endswith(MISSING):
                    raise
            else:
                yield AcceptedJob(jid, function, len(load.get("Minions", ())))
                break


def answered(get_jid: GetJid, jobs: Iterable[RunnerJob]) -> Iterator[RunnerSample]:
    """Yield the answer of every runner of `jobs` that `get_jid` has one of."""
    for job in jobs:
        # the only one who answers is the master itself
        for data in get_jid(job.jid).values():
            if "return" in data:
                answer = reading.read_event(job.function, data["return"], job.expected)
                yield RunnerSample(job.jid, answer.answered, " ".join(answer.jids), answer.error)


def rotate(config_folder: Path, seconds: float) -> None:
    """Leave the drop file by which Salt's own commands ask for a rotation, and wait until the master has taken it.

    The master's maintenance looks once every `loop_interval` seconds.

    Raises:
        StartError: if it has not after `seconds`.
    """
    import salt.crypt  # noqa: PLC0415  # only this program's process may load Salt

    options = _options(config_folder)
    salt.crypt.dropfile(options["cachedir"], options["user"], options["id"])
    asked, deadline = Path(options["cachedir"], ".dfn"), Deadline(seconds)
    until(
        lambda: not asked.exists(),
        deadline,
        lambda: f"the master has not rotated its key after {deadline.waited()}: give it a shorter `loop_interval`",
    )


def _options(config_folder: Path) -> dict[str, Any]:
    """Return the options of the master whose configuration is in a folder."""
    import salt.config  # noqa: PLC0415  # only this program's process may load Salt

    options: dict[str, Any] = salt.config.master_config(str(config_folder / "master"))
    return options


def main(folder: str, what: str, *arguments: str) -> int:
    """Do what is asked for."""
    if what == "rotate":
        try:
            rotate(Path(folder), float(arguments[0]))
        except StartError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    asked, output = arguments
    names = Path(asked).read_text(encoding="utf-8").splitlines()
    cache = JobCache(Path(folder))
    rows = SampleFile(Path(output), KINDS[what])
    found: dict[str, Callable[[], Iterator[object]]] = {
        "kept": lambda: cache.kept(names),
        "accepted": lambda: cache.accepted(Asked.read(names)),
        "runners": lambda: cache.runners(map(RunnerJob.read, names)),
    }
    for row in found[what]():
        rows.write(row)
    rows.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
