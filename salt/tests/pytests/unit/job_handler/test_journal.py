import os
import random
import shutil
import sqlite3
import stat

import pytest

import salt.job_handler.database
import salt.job_handler.job
import salt.job_handler.journal
import salt.job_handler.left_out
import salt.job_handler.manager
import salt.payload
import salt.utils.files

IDS = salt.payload.dumps(["a", "b", "c"], use_bin_type=True)


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """
    Opens the store, as often as a test likes.
    """
    stores = []

    def open_():
        stores.append(salt.job_handler.journal.Journal(str(tmp_path / "q"), clock))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


LOAD = {"fun": "test.ping", "arg": [b"\x00\xff", "ü", 1], "tgt": "*", "jid": "j"}


def _job(jid="j", count=3, **kwargs):
    return salt.job_handler.job.Job(
        None, jid, "test.ping", count, queued=900.0, **kwargs
    )


def _dispatch(job, minions, rest):
    job.minions, job.count = rest, len(rest)
    job.waves += 1
    return salt.job_handler.manager.Dispatch(job, minions, {}, not rest)


def test_jobs_survive(opened):
    job = _job(user="bob", sync=True, deadline=2000.0)
    assert opened().add("s1", job, IDS, LOAD)
    ((submission, found),) = opened().jobs()
    assert submission == "s1"
    for name in ("seq", "jid", "fun", "count", "user", "sync", "deadline", "queued"):
        assert getattr(found, name) == getattr(job, name)
    assert opened().load_of(found) == LOAD
    assert opened().minions_of(found) == ["a", "b", "c"]


def test_a_submission_is_kept_once(opened):
    store = opened()
    assert store.add("s", _job(), IDS, LOAD)
    assert not store.add("s", _job(), IDS, LOAD)
    assert len(store.jobs()) == 1


def test_equal_targets_are_kept_once(opened):
    store = opened()
    for number in range(10):
        store.add(f"s{number}", _job(f"j{number}"), IDS, LOAD)
    assert store.db.execute("SELECT count(*) FROM targets").fetchone() == (1,)


def test_waves(opened):
    """
    A wave is there with its load until it is marked as sent, and with its charges until
    these have come back.
    """
    store = opened()
    job = _job()
    store.add("s", job, IDS, LOAD)
    wave = store.dispatch(_dispatch(job, ["a"], ["b", "c"]), LOAD, 2, 950.0)
    assert opened().waves() == [(wave, job.seq, "j", 2, 950.0, ["a"], ["a"], LOAD)]
    ((_, rest),) = opened().jobs()
    assert (rest.count, rest.waves, store.minions_of(rest)) == (2, 1, ["b", "c"])
    store.sent([wave])
    assert opened().waves() == [(wave, job.seq, "j", 2, 950.0, ["a"], ["a"], None)]
    last = store.dispatch(_dispatch(job, ["b", "c"], []), LOAD, 2, 960.0)
    assert opened().jobs() == []
    store.settled(["j"])
    # what may not have been sent is not forgotten
    assert [row[0] for row in opened().waves()] == [last]
    store.failed(last, "again", job, LOAD, ["b", "c"])
    assert opened().waves() == []
    ((submission, found),) = opened().jobs()
    assert (submission, found.seq, found.count) == ("again", job.seq, 2)


def test_returns(opened):
    """
    Who has returned owes nothing after a crash, and is forgotten with the job.
    """
    store = opened()
    job = _job()
    store.add("s", job, IDS, LOAD)
    wave = store.dispatch(_dispatch(job, ["a", "b", "c"], []), LOAD, 1, 950.0)
    store.sent([wave])
    store.returned([("j", "a"), ("j", "c"), ("other", "b")])
    store.returned([("j", "a")])
    assert [row[5:7] for row in opened().waves()] == [(["a", "b", "c"], ["b"])]
    store.settled(["j", "other"])
    assert opened().waves() == []
    # another publication under the same job id
    store.dispatch(_dispatch(job, ["a"], []), LOAD, 1, 960.0)
    assert [row[6] for row in opened().waves()] == [["a"]]


