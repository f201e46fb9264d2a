"""What a master keeps of returns, on stock and patched: the same files, the same words in the log."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions import TRANSPORTS, Transport
from harness.bed import Bed, BedSettings
from harness.saltprocess.patched import Pump
from tests.live.helpers.handler_bed import Client
from tests.live.helpers.returning import folder, kept, name, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MINIONS = 3
MANY = 1000
READY_S = 90.0
UNKNOWN = "20200101000000000000"
# the job that both masters get in a test that compares them
JID = "20300101000000000000"
RETURNER = Path(__file__).parents[1] / "helpers" / "noted_returner.py"
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


@pytest.fixture(params=["stock", "salt"])
def tree(request: pytest.FixtureRequest, root: Path, stock: Path) -> Path:
    """Return the tree that the master runs."""
    return stock if request.param == "stock" else root / request.param


@pytest.fixture(params=OPTIONS)
def bed(request: pytest.FixtureRequest, tree: Path, tmp_path: Path) -> Iterator[Bed]:
    """Yield a bed whose master logs everything that it says of returns."""
    options = {"log_level_logfile": "debug", "worker_threads": 2, **OPTIONS[request.param]}
    settings = BedSettings(
        tree=tree, folder=tmp_path / "bed", master_options=options, pillar="none", postgres="none", api=None
    )
    with Bed(settings) as found:
        yield found


@pytest.fixture
def pump(bed: Bed, tmp_path: Path) -> Iterator[Pump]:
    """Yield minions that return what they are told to."""
    with Pump(bed, MINIONS, tmp_path / "pump") as found:
        yield found


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
    settings = BedSettings(tree=root / "salt", folder=tmp_path / "bed", pillar="none", postgres="none", api=None)
    with Bed(settings) as bed, Pump(bed, 100, tmp_path / "pump") as pump:
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
    settings = BedSettings(tree=tree, folder=tmp_path / "bed", pillar="none", postgres="none", api=None)
    with Bed(settings) as bed, Pump(bed, 1, tmp_path / "pump") as pump:
        jid = publish(bed)
        (folder(bed, jid) / name(0)).mkdir()
        pump.ask(0, jid)
        there = f"{name(0)}/return.p" in kept(bed, jid)
        words = said(bed)
    assert (there, words["could not be read for comparison"]) == ((False, 1) if tree == stock else (True, 0))


@pytest.mark.parametrize("option", ["master_job_cache", "ext_job_cache"])
def test_other_job_caches(tree: Path, tmp_path: Path, option: str) -> None:
    """A returner that is the job cache, or an external one, is called as often and with the same as by stock."""
    modules = tmp_path / "modules"
    modules.mkdir()
    shutil.copy(RETURNER, modules / "noted.py")
    options = {option: "noted", "returner_dirs": [str(modules)], "job_cache_store_endtime": True}
    settings = BedSettings(
        tree=tree, folder=tmp_path / "bed", master_options=options, pillar="none", postgres="none", api=None
    )
    with Bed(settings) as bed, Pump(bed, MINIONS, tmp_path / "pump") as pump:
        assert publish(bed, JID) == JID
        pump.returns(JID)
        pump.ask(0, JID)
        pump.ask(1, UNKNOWN, **{"return": "late"})
        lines = (bed.master.cache_dir / "noted.jsonl").read_text(encoding="utf-8").splitlines()
        files = kept(bed, JID)
    calls = Counter(tuple(map(str, json.loads(line))) for line in lines)
    minions = str([name(number) for number in range(MINIONS)])
    returns = Counter([("returner", JID, name(number), "True") for number in (0, *range(MINIONS))])
    returns[("returner", UNKNOWN, name(1), "late")] += 1
    saved = Counter([("save_load", JID, "test.ping", minions)])
    if option == "ext_job_cache":
        # it is the minions that return to that one, and the master's own keeps a job's name alone
        assert calls == saved
        assert set(files) == {"jid", ".load.p", ".minions.p"}
    else:
        prepared = Counter({("prep_jid", JID, "False"): 1 + MINIONS + 1, ("prep_jid", UNKNOWN, "False"): 1})
        ended = Counter({("update_endtime", JID): MINIONS + 1, ("update_endtime", UNKNOWN): 1})
        # each return saves the load again, as nobody knows whether this returner has it
        again = Counter({("save_load", JID, "test.ping", "None"): MINIONS + 1})
        again[("save_load", UNKNOWN, "test.ping", "None")] += 1
        assert calls == saved + prepared + ended + again + returns
        assert not files


def test_a_thousand_returns_leave_the_same_files(root: Path, stock: Path, tmp_path: Path) -> None:
    """The folder of a job holds the same names with the same content as on stock, with five workers at it."""
    found = []
    for number, tree in enumerate((stock, root / "salt")):
        settings = BedSettings(tree, tmp_path / f"bed-{number}", pillar="none", postgres="none", api=None)
        with Bed(settings) as bed, Pump(bed, MANY, tmp_path / "pump") as pump:
            assert publish(bed, JID) == JID
            pump.returns(JID)
            found.append((kept(bed, JID), sorted(str(one.name) for one in folder(bed, JID).iterdir())))
    assert found[0] == found[1]
    assert len(found[1][0]) == MANY + len(["jid", ".load.p", ".minions.p"])


def test_readers_meanwhile(tree: Path, tmp_path: Path) -> None:
    """While returns come, `lookup_jid`, `list_job` and `active` tell whole answers, never fewer than before."""
    settings = BedSettings(tree=tree, folder=tmp_path / "bed", pillar="none", postgres="none", api=None)
    with Bed(settings) as bed, Pump(bed, MANY, tmp_path / "pump") as pump:
        jid, done = publish(bed), threading.Event()

        def pump_all() -> None:
            pump.returns(jid)
            done.set()

        def ask(*words: str) -> dict[str, Any]:
            asked = bed.salt_run([*words, "--out=json"])
            assert asked.returncode == 0, asked.stderr
            assert "Traceback" not in asked.stderr
            answer: dict[str, Any] = json.loads(asked.stdout)
            return answer

        pumping_all = threading.Thread(target=pump_all)
        pumping_all.start()
        seen = [0]
        over = False
        while not over:
            over = done.is_set()
            found = ask("jobs.lookup_jid", jid)
            assert set(found.values()) <= {True}
            seen.append(len(found))
            result = ask("jobs.list_job", jid)["Result"]
            assert all(one == {"return": True, "retcode": 0, "success": True} for one in result.values())
            seen.append(len(result))
            # of minions that are not there nobody says that he runs it
            assert ask("jobs.active") == {}
        pumping_all.join()
        words = said(bed)
    assert seen == sorted(seen)
    assert seen[-1] == MANY
    assert words["Error in function"] == 0


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_other_transports(tree: Path, tmp_path: Path, transport: Transport) -> None:
    """Over tcp and ws a job of simulated minions leaves the same files."""
    settings = BedSettings(
        tree=tree,
        folder=tmp_path / "bed",
        transport=transport,
        minions=MINIONS,
        pillar="none",
        postgres="none",
        api=None,
    )
    with Bed(settings) as bed:
        fleet = bed.start_fleet()
        fleet.wait_ready(READY_S)
        with Client(bed) as client:
            answers = client.do("cmd", tgt="*", fun="test.ping", timeout=60, jid=JID)
        assert answers == dict.fromkeys(settings.minion_ids(), True)
        found = kept(bed, JID)
        fleet.stop()
    returns = {f"{one}/return.p" for one in settings.minion_ids()}
    assert set(found) == {"jid", ".load.p", ".minions.p"} | returns
    assert all(found[one] == {"return": True, "retcode": 0, "success": True} for one in returns)
