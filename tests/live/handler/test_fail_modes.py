"""The job handler stopped, and dead, with each `fail_mode`: check 11."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.halts import halted
from tests.live.helpers.handler_bed import HandlerBed, RaisedError, handler_bed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(300)]

MINION = "minion-00002"


@pytest.fixture(scope="module", params=["open", "closed"])
def mode(request: pytest.FixtureRequest) -> str:
    """Return a fail_mode."""
    return str(request.param)


@pytest.fixture(scope="module")
def setup(root: Path, mode: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master with this fail_mode."""
    limits = {"criteria": "capacity", "max_master_jobs": 20, "fail_mode": mode}
    with handler_bed(root, tmp_path_factory.mktemp("handler"), 10, limits) as found:
        yield found


def submit(setup: HandlerBed, mode: str) -> list[str]:
    """Submit a job while the handler does not answer; check what comes of it, and return its id if there is one."""
    if mode == "open":
        return setup.submit(MINION, "test.echo", ["x"])
    with pytest.raises(RaisedError, match=r"^JobQueueFullError: .* fail_mode is closed. Nothing was sent"):
        setup.submit(MINION, "test.echo", ["x"])
    return []


def exempt(setup: HandlerBed) -> None:
    """Check that exempt functions work."""
    for command in (["test.ping"], ["saltutil.running"], ["saltutil.find_job", "20260101000000000000"]):
        done = setup.bed.salt([MINION, *command])
        assert (done.returncode, done.stderr) == (0, "")
        assert "did not" not in done.stdout


def test_stopped(setup: HandlerBed, mode: str, record_property: Callable[[str, object], None]) -> None:
    """While it is stopped fail_mode holds; what was published then runs once, and afterwards it works as before."""
    pid = setup.pid()
    with halted(pid):
        before = time.monotonic()
        jids = submit(setup, mode)
        record_property("seconds", time.monotonic() - before)
        jids += submit(setup, mode)
        exempt(setup)
    assert setup.pid() == pid
    jids += setup.submit(MINION, "test.echo", ["again"], 3)
    assert sorted(setup.complete(jids, len(jids))) == sorted((jid, MINION) for jid in jids)
    assert setup.arrivals(jids) == jids
    log = (setup.bed.logs / "master.log").read_text()
    assert log.count(f"fail_mode is {mode}") == 2


def test_dead(setup: HandlerBed, mode: str) -> None:
    """The same while it is dead."""
    pid = setup.pid()
    # the master's process manager starts another one, unless it is stopped
    parent = int(setup.bed._master_process.pid)
    with halted(parent):
        os.kill(pid, signal.SIGKILL)
        jids = submit(setup, mode)
        exempt(setup)
    assert setup.pid(other_than=pid) != pid
    jids += setup.submit(MINION, "test.echo", ["again"], 3)
    assert sorted(setup.complete(jids, len(jids))) == sorted((jid, MINION) for jid in jids)
