"""
The queue of a cluster, in PostgreSQL: which master leads, and how the others reach it.
"""

# pylint: disable=protected-access

import asyncio
import contextlib

import pytest

import salt.job_handler.control
import salt.job_handler.dispatch
import salt.job_handler.handover
import salt.job_handler.postgres
import salt.job_handler.process
import salt.job_handler.store
from tests.pytests.functional.job_handler.conftest import POSTGRESQL, Bus

needs_postgresql = pytest.mark.skipif(
    not POSTGRESQL, reason="Set SALT_JOB_HANDLER_POSTGRESQL to a connection string"
)


class Ended(BaseException):
    """
    Stands for SystemExit, which would end the event loop of all masters here.
    """


class Master:
    """
    The job handler of one of the masters, and its bus.
    """

    def __init__(self, setup, name, folder):
        folder.mkdir()
        self.opts = {**setup.opts, "id": name, "sock_dir": str(folder)}
        self.name = name
        self.bus = Bus()
        self.handler = self.task = None

    def start(self):
        handler = salt.job_handler.process.Handler(self.opts, self.name)
        handler.bus.event, handler.bus.channels = self.bus, [self.bus]

        async def connect():
            """
            There is no event bus to connect to.
            """

        handler.bus.connect = handler.maintenance.connect = connect
        handler.maintenance.listen = connect
        self.handler = handler

        async def run():
            with contextlib.suppress(Ended, *salt.job_handler.store.UNAVAILABLE):
                await handler.run()

        self.task = asyncio.ensure_future(run())

    async def leads(self, seconds=20):
        for _ in range(seconds * 20):
            if self.handler.handle == self.handler.commands.handle:
                if self.handler.server is not None and self.handler.group is not None:
                    return True
            if self.task.done():
                self.task.result()
            await asyncio.sleep(0.05)
        return False

    async def ask(self, **request):
        return await salt.job_handler.control.ask(self.opts, request, 20)

    async def kill(self):
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        self.handler.server.close()
        asyncio.get_running_loop().remove_reader(self.handler.group._fileno)
        self.handler.group._ears.close()
        self.handler.store.close()

    async def publish(self, jid, minions, request=None):
        load = {"fun": "state.apply", "user": "root", "tgt": "*", "arg": []}
        handover = await salt.job_handler.handover.enter(
            self.opts, self.bus, load, request, minions
        )
        if handover.answer is not None:
            return handover.answer
        payload = {**load, "jid": jid, "tgt_type": "glob", "ret": ""}
        return await handover.submit(payload, minions, [])


@pytest.fixture
def masters(setup, tmp_path):
    setup.config(max_master_jobs=2)
    return [Master(setup, name, tmp_path / name) for name in ("a", "b")]


def cut(store, *connections):
    """
    End the connection of a store, and others, as a restart of PostgreSQL would.
    """
    other = salt.job_handler.postgres._connect(store.settings)
    with other.cursor() as cursor:
        for connection in (store.db.connection, *connections):
            pid = connection.get_backend_pid()
            cursor.execute("SELECT pg_terminate_backend(%s)", (pid,))
    other.close()


@needs_postgresql
def test_one_leads_and_the_other_passes_on(masters):
    async def run():
        first, second = masters
        first.start()
        assert await first.leads()
        second.start()
        assert not await second.leads(2)
        await second.publish("1", ["m0", "m1"])
        answer = await second.publish("2", ["m0"])
        status = await second.ask(cmd="status")
        listed = await second.ask(cmd="list")
        await first.kill()
        await second.kill()
        return answer, status, listed

    answer, status, listed = asyncio.run(run())
    assert masters[0].bus.jobs() == [("1", "*")]
    assert masters[1].bus.jobs() == []
    assert answer["load"]["job_handler"]["state"] == "queued"
    assert status["capacity"]["used"] == 2
    assert "postgresql" not in status["settings"]
    assert [job["jid"] for job in listed["jobs"]] == ["2"]


