"""Minions that do nothing but return to a bed's master, and what it keeps of them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgpack

from benchmarks.contender import ROOT
from tests.live.handler_bed import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.bed import Bed


# how the name begins of what is not in the job cache yet
UNFINISHED = ".___atomic_write"


def name(number: int) -> str:
    """Return the id of a minion."""
    return f"pump-{number:05d}"


class Pump:
    """The minions of `benchmarks.return_pump`, in a process of their own, as Salt changes the one it is in."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take the process and wait until it is ready."""
        self._process = process
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the pump has ended; its traceback stands above"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def returns(self, jid: str) -> None:
        """Let all return a ping."""
        self._ask({"jid": jid})

    def insist(self, jid: str, patience: float) -> int:
        """Let all return a ping, each again and again after so many seconds without an answer; return the tries."""
        return int(self._ask({"jid": jid, "patience": patience})["tries"])

    def ask(self, number: int, jid: str, **load: object) -> None:
        """Let one return a ping, or what the load says else."""
        self._ask({"minion": number, "load": {"jid": jid, **load}})


@contextmanager
def pumping(bed: Bed, minions: int, folder: Path) -> Iterator[Pump]:
    """Start so many minions of a bed's master."""
    place = bed.master
    argv = [place.request_port, minions, folder, place.pki_dir, place.cache_dir]
    command = [sys.executable, "-m", "benchmarks.return_pump", *map(str, argv)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Pump(process)
        finally:
            process.kill()


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
