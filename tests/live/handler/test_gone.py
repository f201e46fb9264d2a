"""Who asks on the command line and goes while his job waits: by Ctrl-C, or killed; root, or a user of publisher_acl."""

from __future__ import annotations

import itertools
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from tests.live.helpers.handler_bed import HandlerBed, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.processes.processes import Process

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MINIONS = 10
WAIT_S = 60
USER = "ops"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master whose jobs wait for as long as their callers do."""
    limits = {"criteria": "capacity", "max_master_jobs": 20, "sync_wait": "extend"}
    options = {"publisher_acl": {USER: ["test.echo"]}}
    with handler_bed(root, tmp_path_factory.mktemp("gone"), MINIONS, limits, master_options=options) as found:
        yield found


@pytest.fixture
def paused(setup: HandlerBed) -> Iterator[HandlerBed]:
    """Yield the master with a queue that stands still."""
    setup.idle()
    setup.ask("pause", paused=True)
    yield setup
    setup.ask("pause", paused=False)


def command(setup: HandlerBed, *arguments: str, user: str | None = None) -> tuple[Process, str]:
    """Start `salt` and wait until its job is in the queue; return it and the job's id."""
    before = {job["jid"] for job in setup.ask("list")["jobs"]}
    environment = {**setup.bed.environment, **({"SUDO_USER": user} if user else {})}
    argv = [*setup.bed.command("salt"), "--timeout=5", *arguments]
    process = setup.bed.spawn(f"salt-{next(NUMBERS)}", argv, env=environment)

    def queued() -> str:
        process.check()
        return next((job["jid"] for job in setup.ask("list")["jobs"] if job["jid"] not in before), "")

    return process, until(queued, Deadline(WAIT_S), lambda: f"the job is not queued: {process.tail()}")


def waiting(setup: HandlerBed) -> list[str]:
    """Return the jobs that wait."""
    return [job["jid"] for job in setup.ask("list")["jobs"]]


WAYS = [
    pytest.param(signal.SIGINT, None, id="Ctrl-C"),
    pytest.param(signal.SIGINT, USER, id="Ctrl-C of a user", marks=pytest.mark.needs_root),
    pytest.param(signal.SIGKILL, None, id="killed"),
    pytest.param(signal.SIGTERM, None, id="ended"),
    pytest.param(signal.SIGKILL, USER, id="killed user", marks=pytest.mark.needs_root),
]


@pytest.mark.parametrize(("how", "user"), WAYS)
def test_job_goes_with_its_caller(paused: HandlerBed, how: signal.Signals, user: str | None) -> None:
    """His job is not executed when its turn comes, that of somebody who waits is, and nobody is silent about it."""
    gone, jid = command(paused, "*", "test.echo", "gone", user=user)
    stays, other = command(paused, "*", "test.echo", "stays")
    gone.signal(how)
    with suppress(Exception):
        gone.wait(WAIT_S)
    until(lambda: waiting(paused) == [other], Deadline(WAIT_S), lambda: f"these wait: {waiting(paused)}")
    paused.ask("pause", paused=False)
    assert stays.wait(WAIT_S) == 0
    assert len(paused.complete([jid, other], MINIONS)) == MINIONS
    assert paused.executions([jid]) == []
    told = paused.bed.salt_run(["jobs.lookup_jid", jid]).stdout
    sentence = "It waited in the master's queue when its caller ended"
    assert told.count(sentence) == MINIONS


def test_asynchronous_job_stays(paused: HandlerBed) -> None:
    """Who does not wait may go."""
    argv = ["*", "test.echo", "async", "--async"]
    assert paused.bed.salt(argv).returncode == 0
    (jid,) = waiting(paused)
    paused.ask("pause", paused=False)
    assert len(paused.complete([jid], MINIONS)) == MINIONS


def test_part_of_a_killed_batch(paused: HandlerBed) -> None:
    """What waits of a batch does not run when nobody is there to count it."""
    batch, jid = command(paused, "--batch=5", "*", "test.echo", "batch")
    batch.signal(signal.SIGKILL)
    until(lambda: waiting(paused) == [], Deadline(WAIT_S), lambda: f"these wait: {waiting(paused)}")
    paused.ask("pause", paused=False)
    paused.idle()
    assert paused.executions([jid]) == []