@needs_postgresql
@pytest.mark.parametrize("how", ["killed", "hangs", "disconnected"])
def test_other_master_takes_over(masters, how, monkeypatch, caplog):
    """
    The leases of the first leader hold, and what waits goes out once there is room.
    """
    monkeypatch.setattr(salt.job_handler.postgres, "LEADER_SECONDS", 2)
    monkeypatch.setattr(salt.job_handler.dispatch, "SystemExit", Ended, raising=False)

    async def run():
        first, second = masters
        first.start()
        assert await first.leads()
        second.start()
        await asyncio.sleep(0.5)
        await second.publish("1", ["m0", "m1"])
        await second.publish("2", ["m0"])
        if how == "killed":
            await first.kill()
        elif how == "hangs":
            # nothing of it goes on, but its connection is there
            first.task.cancel()
        else:
            cut(first.handler.store, first.handler.group._ears)
        assert await second.leads()
        before = second.bus.jobs()
        used = (await second.ask(cmd="status"))["capacity"]["used"]
        for minion in ("m0", "m1"):
            second.handler.maintenance.returned("1", minion)
        for _ in range(200):
            if second.bus.jobs():
                break
            await asyncio.sleep(0.1)
        if how == "hangs":
            with pytest.raises(salt.job_handler.store.UNAVAILABLE):
                first.handler.store.waiting()
        if how != "killed":
            await first.kill()
        await second.kill()
        return before, used

    before, used = asyncio.run(run())
    assert before == [] and used == 2
    assert masters[0].bus.jobs() == [("1", "*")]
    assert [jid for jid, _ in masters[1].bus.jobs()] == ["2"]
    assert "Exception in callback" not in caplog.text


@needs_postgresql
def test_connection_that_was_cut_since_the_last_request(setup):
    async def run():
        await setup.start()
        await setup.publish("1", ["m00"])
        store = salt.job_handler.handover._store(setup.opts)
        cut(store)
        return await setup.publish("2", ["m00"])

    assert asyncio.run(run())["load"]["jid"] == "2"
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "2"]


@needs_postgresql
@pytest.mark.parametrize("mode", ["open", "closed"])
def test_database_that_somebody_holds(setup, mode, monkeypatch):
    setup.config(fail_mode=mode)

    async def run():
        await setup.start()
        store = salt.job_handler.handover._store(setup.opts)
        other = salt.job_handler.postgres.connect(setup.opts)
        with other.writing():
            handover = await setup.enter(minions=["m00"])
        other.close()
        assert not store.replaced()
        return handover

    handover = asyncio.run(run())
    assert handover.direct
    assert (handover.answer is None) == (mode == "open")


@needs_postgresql
def test_job_id_that_can_not_be_stored(setup):
    async def run():
        await setup.start()
        return await setup.publish("1\0", ["m00"])

    assert "error" in asyncio.run(run())


@needs_postgresql
def test_newer_version(setup):
    store = salt.job_handler.postgres.connect(setup.opts)
    store.db.execute("UPDATE version SET number = 99")
    store.close()
    with pytest.raises(salt.job_handler.store.StoreError, match="version 99"):
        salt.job_handler.postgres.connect(setup.opts)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        (None, "postgresql is missing"),
        ({"dbname": "salt", "pasword": "x"}, "pasword"),
        ({"dbname": "salt", "host": "db", "schema": "jobs"}, None),
    ],
)
def test_settings_are_checked_without_a_connection(settings, sentence):
    pytest.importorskip("psycopg2")
    section = {"store": "postgresql", "postgresql": settings}
    errors = salt.job_handler.postgres.errors(section)
    assert len(errors) == (sentence is not None)
    assert sentence is None or sentence in errors[0]


def test_store_of_one_master(setup):
    """
    Without the setting the queue is a file of the master.
    """
    opts = {**setup.opts, "rate_limiting": {"criteria": "capacity"}}
    store = salt.job_handler.postgres.connect(opts)
    assert not store.shared
    store.close()
