"""
The job handler ends at any moment, as ``kill -9`` would end it, and another one goes on.
"""

# pylint: disable=protected-access

import asyncio
import errno
import os
import random
import sqlite3
import stat

import pytest

import salt.job_handler
import salt.job_handler.client
import salt.job_handler.queue
import salt.job_handler.store
import salt.payload
import salt.utils.event
from tests.pytests.functional.job_handler.conftest import (
    MINIONS,
    POSTGRESQL,
    request,
    sqlite_only,
)
from tests.support.mock import MagicMock, patch


def test_queue_is_taken_over(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", MINIONS[:5], request=request(priority=2))
        await setup.land()
        await setup.stop()
        handler = await setup.start()
        assert handler.leases.occupied == 10
        assert [job.jid for job in handler.queue] == ["2"]
        assert next(iter(handler.queue)).priority == 2
        setup.returns("1", *MINIONS[:10])
        await setup.tick(1)

    asyncio.run(run())
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "2"]


def test_what_may_not_have_been_sent_is_sent_again(setup):
    """
    Under the same job id, and not to minions that have returned. That a minion has
    connected again is no reason to leave it out.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:5])
        setup.returns("1", "m00")
        await setup.tick()
        await setup.stop()
        handler = await setup.start()
        handler.maintenance.started("m01")
        await setup.tick()
        return handler

    handler = asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*"), ("1", MINIONS[1:5])]
    assert sorted(handler.leases.jobs["1"]) == MINIONS[1:5]


def test_what_has_been_sent_is_not_sent_again(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:5])
        await setup.land()
        await setup.stop()
        await setup.start()
        await setup.tick()

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


@pytest.mark.parametrize("how", ["late", "cancelled", "paused"])
def test_what_is_not_sent_again(setup, how):
    """
    Minions that were started meanwhile would run a job twice: a master that reboots itself
    by a job would do so for ever.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:5], fun="system.reboot")
        await setup.stop()
        if how == "late":
            setup.clock.now += 61
        handler = await setup.start("another master")
        if how == "cancelled":
            await handler.dispatcher.cancel("1", None)
        if how == "paused":
            handler.queue.rules.pause({})
        for _ in range(10):
            await setup.tick(10)

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


@sqlite_only
def test_database_that_is_replaced(setup):
    """
    The job handler ends, and the next one takes over what is there.
    """

    async def run():
        handler = await setup.start()
        os.rename(handler.store.path, f"{handler.store.path}.away")
        await setup.publish("1", ["m00"])
        with pytest.raises(SystemExit):
            await setup.tick()
        await setup.stop()
        await setup.start()
        await setup.tick()

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


def test_job_of_which_nothing_was_published(setup):
    """
    All of its minions were left out when the job handler ended.
    """

    async def run():
        await setup.start()
        for jid in ("1", "2", "3"):
            await setup.publish(jid, ["m00"])
        await setup.stop()
        await setup.start()
        return setup.states()["3"]

    assert asyncio.run(run()) == "done"


