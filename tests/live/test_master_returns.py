"""What a master keeps of returns, on stock and patched: the same files, the same words in the log."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from benchmarks.contender import ROOT
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MINIONS = 3
UNKNOWN = "20200101000000000000"
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "endtime": {"job_cache_store_endtime": True},
    "no cache": {"job_cache": False},
    "async": {"master_async_mworker": True},
    "tcp bus": {"ipc_mode": "tcp"},
}
WORDS = (
    "payload matches the cached return",
    "*differing* payload",
    "could not be read for comparison",
    "An inconsistency occurred",
    "Error in function",
)


def name(number: int) -> str:
    """Return the id of a minion."""
    return f"pump-{number:05d}"


class Pump:
    """The minions of `benchmarks.return_pump`, in a process of their own, as Salt changes the one it is in."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take the process and wait until it is ready."""
        self._process = process
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline(), "the pump has ended; its traceback stands above"

    def _ask(self, question: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        self._answer()

    def returns(self, jid: str) -> None:
        """Let all return a ping."""
        self._ask({"jid": jid})

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


@pytest.fixture(params=["stock", "salt"])
def tree(request: pytest.FixtureRequest, root: Path, stock: Path) -> Path:
    """Return the tree that the master runs."""
    return stock if request.param == "stock" else root / request.param


@pytest.fixture(params=OPTIONS)
def bed(request: pytest.FixtureRequest, tree: Path, tmp_path: Path) -> Iterator[Bed]:
    """Yield a bed whose master logs everything that it says of returns."""
    options = {"log_level_logfile": "debug", "worker_threads": 2, **OPTIONS[request.param]}
    settings = BedSettings(
        tree=tree, folder=tmp_path / "bed", master_options=options, pillar="none", postgres="none", api=False
    )
    with Bed(settings) as found:
        yield found


@pytest.fixture
def pump(bed: Bed, tmp_path: Path) -> Iterator[Pump]:
    """Yield minions that return what they are told to."""
    with pumping(bed, MINIONS, tmp_path / "pump") as found:
        yield found


def folder(bed: Bed, jid: str) -> Path:
    """Return the folder of a job."""
    digest = hashlib.sha256(jid.encode()).hexdigest()
    return bed.master.job_cache / digest[:2] / digest[2:]


def kept(bed: Bed, jid: str) -> dict[str, object]:
    """Return all files of a job by name, with what is in them."""
    place = folder(bed, jid)
    files = [path for path in place.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(place)): (
            msgpack.unpackb(path.read_bytes()) if path.suffix == ".p" else len(path.read_bytes())
        )
        for path in files
    }


def publish(bed: Bed) -> str:
    """Publish a ping to all and return the job's id."""
    return bed.salt(["--async", "*", "test.ping"]).stdout.strip().rpartition(" ")[2]


def said(bed: Bed) -> dict[str, int]:
    """Return how often the master's log has each of the words."""
    log = bed.master.log.read_text()
    return {words: log.count(words) for words in WORDS}


def test_what_is_kept_and_said(bed: Bed, pump: Pump) -> None:
    """Returns, duplicates, unknown jobs and jobs that were cleaned leave the files and words that stock leaves."""
    config = (bed.master.config_dir / "master").read_text(encoding="utf-8")
    cached = "job_cache: false" not in config
    endtime = {"endtime"} if "job_cache_store_endtime" in config else set[str]()
    jid = publish(bed)
    pump.returns(jid)
    one = {"return": True, "retcode": 0, "success": True}
    found = kept(bed, jid)
    assert {path: value for path, value in found.items() if path.endswith("return.p")} == (
        {f"{name(number)}/return.p": one for number in range(MINIONS)} if cached else {}
    )
    returns = {f"{name(number)}/return.p" for number in range(MINIONS)} if cached else set()
    assert set(found) == {"jid", ".load.p", ".minions.p"} | returns | endtime

    # the same again, then something else
    pump.ask(0, jid)
    pump.ask(0, jid, **{"return": False})
    assert kept(bed, jid) == found
    words = said(bed)
    assert words["payload matches the cached return"] == cached
    assert words["*differing* payload"] == cached

    # a job that the master does not know, and one that was cleaned a moment ago
    for other in (UNKNOWN, jid):
        shutil.rmtree(folder(bed, other), ignore_errors=True)
        pump.ask(1, other, out="nested")
        again = kept(bed, other)
        wanted = {"jid", ".load.p", f"{name(1)}/return.p", f"{name(1)}/out.p"} if cached else {"jid"}
        assert set(again) == wanted | endtime
        if cached:
            assert again[f"{name(1)}/return.p"] == one
            assert again[f"{name(1)}/out.p"] == "nested"

    # a job of nobody's is made for a return that asks for one
    pump.ask(2, "req", **{"return": "alone"})
    jids = {path.read_text() for path in bed.master.job_cache.glob("*/*/jid")}
    (alone,) = [one for one in jids if (folder(bed, one) / name(2)).is_dir() and one != jid] if cached else [""]
    if cached:
        assert kept(bed, alone)[f"{name(2)}/return.p"] == {**one, "return": "alone"}

    # nocache
    quiet = publish(bed)
    (folder(bed, quiet) / "nocache").touch()
    pump.returns(quiet)
    assert not [path for path in kept(bed, quiet) if path.endswith("return.p")]
    assert words["An inconsistency occurred"] == words["Error in function"] == 0


def test_jobs_are_cleaned_meanwhile(root: Path, tmp_path: Path) -> None:
    """While job folders vanish again and again every return is answered, and the job can be kept afterwards.

    Stock acknowledges them too, but keeps one for each worker: the job has a load without a list of minions then.
    """
    settings = BedSettings(tree=root / "salt", folder=tmp_path / "bed", pillar="none", postgres="none", api=False)
    with Bed(settings) as bed, pumping(bed, 100, tmp_path / "pump") as pump:
        jid, stop = publish(bed), threading.Event()

        def clean() -> None:
            while not stop.wait(0.02):
                shutil.rmtree(folder(bed, jid), ignore_errors=True)

        cleaner = threading.Thread(target=clean)
        cleaner.start()
        try:
            for _ in range(5):
                pump.returns(jid)
        finally:
            stop.set()
            cleaner.join()
        shutil.rmtree(folder(bed, jid), ignore_errors=True)
        pump.returns(jid)
        found = kept(bed, jid)
    assert sum(path.endswith("return.p") for path in found) == 100
    assert not [path for path in found if "atomic" in path]


def test_second_try_after_a_worker_was_killed(tree: Path, stock: Path, tmp_path: Path) -> None:
    """A worker that is killed while it keeps a return leaves a folder; the minion's second try is acknowledged.

    Stock takes it for a duplicate and keeps nothing: acknowledged on its second attempt, and not in the job cache.
    """
    settings = BedSettings(tree=tree, folder=tmp_path / "bed", pillar="none", postgres="none", api=False)
    with Bed(settings) as bed, pumping(bed, 1, tmp_path / "pump") as pump:
        jid = publish(bed)
        (folder(bed, jid) / name(0)).mkdir()
        pump.ask(0, jid)
        there = f"{name(0)}/return.p" in kept(bed, jid)
        words = said(bed)
    assert (there, words["could not be read for comparison"]) == ((False, 1) if tree == stock else (True, 0))
