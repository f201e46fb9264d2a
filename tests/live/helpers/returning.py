"""What a bed's master keeps of the returns that `harness.saltprocess.pump` sends."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgpack

from tests.live.helpers.handler_bed import Client

if TYPE_CHECKING:
    from pathlib import Path

    from harness.bed import Bed


# how the name begins of what is not in the job cache yet
UNFINISHED = ".___atomic_write"


def name(number: int) -> str:
    """Return the id of a minion."""
    return f"pump-{number:05d}"


def folder(bed: Bed, jid: str) -> Path:
    """Return the folder of a job."""
    digest = hashlib.sha256(jid.encode()).hexdigest()
    return bed.master.job_cache / digest[:2] / digest[2:]


def kept(bed: Bed, jid: str) -> dict[str, object]:
    """Return all files of a job by name, with what is in them; of what a worker was writing when it died, the size."""
    place = folder(bed, jid)
    found: dict[str, object] = {}
    for path in place.rglob("*"):
        if path.is_file():
            content, file = path.read_bytes(), path.relative_to(place)
            whole = path.suffix == ".p" and not file.parts[0].startswith(UNFINISHED)
            found[str(file)] = msgpack.unpackb(content) if whole else len(content)
    return found


def publish(bed: Bed, jid: str = "") -> str:
    """Publish a ping to all, under this id if there is one, and return the job's id."""
    with Client(bed) as client:
        (found,) = client.do("async", tgt="*", fun="test.ping", count=1, jid=jid)
    return str(found)