def test_rest_that_is_cancelled_while_a_wave_may_not_have_been_sent(setup):
    """
    The wave is sent again, and the rest is not.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS)
        await setup.handler.dispatcher.cancel("1", None)
        await setup.handler.clean()
        await setup.stop()
        handler = await setup.start()
        await setup.tick()
        setup.returns("1", *MINIONS[:10])
        await setup.land()
        await setup.land()
        await handler.clean()
        return handler.store.load_of(1), setup.states()

    load, states = asyncio.run(run())
    first, second = setup.bus.jobs()
    assert first == second
    assert load is None
    assert states == {"1": "cancelled"}


def _answer_all(setup):
    """
    A minion answers all questions: it runs nothing.
    """
    for question in setup.bus.questions():
        tag = f"salt/job/{question['jid']}/ret/m00{salt.utils.event.TAGEND}"
        data = salt.payload.dumps({"id": "m00", "return": []})
        setup.handler.maintenance.hear(tag.encode() + data)


async def _pause_after_restart(setup, seconds):
    await setup.start()
    await setup.publish("1", ["m00"])
    await setup.stop()
    handler = await setup.start()
    handler.queue.rules.pause({})
    for _ in range(seconds // 5):
        await setup.tick(5)
        _answer_all(setup)
    assert len(setup.bus.jobs()) == 1
    return handler


def test_wave_that_may_not_have_been_sent_outlasts_a_pause(setup):
    """
    Its minions say that they do not run the job, as nobody has sent it to them yet.
    """

    async def run():
        handler = await _pause_after_restart(setup, 50)
        assert handler.leases.has("1", "m00")
        handler.queue.rules.resume({})
        await setup.tick(1)
        assert setup.bus.jobs() == [("1", "*")] * 2
        # from now on they are asked for it
        for _ in range(40):
            await setup.tick(5)
            _answer_all(setup)
        return handler.leases.has("1", "m00")

    assert not asyncio.run(run())


def test_wave_that_may_not_have_been_sent_is_too_old_after_a_pause(setup, caplog):
    """
    It was young when the job handler began. Its minions are asked whether they got it.
    """

    async def run():
        handler = await _pause_after_restart(setup, 70)
        handler.queue.rules.resume({})
        for _ in range(40):
            await setup.tick(5)
            _answer_all(setup)
        return setup.states()

    assert asyncio.run(run()) == {"1": "done"}
    assert setup.bus.jobs() == [("1", "*")]
    assert "may not have been sent to m00" in caplog.text


def test_wave_that_may_not_have_been_sent_is_cancelled(setup):
    """
    Its minions are asked whether they got it.
    """

    async def run():
        handler = await _pause_after_restart(setup, 50)
        await handler.dispatcher.cancel("1", None)
        for _ in range(40):
            await setup.tick(5)
            _answer_all(setup)
        return handler.leases.has("1", "m00"), setup.states()

    assert asyncio.run(run()) == (False, {"1": "done"})
    assert setup.bus.jobs() == [("1", "*")]


def test_minions_with_resources_get_nothing_twice(setup, resources):
    async def run():
        await setup.start()
        await setup.publish("1", ["m03"])
        await setup.stop()
        await setup.start()
        await setup.tick()

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


def test_restarted_master_waits_for_its_minions(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", MINIONS[:1])
        await setup.land()
        await setup.stop()
        handler = await setup.start("another master")
        setup.returns("1", *MINIONS[:10])
        await setup.tick(2 if POSTGRESQL else 20)
        before = [jid for jid, _ in setup.bus.jobs()]
        reason = handler.report.jobs(setup.clock())[0]["reason"]
        await setup.tick(30)
        return before, reason

    before, reason = asyncio.run(run())
    assert before == ["1"]
    assert "restarted" in reason
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "2"]


def test_caller_does_not_wait_for_minions_to_find_a_restarted_master(setup):
    """
    Only jobs that nobody waits for do, and they hold up no other.
    """

    async def run():
        await setup.start()
        await setup.stop()
        await setup.start("another master")
        await setup.publish("1", ["m00"])
        await setup.publish("2", ["m01"], request=request(sync=True))
        before = [jid for jid, _ in setup.bus.jobs()]
        await setup.tick(35)
        return before

    assert asyncio.run(run()) == ["2"]
    assert [jid for jid, _ in setup.bus.jobs()] == ["2", "1"]


def test_limit_holds_at_once(setup):
    """
    Nothing goes out before the leases are known.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.stop()
        await setup.start()
        answer = await setup.publish("2", MINIONS[:5])
        return answer["load"]["job_handler"]["waiting"]

    assert asyncio.run(run()) == 5


