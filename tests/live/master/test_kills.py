"""Workers that are killed in the middle of returns: every minion gets an answer, and the job cache has all returns."""

from __future__ import annotations

import os
import random
import signal
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.bed import Bed, BedSettings
from harness.saltprocess.patched import Pump
from tests.live.helpers.returning import kept, name, publish

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]

MINIONS = 200
PATIENCE_S = 4.0
PAUSE_S = 0.1
# a master starts workers again every ten seconds, so that many of them are needed to have one to kill
WORKERS = 20


def workers(bed: Bed) -> list[int]:
    """Return the ids of the processes that work for a bed's master."""
    found = []
    for one in psutil.Process(bed.master_pid).children(recursive=True):
        try:
            line = " ".join(one.cmdline())
        except psutil.Error:
            continue
        if "MWorker" in line and "MWorkerQueue" not in line:
            found.append(one.pid)
    return found


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.long)])
def test_workers_are_killed_while_they_keep_returns(root: Path, tmp_path: Path, kills: int) -> None:
    """What is acknowledged is in the job cache, whole, whichever worker died while he kept it."""
    options = {"worker_threads": WORKERS, "log_level_logfile": "warning"}
    settings = BedSettings(
        root / "salt", tmp_path / "bed", master_options=options, pillar="none", postgres="none", api=None
    )
    killed = 0
    done = threading.Event()
    chooser = random.Random(kills)  # noqa: S311 - a seed, no secret

    def kill() -> None:
        nonlocal killed
        while killed < kills:
            # a job that nobody works at would be no test of it
            found = workers(bed)
            if len(found) > WORKERS // 4:
                os.kill(chooser.choice(found), signal.SIGKILL)
                killed += 1
            if done.wait(PAUSE_S):
                return

    tries, jobs = 0, []
    with Bed(settings) as bed, Pump(bed, MINIONS, tmp_path / "pump") as pump:
        jobs.append(publish(bed))
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            while killer.is_alive():
                # jobs of their own, as they would come from the next masters' clients
                jid = str(int(jobs[0]) + len(jobs))
                tries += pump.insist(jid, PATIENCE_S)
                jobs.append(jid)
        finally:
            done.set()
            killer.join()
        found = {jid: kept(bed, jid) for jid in jobs[1:]}
        log = bed.master.log.read_text()
    assert killed == kills
    # a request that dies with its worker is sent again: without any, nothing was hit
    assert tries > MINIONS * len(found)
    for files in found.values():
        # what a worker was writing when it died has a name that nobody reads, until the job is cleaned away
        returns = {path: value for path, value in files.items() if path.endswith("return.p") and path[0] != "."}
        assert returns == {
            f"{name(number)}/return.p": {"return": True, "retcode": 0, "success": True} for number in range(MINIONS)
        }
    assert "could not be read for comparison" not in log
