"""Batches that the master drives, as the files of its batch manager tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

from harness.bed.master import Master

if TYPE_CHECKING:
    from pathlib import Path

JIDS = [f"2026010203040500000{number}" for number in range(6)]


def _state(master: Master, jid: str, **changes: object) -> None:
    """Write the state of a batch as Salt's batch manager does; the live tests read those that Salt wrote."""
    folder = master.job_cache / jid[-2:] / jid
    folder.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {"jid": jid, "driver": "master", "halted": False, "pending": ["a"], "active": {}}
    (folder / ".batch.p").write_bytes(msgpack.packb(state | changes, unicode_errors="surrogateescape"))


def _list(master: Master, *jids: str) -> None:
    """Write the index of active batches."""
    (master.cache_dir / "batch_active.p").write_bytes(msgpack.packb(jids))


def test_batches_are_at_work_until_they_are_over(tmp_path: Path) -> None:
    """A batch with parts left is at work; one that is over, halted, a client's or spoilt is not."""
    master = Master(tmp_path, tmp_path / "log", 1, 2)
    assert master.running() == []
    waiting, over, halted, client, spoilt, unlisted = JIDS
    _state(master, waiting, arg=[{80: "x"}], done={"b": {"ret": "\udcff"}})
    _state(master, over, pending=[])
    _state(master, halted, halted=True)
    _state(master, client, driver="cli")
    _state(master, spoilt)
    _state(master, unlisted)
    (master.job_cache / spoilt[-2:] / spoilt / ".batch.p").write_bytes(b"")
    assert master.running() == []
    _list(master, waiting, over, halted, client, spoilt, "20260102030405999999")
    assert master.running() == [waiting]
    # what minions still have to answer keeps it at work after its last part
    _state(master, waiting, pending=[], active={"c": 1.0})
    assert master.running() == [waiting]
    _list(master)
    assert master.running() == []


def test_runners_and_batches_are_at_work(tmp_path: Path) -> None:
    """Both are the master's own jobs."""
    master = Master(tmp_path, tmp_path / "log", 1, 2)
    _state(master, JIDS[1])
    _list(master, JIDS[1])
    (master.cache_dir / "proc").mkdir()
    (master.cache_dir / "proc" / JIDS[0]).touch()
    (master.cache_dir / "proc" / "other").touch()
    assert master.running() == JIDS[:2]