@pytest.mark.parametrize("seed", range(6))
def test_restart_at_every_moment(setup, seed):
    """
    No job is lost, and none is published to a minion under two job ids or after it has
    returned.
    """
    rand = random.Random(seed)
    sent, returned, jobs = {}, set(), {}

    def look():
        """
        Take note of what was published.
        """
        for jid, target in setup.bus.jobs():
            minions = jobs[jid] if target == "*" else target
            for minion in minions:
                assert (jid, minion) not in returned
                sent[jid, minion] = True
        setup.bus.published.clear()

    async def run():
        await setup.start()
        for number in range(120):
            kind = rand.random()
            if kind < 0.4:
                jid = f"j{number}"
                jobs[jid] = sorted(rand.sample(MINIONS, rand.choice((1, 3, 20))))
                await setup.publish(jid, jobs[jid], request=request(jid))
                again = await setup.publish("no", jobs[jid], request=request(jid))
                assert again["load"]["jid"] == jid
            elif kind < 0.75:
                look()
                for jid, held in list(setup.handler.leases.jobs.items()):
                    for minion in list(held):
                        if rand.random() < 0.5 and (jid, minion) in sent:
                            setup.returns(jid, minion)
                            returned.add((jid, minion))
            else:
                await setup.tick(rand.choice((0, 0.5, 4)))
            if rand.random() < 0.2:
                look()
                await setup.stop()
                await setup.start()
                # returns that were not written down come again, or the minions are asked
                for jid, minion in returned:
                    setup.returns(jid, minion)
        for _ in range(200):
            look()
            for jid, held in list(setup.handler.leases.jobs.items()):
                for minion in list(held):
                    setup.returns(jid, minion)
                    returned.add((jid, minion))
            await setup.tick(1)
        look()
        assert len(setup.handler.queue) == 0
        for jid, minions in jobs.items():
            left_out = setup.handler.store.left_out(jid)
            for minion in minions:
                assert ((jid, minion) in sent) != (minion in left_out), (jid, minion)

    asyncio.run(run())
    assert len(jobs) > 20


# ----------------------------------------------------------------------
# The store
# ----------------------------------------------------------------------


@sqlite_only
def test_only_the_user_of_the_master_reads_it(setup):
    asyncio.run(setup.start())
    folder = salt.job_handler.store.folder(setup.opts)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    for name in os.listdir(folder):
        assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600


@pytest.mark.parametrize("name", ["job_handler", "job_handler/jobs.sqlite"])
def test_link_in_its_place(setup, name):
    path = os.path.join(setup.opts["cachedir"], name)
    if "/" in name:
        os.mkdir(os.path.dirname(path), mode=0o700)
    os.symlink("/tmp", path)
    with pytest.raises(salt.job_handler.store.StoreError, match="can't be used"):
        salt.job_handler.store.Store(setup.opts)


@sqlite_only
def test_masters_that_share_a_cachedir(setup):
    first = salt.job_handler.store.folder({**setup.opts, "cluster_id": "c", "id": "a"})
    second = salt.job_handler.store.folder({**setup.opts, "cluster_id": "c", "id": "b"})
    assert first != second


