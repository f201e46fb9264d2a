"""Reading the job cache of a master that is at work, or was stopped at it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.load import salt_side
from harness.samples import AcceptedJob

JIDS = [f"2026112300000000000{number}" for number in range(3)]


def test_job_that_is_being_saved() -> None:
    """A job is saved in two steps: it is read when both are done."""
    slept: list[float] = []

    def get_load(jid: str) -> dict[str, Any]:
        if jid == JIDS[1] and len(slept) < 3:
            raise RuntimeError(f"{jid}/.minions.p does not exist")
        return {"Minions": ["a", "b"]}

    found = list(salt_side.saved(get_load, [(jid, "test.ping") for jid in JIDS], slept.append))
    assert found == [AcceptedJob(jid, "test.ping", 2) for jid in JIDS]
    assert slept == [salt_side.PAUSE_S] * 3


def test_job_whose_master_was_stopped() -> None:
    """A job without its minions was never published, and its id never given out: it is not an accepted one."""
    slept: list[float] = []

    def get_load(jid: str) -> dict[str, Any]:
        if jid == JIDS[0]:
            raise RuntimeError(f"{jid}/.minions.p does not exist")
        return {"Minions": ["a"]}

    found = list(salt_side.saved(get_load, [(jid, "test.ping") for jid in JIDS[:2]], slept.append))
    assert found == [AcceptedJob(JIDS[1], "test.ping", 1)]
    assert slept == [salt_side.PAUSE_S] * (salt_side.TRIES - 1)


def test_job_cache_that_does_not_answer() -> None:
    """A job cache that is broken is no reason to count fewer jobs: what it raises comes out."""
    slept: list[float] = []

    def get_load(jid: str) -> dict[str, Any]:
        raise ConnectionError(f"no database to look {jid} up in")

    with pytest.raises(ConnectionError):
        list(salt_side.saved(get_load, [(JIDS[0], "test.ping")], slept.append))
    assert len(slept) == salt_side.TRIES - 1