def test_job_without_anybody_left(opened):
    store = opened()
    job = _job()
    store.add("s", job, IDS, LOAD)
    assert store.dispatch(_dispatch(job, [], []), None, 0, 950.0) is None
    assert (store.jobs(), store.waves()) == ([], [])


def test_answers_are_remembered_for_a_while(opened, clock):
    store = opened()
    store.answer("bob\n1", {"jid": "j"}, IDS)
    clock.now += 899
    store.clean()
    assert opened().answered("bob\n1") == {"jid": "j", "minions": ["a", "b", "c"]}
    assert store.answered("alice\n1") is None
    clock.now += 2
    store.clean()
    assert store.answered("bob\n1") is None


def test_snapshots(opened):
    opened().put_snapshot("x", {"limit": 7})
    assert opened().get_snapshot("x") == {"limit": 7}
    assert opened().get_snapshot("y") is None


def test_targets_nobody_needs_are_dropped(opened):
    store = opened()
    job = _job()
    store.add("s", job, IDS, LOAD)
    store.remove(job)
    store.clean()
    assert store.db.execute("SELECT count(*) FROM targets").fetchone() == (0,)


def test_only_the_masters_user_can_read_it(opened, tmp_path):
    store = opened()
    store.add("s", _job(), IDS, LOAD)
    for name in os.listdir(tmp_path / "q"):
        mode = stat.S_IMODE(os.stat(tmp_path / "q" / name).st_mode)
        assert mode == 0o600, name


def test_broken_database_is_put_aside(opened, tmp_path):
    opened().close()
    path = tmp_path / "q" / "queue.sqlite"
    for name in os.listdir(path.parent):
        os.unlink(path.parent / name)
    path.write_bytes(b"no database at all" * 100)
    store = opened()
    assert store.jobs() == []
    assert [name for name in os.listdir(path.parent) if "broken" in name]


def test_no_checkpoint_of_its_own(opened):
    """
    A checkpoint syncs to the disk, and belongs into a thread.
    """
    store = opened()
    assert store.db.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    store.add("s", _job(), IDS, LOAD)
    store.checkpoint()
    assert len(opened().jobs()) == 1


def test_failed_write_does_not_stop_the_next(opened):
    """
    A transaction that was begun and not ended would.
    """
    store = opened()
    with pytest.raises(sqlite3.Error):
        store.sent([object()])
    store.returned([("j", "a")])
    assert store.add("s", _job(), IDS, LOAD)


def test_jobs_of_before_loads_had_a_table(opened):
    store = opened()
    job = _job()
    store.add("s", job, IDS, LOAD)
    (info,) = store.db.execute("SELECT info FROM jobs").fetchone()
    info = {**salt.payload.loads(info), "load": LOAD}
    store.db.execute(
        "UPDATE jobs SET info = ?", (salt.payload.dumps(info, use_bin_type=True),)
    )
    store.db.execute("DELETE FROM loads")
    ((_, found),) = opened().jobs()
    assert opened().load_of(found) == LOAD


def test_the_log_of_the_database_does_not_grow(opened):
    store = opened()
    load = {**LOAD, "arg": ["x" * 1000000]}
    for number in range(20):
        store.add(f"s{number}", _job(f"j{number}"), IDS, load)
    assert store.log_bytes() > salt.job_handler.database.LOG_BYTES
    store.checkpoint()
    store.add("s", _job(), IDS, LOAD)
    assert store.log_bytes() <= salt.job_handler.database.LOG_BYTES


JOBS = 300


@pytest.fixture
def queue(opened):
    """
    Return the path of a database with jobs on many pages.
    """
    store = opened()
    for number in range(JOBS):
        load = {**LOAD, "arg": ["x" * 300, number]}
        ids = [f"m{each}" for each in range(number % 7 + 1)]
        job = _job(f"j{number}", len(ids))
        store.add(f"s{number}", job, salt.payload.dumps(ids, use_bin_type=True), load)
        salt.job_handler.left_out.add(store.db, job.jid, {ids[0]: f"{number}"}, 1)
    store.checkpoint()
    store.close()
    yield store.path
    # closed twice is fine
    store.db = sqlite3.connect(":memory:")