@sqlite_only
def test_newer_version(setup):
    """
    It is refused, and nothing of it changes.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS)
        handler.store.db.execute("PRAGMA user_version = 99")
        await setup.stop()
        salt.job_handler.handover._stores.clear()
        with pytest.raises(salt.job_handler.store.StoreError, match="version 99"):
            await setup.start()

    asyncio.run(run())
    db = sqlite3.connect(
        os.path.join(salt.job_handler.store.folder(setup.opts), "jobs.sqlite")
    )
    assert db.execute("SELECT jid FROM jobs").fetchall() == [("1",)]


@sqlite_only
@pytest.mark.parametrize("where", ["header", "middle", "row"])
def test_damaged_database(setup, where):
    """
    The job handler goes on with what can be read, and one damaged database is kept.
    """

    ticks = iter(range(60))

    async def tick():
        if next(ticks, None) is None:
            pytest.fail("the damaged row was not read")
        await setup.tick(1)
        for jid in list(setup.handler.leases.jobs):
            setup.returns(jid, *MINIONS[:10])

    async def run():
        handler = await setup.start()
        await setup.publish("0", MINIONS[:10])
        for number in range(1, 60):
            await setup.publish(str(number), MINIONS[:10], arg=["x" * 300])
        await setup.land()
        if where == "row":
            handler.store.db.execute("UPDATE jobs SET load = 'x' WHERE jid = '7'")
        handler.store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path = handler.store.path
        for _ in range(1 if where == "row" else 2):
            await setup.stop()
            salt.job_handler.handover._stores.clear()
            if where != "row":
                with salt.utils.files.fopen(path, "r+b") as damaged:
                    damaged.seek(0 if where == "header" else 40 * 1024)
                    damaged.write(b"\xff" * 4096)
            handler = await setup.start()
            if where == "row":
                setup.returns("0", *MINIONS[:10])
                with pytest.raises(SystemExit):
                    await handler._every(0, tick)
                await setup.stop()
                handler = await setup.start()
        return handler, path

    handler, path = asyncio.run(run())
    handler.store.check()
    assert {job.jid for job in handler.queue} <= {str(number) for number in range(60)}
    if where != "header":
        assert len(handler.queue) > 10
    aside = [name for name in os.listdir(os.path.dirname(path)) if "damaged" in name]
    assert "jobs.sqlite.damaged" in aside
    assert len([name for name in aside if name.endswith("damaged")]) == 1


@sqlite_only
def test_rest_of_a_damaged_database(setup, caplog):
    """
    One row that can't be read costs its job alone, which the log names.
    """

    async def run():
        handler = await setup.start()
        handler.queue.rules.pause({"user": "bob"})
        handler.dispatcher.order("third", 5)
        for name in ("first", "second"):
            await setup.publish(name, MINIONS[:6], request=request(name))
        await setup.publish("lost", MINIONS[:6])
        await setup.land()
        setup.returns("first", "m00")
        await setup.tick()
        handler.store.db.execute("UPDATE jobs SET load = 'x' WHERE jid = 'lost'")
        await setup.stop()
        salt.job_handler.handover._stores.clear()
        salt.job_handler.store.set_aside(setup.opts, "damaged")
        handler = await setup.start()
        again = await setup.publish("third", MINIONS[:6], request=request("second"))
        assert again["load"]["jid"] == "second"
        assert sorted(handler.leases.jobs["first"]) == MINIONS[1:6]
        assert [rule["user"] for rule in handler.queue.rules.pauses] == ["bob"]
        return [job.jid for job in handler.queue]

    assert asyncio.run(run()) == ["second"]
    assert "Lost is: lost;" in caplog.text


@sqlite_only
@pytest.mark.parametrize(
    "statement",
    ["UPDATE meta SET value = 'x' WHERE name = 'kept'", "UPDATE targets SET ids = 'x'"],
)
def test_damage_that_only_the_start_meets(setup, statement):
    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"])
        assert handler.store.take_back(1, "direct")
        handler.store.db.execute(statement)
        await setup.stop()
        salt.job_handler.handover._stores.clear()
        await setup.start()
        await setup.publish("2", ["m00"])

    asyncio.run(run())
    assert setup.states()["2"] == "running"


@sqlite_only
@pytest.mark.parametrize(
    "error", [sqlite3.IntegrityError("NOT NULL"), sqlite3.InterfaceError("a type")]
)
def test_no_damage(setup, error):
    """
    What could not be written for another reason leaves the database as it is.
    """
    errors = iter([error, salt.job_handler.store.StoreError("the end")])

    def fail():
        raise next(errors)

    async def run():
        handler = await setup.start()
        with pytest.raises(salt.job_handler.store.StoreError):
            await handler._every(0, fail)
        return handler.store.replaced()

    assert asyncio.run(run()) is False


@sqlite_only
def test_turned_off(setup):
    """
    What waits ends with a reason, and nothing comes back when it is turned on again.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", MINIONS[:2])
        await setup.land()
        await setup.stop()
        salt.job_handler.handover._stores.clear()
        section = setup.opts["rate_limiting"]
        setup.opts["rate_limiting"] = {}
        processes = MagicMock()
        salt.job_handler.add_process(setup.opts, processes)
        assert not processes.add_process.called
        setup.opts["rate_limiting"] = section
        handler = await setup.start()
        assert (len(handler.queue), handler.leases.occupied) == (0, 0)
        return handler.store.left_out("2")

    sentence = salt.job_handler.queue.SENTENCES[salt.job_handler.queue.OFF]
    assert asyncio.run(run()) == dict.fromkeys(MINIONS[:2], sentence)


@pytest.mark.parametrize("jump", [-90000, 90000])
def test_clock_of_the_machine_jumps(setup, jump, monkeypatch):
    """
    The clock of the job handler does not, over a restart either.
    """
    store = salt.job_handler.store.Store(setup.opts)
    before = store.clock()
    store.close()
    wrong = __import__("time").time() + jump
    monkeypatch.setattr("time.time", lambda: wrong)
    store = salt.job_handler.store.Store(setup.opts)
    assert 0 <= store.clock() - before < 60
    store.close()


