import os
import stat

import pytest

import salt.job_handler.job
import salt.job_handler.manager
import salt.job_handler.store
import salt.payload

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
        stores.append(salt.job_handler.store.JobStore(str(tmp_path / "q"), clock))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def _job(jid="j", count=3, **kwargs):
    load = {"fun": "test.ping", "arg": [b"\x00\xff", "ü", 1], "tgt": "*", "jid": jid}
    return salt.job_handler.job.Job(
        None, jid, "test.ping", count, load=load, queued=900.0, **kwargs
    )


def _dispatch(job, minions, rest):
    job.minions, job.count = rest, len(rest)
    job.waves += 1
    return salt.job_handler.manager.Dispatch(job, minions, {}, not rest)


def test_jobs_survive(opened):
    job = _job(user="bob", sync=True, deadline=2000.0)
    assert opened().add("s1", job, IDS)
    ((submission, found),) = opened().jobs()
    assert submission == "s1"
    for name in ("seq", "jid", "fun", "count", "user", "sync", "deadline", "queued"):
        assert getattr(found, name) == getattr(job, name)
    assert found.load == job.load
    assert opened().minions_of(found) == ["a", "b", "c"]


def test_a_submission_is_kept_once(opened):
    store = opened()
    assert store.add("s", _job(), IDS)
    assert not store.add("s", _job(), IDS)
    assert len(store.jobs()) == 1


def test_equal_targets_are_kept_once(opened):
    store = opened()
    for number in range(10):
        store.add(f"s{number}", _job(f"j{number}"), IDS)
    assert store.db.execute("SELECT count(*) FROM targets").fetchone() == (1,)


def test_waves(opened):
    """
    A wave is there with its load until it is marked as sent, and with its charges until
    these have come back.
    """
    store = opened()
    job = _job()
    store.add("s", job, IDS)
    wave = store.dispatch(_dispatch(job, ["a"], ["b", "c"]), job.load, 2, 950.0)
    assert opened().waves() == [(wave, job.seq, "j", 2, 950.0, ["a"], ["a"], job.load)]
    ((_, rest),) = opened().jobs()
    assert (rest.count, rest.waves, store.minions_of(rest)) == (2, 1, ["b", "c"])
    store.sent([wave])
    assert opened().waves() == [(wave, job.seq, "j", 2, 950.0, ["a"], ["a"], None)]
    last = store.dispatch(_dispatch(job, ["b", "c"], []), job.load, 2, 960.0)
    assert opened().jobs() == []
    store.settled(["j"])
    # what may not have been sent is not forgotten
    assert [row[0] for row in opened().waves()] == [last]
    job.minions, job.count = ["b", "c"], 2
    store.failed(last, "again", job)
    assert opened().waves() == []
    ((submission, found),) = opened().jobs()
    assert (submission, found.seq, found.count) == ("again", job.seq, 2)


def test_returns(opened):
    """
    Who has returned owes nothing after a crash, and is forgotten with the job.
    """
    store = opened()
    job = _job()
    store.add("s", job, IDS)
    wave = store.dispatch(_dispatch(job, ["a", "b", "c"], []), job.load, 1, 950.0)
    store.sent([wave])
    store.returned([("j", "a"), ("j", "c"), ("other", "b")])
    store.returned([("j", "a")])
    assert [row[5:7] for row in opened().waves()] == [(["a", "b", "c"], ["b"])]
    store.settled(["j", "other"])
    assert opened().waves() == []
    # another publication under the same job id
    store.dispatch(_dispatch(job, ["a"], []), job.load, 1, 960.0)
    assert [row[6] for row in opened().waves()] == [["a"]]


def test_job_without_anybody_left(opened):
    store = opened()
    job = _job()
    store.add("s", job, IDS)
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
    store.add("s", job, IDS)
    store.remove(job)
    store.clean()
    assert store.db.execute("SELECT count(*) FROM targets").fetchone() == (0,)


def test_only_the_masters_user_can_read_it(opened, tmp_path):
    store = opened()
    store.add("s", _job(), IDS)
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
    store.add("s", _job(), IDS)
    store.checkpoint()
    assert len(opened().jobs()) == 1