def _kinds(path):
    """
    Return the name of the table or index of each page.
    """
    db = sqlite3.connect(path)
    try:
        try:
            return dict(db.execute("SELECT pageno, name FROM dbstat"))
        except sqlite3.OperationalError:
            # SQLite was built without it
            return {}
    finally:
        db.close()


@pytest.mark.parametrize("how", ["zeros", "ones", "random", "neighbour"])
def test_each_page_damaged(queue, clock, tmp_path, how):
    """
    The job handler starts, keeps the damaged file, and keeps the jobs that can be read.
    """
    size = 4096
    with salt.utils.files.fopen(queue, "rb") as whole:
        pages = len(whole.read()) // size
    assert pages > 30
    content = {
        "zeros": bytes(size),
        "ones": b"\xff" * size,
        "random": random.Random(1).randbytes(size),
    }
    kinds = _kinds(queue)
    for page in range(pages):
        folder = tmp_path / f"page{page}"
        folder.mkdir()
        shutil.copy(queue, folder / "queue.sqlite")
        with salt.utils.files.fopen(folder / "queue.sqlite", "r+b") as damaged:
            damaged.seek(((page + 1) % pages) * size)
            other = damaged.read(size)
            damaged.seek(page * size)
            damaged.write(content.get(how, other))
        store = salt.job_handler.journal.Journal(str(folder), clock)
        kept = {job.jid for _, job in store.jobs()}
        aside = [name for name in os.listdir(folder) if "broken" in name]
        assert kept == {f"j{number}" for number in range(JOBS)} or aside, page
        # a page of the schema or of a root takes more with it
        kind = kinds.get(page + 1)
        if kind in ("loads", "jobs") and page > 12:
            assert len(kept) >= JOBS - 100, (page, kind)
        for _, job in store.jobs():
            assert store.load_of(job)["arg"][1] == int(job.jid[1:])
            assert len(store.minions_of(job)) == job.count
        store.close()
        shutil.rmtree(folder)


def test_nobody_else_reads_the_queue(opened, tmp_path):
    """
    Also where the folder and the file were there before, with other modes
    """
    folder = tmp_path / "q"
    folder.mkdir(mode=0o755)
    path = folder / salt.job_handler.database.NAME
    path.touch(mode=0o644)
    path.chmod(0o644)
    opened()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for one in folder.iterdir():
        assert stat.S_IMODE(one.stat().st_mode) == 0o600, one


def test_a_link_is_not_followed(opened, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "q").symlink_to(other)
    with pytest.raises(SystemExit, match="away"):
        opened()
    assert not list(other.iterdir())
    (tmp_path / "q").unlink()
    (tmp_path / "q").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SystemExit, match="away"):
        opened()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", ".broken-1"])
@pytest.mark.parametrize("what", ["link", "folder"])
def test_files_are_files(opened, tmp_path, suffix, what):
    """
    The error is one sentence that names the file, and nothing is written elsewhere.
    """
    name = salt.job_handler.database.NAME + suffix
    (tmp_path / "q").mkdir()
    path = tmp_path / "q" / name
    if what == "link":
        path.symlink_to(tmp_path / "victim")
    else:
        path.mkdir()
    with pytest.raises(SystemExit, match=f"^Move {path} away: "):
        opened()
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", ".broken-1", ".broken-1-wal"])
def test_files_that_are_there_are_narrowed(opened, tmp_path, suffix):
    opened().close()
    path = tmp_path / "q" / (salt.job_handler.database.NAME + suffix)
    path.touch()
    path.chmod(0o666)
    opened()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_of_somebody_else_is_refused(opened, tmp_path, monkeypatch):
    (tmp_path / "q").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SystemExit, match="away"):
        opened()


def test_few_damaged_databases_are_kept(opened, tmp_path):
    """
    Each has the arguments of jobs; two within a second are two.
    """
    path = tmp_path / "q" / salt.job_handler.database.NAME
    for number in range(5):
        opened().close()
        path.write_bytes(f"damage {number}".encode() * 1000)
    opened()
    kept = sorted(path.parent.glob("*.broken-*"))
    assert [one.read_bytes()[:8] for one in kept] == [b"damage 3", b"damage 4"]