@sqlite_only
def test_space_comes_back(setup):
    """
    The database of a long queue gets small again.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for number in range(200):
            await setup.publish(str(number), MINIONS, arg=[os.urandom(20000).hex()])
        for number in range(1, 200):
            await handler.dispatcher.cancel(str(number), None)
        handler.store.checkpoint()
        before = os.path.getsize(handler.store.path)
        for _ in range(3):
            await handler.clean()
        handler.store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, os.path.getsize(handler.store.path)

    before, after = asyncio.run(run())
    assert after < before / 3


def test_reasons_are_kept_as_long_as_the_job_cache(setup):
    async def run():
        handler = await setup.start()
        for jid in ("1", "2", "3"):
            await setup.publish(jid, ["m00"])
        setup.clock.now += 10**6
        handler.store.clean(0)
        kept = handler.store.left_out("3")
        handler.store.clean(86400)
        return kept, handler.store.left_out("3")

    kept, gone = asyncio.run(run())
    assert list(kept) == ["m00"]
    assert gone == {}


@sqlite_only
def test_caller_that_ends_while_no_master_runs(setup, monkeypatch):
    """
    Its job is dropped when the next job handler begins; one of a caller that the master
    could never see, as it is in another container, stays.
    """
    alive = {(1, 1)}
    monkeypatch.setattr(
        salt.job_handler.client, "runs", lambda caller: tuple(caller) in alive
    )

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS[:10])
        for number in (1, 2):
            ask = request(
                str(number), sync=True, extend=True, timeout=5, caller=[number, number]
            )
            await setup.publish(f"of {number}", MINIONS[:10], request=ask)
        await setup.land()
        assert [job.jid for job in handler.queue] == ["of 1", "of 2"]
        await setup.stop()
        alive.clear()
        handler = await setup.start("another master")
        await setup.tick(1)
        assert [job.jid for job in handler.queue] == ["of 2"]
        assert handler.store.left_out("of 1") == dict.fromkeys(
            MINIONS[:10], "It waited in the master's queue when its caller ended"
        )

    asyncio.run(run())


@sqlite_only
def test_job_that_a_worker_has_published_in_a_damaged_database(setup):
    """
    It is not known any more for whom it is.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        for jid in ("1", "2"):
            await setup.publish(jid, ["m00"])
        assert handler.store.take_back(1, "direct")
        handler.store.db.execute("DELETE FROM targets")
        await setup.stop()
        salt.job_handler.handover._stores.clear()
        salt.job_handler.store.set_aside(setup.opts, "damaged")
        await setup.start()
        await setup.publish("3", ["m00"])

    asyncio.run(run())
    assert setup.states() == {"3": "running"}


def test_more_orders_than_are_remembered(setup):
    """
    A job that is held stays so: the orders are there before the jobs.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 1)
        await setup.publish("held", ["m00"])
        handler.dispatcher.order("held", None, True, None)
        for number in range(salt.job_handler.store.ORDERS + 5):
            handler.dispatcher.order(str(number), 1, None, None)
        handler.store.clean(0)
        await setup.stop()
        handler = await setup.start()
        await setup.tick(2)
        (kept,) = handler.store.db.execute("SELECT count(*) FROM orders").fetchone()
        return kept

    assert asyncio.run(run()) == salt.job_handler.store.ORDERS + 1
    assert [job.held for job in setup.handler.queue] == [True]
    assert setup.bus.jobs() == []


@pytest.mark.parametrize("reached", [True, False])
def test_part_of_a_batch_that_was_cancelled_before_a_restart(setup, reached):
    """
    The part came while no job handler ran, or is still to come.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 1000)
        await setup.publish("1", ["m00"])
        await handler.dispatcher.cancel("1", None)
        part = await setup.enter(minions=["m01"])
        load = {"jid": "1", "fun": "f", "arg": [], "tgt": "*", "tgt_type": "glob"}
        if reached:
            store = salt.job_handler.handover._store(setup.opts)
            store.complete(part.seq, "1", load, ["m01"], {**part.info, "fixed": False})
        await setup.stop()
        await setup.start()
        if not reached:
            await part.submit({**load, "ret": "", "user": "root"}, ["m01"], [])
        await setup.tick(1)

    asyncio.run(run())
    assert len(setup.handler.queue) == 0
    assert setup.states() == {"1": "cancelled"}
    assert setup.bus.jobs() == []


