"""The job handler asks minions what they run, and nobody notices: neither the job cache nor the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evil_minions.samples import JobRow, read_samples
from tests.live.helpers.handler_bed import HandlerBed, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

MINIONS = 40
# the job lasts for several rounds of questions
SECONDS = 12
LIMITS = {"criteria": "capacity", "max_master_jobs": 100, "long_running": 2, "reconcile_interval": 2}
# how the job ids of questions end
QUESTION = "_0"


@pytest.fixture
def setup(root: Path, tmp_path: Path) -> Iterator[HandlerBed]:
    """Yield a patched master that asks after two seconds."""
    with handler_bed(root, tmp_path / "bed", MINIONS, LIMITS, master_options={"log_level_logfile": "info"}) as found:
        yield found


def test_questions_leave_no_trace(setup: HandlerBed) -> None:
    """One healthy job of twelve seconds: its answers are kept, nothing else, and nothing is logged as an error."""
    jobs = setup.submit("*", "test.sleep", [str(SECONDS)])
    assert len(setup.complete(jobs, MINIONS)) == MINIONS
    setup.fleet.control.flush()
    asked = {row.jid for row in read_samples(setup.fleet.folder, JobRow) if row.jid.endswith(QUESTION)}
    assert asked
    kept = {path.read_text() for path in setup.bed.master.job_cache.glob("*/*/jid")}
    assert set(jobs) <= kept
    assert not asked & kept
    assert not {jid for jid in kept if jid.endswith(QUESTION)}
    log = (setup.bed.logs / "master.log").read_text()
    assert "[INFO" in log
    assert "Error in function _return" not in log
    assert not [line for line in log.splitlines() if "[ERROR" in line or "[CRITICAL" in line]