@sqlite_only
@pytest.mark.parametrize("version", [1, 2])
def test_earlier_version(setup, monkeypatch, version):
    """
    Its queue is taken over with its pause, and it does not take over a newer one.
    """
    kept = {"until": 5000.0, "rules": [], "orders": [("1", (None, True))]}
    if version == 2:
        pause = {"action": "pause", "until": 5000.0}
        kept = {"rules": [pause], "orders": [("1", (None, True, None))]}

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("0", ["m00"])
        handler.store.put_meta("pauses", kept)
        for statement in (
            "DROP TABLE orders",
            "DROP INDEX jobs_state",
            "CREATE INDEX jobs_waiting ON jobs (owner, size) WHERE state = 'queued'",
            f"PRAGMA user_version = {version}",
        ):
            handler.store.db.execute(statement)
        for _ in range(2):
            await setup.stop()
            salt.job_handler.handover._stores.clear()
            handler = await setup.start()
        await setup.publish("2", ["m00"])
        await setup.publish("1", ["m00"])
        return [job.held for job in handler.queue]

    assert asyncio.run(run()) == [False, False, True]
    assert setup.bus.jobs() == []
    assert setup.handler.queue.rules.paused_until == 5000
    migrations = salt.job_handler.store.MIGRATIONS[:1]
    monkeypatch.setattr(salt.job_handler.store, "MIGRATIONS", migrations)
    with pytest.raises(salt.job_handler.store.StoreError, match="has version 3"):
        salt.job_handler.store.Store(setup.opts)


@sqlite_only
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EMFILE])
def test_files_that_can_not_be_made(setup, error):
    """
    The message says why.
    """
    failed = OSError(error, os.strerror(error))
    with patch("salt.job_handler.store.os.open", side_effect=failed):
        with pytest.raises(salt.job_handler.store.StoreError) as raised:
            salt.job_handler.store.Store(setup.opts)
    assert os.strerror(error) in str(raised.value)


@sqlite_only
@pytest.mark.parametrize("seconds, sent", [(5, [("1", "*")]), (65, [])])
def test_worker_that_is_killed_before_it_publishes_a_job(setup, seconds, sent):
    """
    It had taken the job back, so nobody else would publish it.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"], request=request())
        assert handler.store.take_back(1, "direct")
        await setup.stop()
        setup.clock.now += seconds
        with patch("salt.job_handler.client.runs", return_value=False):
            await setup.start()
        await setup.tick()
        return await setup.publish("2", ["m00"], request=request())

    assert asyncio.run(run())["load"]["jid"] == "1"
    assert setup.bus.jobs() == sent


def test_limit_of_a_user_counts_what_was_out_before_the_restart(setup):
    setup.config(rules=[{"user": "alice", "action": "limit", "limit": 5}])

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:5], user="alice")
        await setup.land()
        await setup.stop()
        await setup.start()
        await setup.publish("2", MINIONS[5:7], user="alice")
        await setup.publish("3", MINIONS[5:7], user="bob")

    asyncio.run(run())
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "3"]


def test_age_of_what_may_not_have_been_sent_does_not_grow_while_minions_connect(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:5])
        await setup.stop()
        setup.clock.now += salt.job_handler.dispatch.RESEND_SECONDS - 5
        await setup.start("another master")
        await setup.tick()
        assert [jid for jid, _ in setup.bus.jobs()] == ["1"]
        await setup.tick(salt.job_handler.dispatch.RECONNECT_SECONDS[bool(POSTGRESQL)])

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*"), ("1", "*")]


def test_what_was_sent_again_has_its_time_from_then_on(setup):
    """
    A minion that was asked at once and has not begun yet would lose its lease.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:5])
        await setup.stop()
        handler = await setup.start()
        await setup.tick()
        assert len(setup.bus.jobs()) == 2
        for _ in range(10):
            await setup.tick(1)
        assert setup.bus.questions() == []
        assert {lease.since for lease in handler.leases.jobs["1"].values()} == {
            setup.clock.now - 10
        }

    asyncio.run(run())


def test_damaged_queue_of_an_earlier_version(setup, caplog):
    """
    What that version did not have is not lost.
    """
    if POSTGRESQL:
        pytest.skip("The store has no files")

    async def run():
        await setup.start()
        await setup.stop()

    asyncio.run(run())
    path = os.path.join(
        salt.job_handler.store.folder(setup.opts), salt.job_handler.store.NAME
    )
    database = sqlite3.connect(path)
    database.execute("DROP TABLE orders")
    database.commit()
    database.close()
    salt.job_handler.store.set_aside(setup.opts, "a test")
    assert "Lost is: nothing that is known" in caplog.text
