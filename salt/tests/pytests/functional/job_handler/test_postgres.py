"""
The queue of a cluster, in PostgreSQL: which master leads, and how the others reach it.
"""

# pylint: disable=protected-access

import asyncio
import concurrent.futures
import contextlib
import time
import uuid

import pytest

import salt.job_handler.control
import salt.job_handler.dispatch
import salt.job_handler.handover
import salt.job_handler.postgres
import salt.job_handler.process
import salt.job_handler.store
from tests.pytests.functional.job_handler.conftest import POSTGRESQL, Bus

if POSTGRESQL:
    import psycopg2

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


class Role:
    """
    Another role of the database, which may connect and make what the tests let it make.
    """

    def __init__(self, schema):
        self.name = f"role_{uuid.uuid4().hex}"
        self.schema = schema
        self.connection = psycopg2.connect(POSTGRESQL)
        self.connection.autocommit = True
        self.run(f"CREATE ROLE {self.name}")

    def run(self, statement):
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def plant(self, statement):
        """
        Do it as this role.
        """
        self.run(f"SET ROLE {self.name}")
        try:
            self.run(statement)
        finally:
            self.run("RESET ROLE")

    def close(self):
        self.run("ROLLBACK; RESET ROLE")
        self.run(f"DROP OWNED BY {self.name} CASCADE")
        self.run(f"DROP ROLE {self.name}")
        self.connection.close()


@pytest.fixture
def role(setup):
    ret = Role(setup.schema)
    yield ret
    ret.close()


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
                with first.handler.store.writing():
                    pytest.fail("two masters lead")
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
def test_database_that_is_lost_while_a_master_takes_over(masters, monkeypatch):
    """
    That one ends, and the next one takes over all that was there.
    """
    monkeypatch.setattr(salt.job_handler.postgres, "LEADER_SECONDS", 1)
    monkeypatch.setattr(salt.job_handler.postgres, "START_SECONDS", 2)

    async def run():
        first, second = masters
        first.start()
        assert await first.leads()
        await first.publish("1", ["m0", "m1"])
        await first.publish("2", ["m0"])
        await first.kill()
        second.start()
        store = second.handler.store
        monkeypatch.setattr(
            store, "keep_lead", lambda: cut(store, second.handler.group._ears)
        )
        await second.task
        assert second.handler.handle != second.handler.commands.handle
        second.handler.server.close()
        first.start()
        assert await first.leads()
        figures = await first.ask(cmd="status")
        await first.kill()
        return figures["queued"], figures["capacity"]["used"]

    assert asyncio.run(run()) == (1, 2)
    assert masters[1].bus.jobs() == []


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


@needs_postgresql
def test_newer_version_while_a_master_runs(setup):
    """
    What an earlier version writes then would not be understood.
    """

    async def run():
        await setup.start()
        await setup.publish("1", ["m00"])
        store = salt.job_handler.handover._store(setup.opts)
        store.db.execute("UPDATE version SET number = 99")
        answer = await setup.publish("2", ["m00"])
        with pytest.raises(salt.job_handler.store.StoreError, match="version 99"):
            await setup.handler._every(0, setup.handler.clean)
        return answer

    assert "has version 99" in asyncio.run(run())["error"]["message"]


@needs_postgresql
def test_job_is_not_taken_back_while_its_wave_is_written(setup):
    """
    Otherwise the worker and the leader publish it.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"])
        store = salt.job_handler.handover._store(setup.opts)
        with handler.store.writing():
            handler.store.db.execute("SELECT 1 FROM jobs WHERE state = 'queued'")
            with pytest.raises(salt.job_handler.store.UNAVAILABLE):
                store.take_back(1, "direct")

    asyncio.run(run())


@needs_postgresql
def test_machine_that_stood_still(masters):
    """
    The clock of its processes is late, and the leader answers and waits as ever.
    """

    async def run():
        for master in masters:
            master.start()
            assert await masters[0].leads()
        await masters[0].publish("1", ["m00", "m01"])
        stopped = salt.job_handler.handover._store(masters[1].opts)
        for store in (stopped, masters[1].handler.store):
            store.clock()
            store.clock._offset -= 1000
        status = await masters[1].ask(cmd="status")
        await masters[1].publish("2", ["m00"], {"sync": True, "timeout": 5})
        (job,) = masters[0].handler.queue.of_jid("2")
        late = masters[0].handler.clock() - job.queued
        for master in masters:
            await master.kill()
        return status["queued"], late

    queued, late = asyncio.run(run())
    assert queued == 0
    assert late < 500


@needs_postgresql
def test_schema_that_another_role_made(setup, role):
    """
    Its owner could put triggers, functions and tables there.
    """
    role.run(f"CREATE SCHEMA {role.schema} AUTHORIZATION {role.name}")
    with pytest.raises(salt.job_handler.store.StoreError, match=role.name):
        salt.job_handler.postgres.connect(setup.opts)
    role.run(f"ALTER SCHEMA {role.schema} OWNER TO CURRENT_USER")
    salt.job_handler.postgres.connect(setup.opts).close()


@needs_postgresql
@pytest.mark.parametrize(
    "planted",
    [
        "TABLE {}.jobs (seq INTEGER)",
        "VIEW {}.version AS SELECT 1 AS number",
        "FUNCTION {}.to_regclass(VARCHAR) RETURNS TEXT LANGUAGE sql AS 'SELECT $1'",
        "TYPE {}.bytes AS (value INTEGER)",
    ],
    ids=["table", "view", "function", "type"],
)
def test_objects_that_another_role_made(setup, role, planted):
    """
    They are found in place of the queue's, or of PostgreSQL's own.
    """
    role.run(f"CREATE SCHEMA {role.schema}")
    role.run(f"GRANT ALL ON SCHEMA {role.schema} TO {role.name}")
    role.plant(f"CREATE {planted.format(role.schema)}")
    with pytest.raises(salt.job_handler.store.StoreError, match=role.name):
        salt.job_handler.postgres.connect(setup.opts)


@needs_postgresql
def test_schema_where_every_role_may_make_something(setup, role):
    role.run(
        f"CREATE SCHEMA {role.schema}; GRANT ALL ON SCHEMA {role.schema} TO PUBLIC"
    )
    with pytest.raises(salt.job_handler.store.StoreError, match="REVOKE CREATE"):
        salt.job_handler.postgres.connect(setup.opts)


@needs_postgresql
def test_role_that_owns_the_schema_and_may_make_none(setup, role):
    """
    A role without rights to the database, for which an administrator made the schema.
    """
    role.run(f"ALTER ROLE {role.name} LOGIN PASSWORD 'secret'")
    role.run(f"CREATE SCHEMA {role.schema} AUTHORIZATION {role.name}")
    settings = setup.opts["rate_limiting"]["postgresql"]
    settings.update(user=role.name, password="secret")
    store = salt.job_handler.postgres.connect(setup.opts)
    store.put_meta("a", 1)
    store.close()
    # what the owner of the database made there is no surprise
    role.run(f"CREATE VIEW {role.schema}.report AS SELECT 1")
    salt.job_handler.postgres.connect(setup.opts).close()


@needs_postgresql
def test_other_role_holds_advisory_locks(masters, role):
    """
    Every role that may connect may take these, for as long as it likes.
    """
    for lock in ("writing", "leader"):
        role.plant(f"SELECT pg_advisory_lock(hashtext('{role.schema} {lock}'))")

    async def run():
        first = masters[0]
        first.start()
        leads = await first.leads()
        await first.publish("1", ["m0"])
        await first.kill()
        return leads

    assert asyncio.run(run())
    assert masters[0].bus.jobs() == [("1", "*")]


@needs_postgresql
def test_other_role_may_only_read(setup, role):
    """
    A role that may read the tables locks out nobody who writes.
    """
    salt.job_handler.postgres.connect(setup.opts).close()
    role.run(f"GRANT USAGE ON SCHEMA {role.schema} TO {role.name}")
    role.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {role.schema} TO {role.name}")
    role.plant(f"BEGIN; LOCK TABLE {role.schema}.version IN ACCESS SHARE MODE")
    store = salt.job_handler.postgres.connect(setup.opts)
    with store.writing():
        store.put_meta("a", 1)
    store.close()


@needs_postgresql
def test_masters_that_make_the_tables_at_the_same_moment(setup):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        connect = salt.job_handler.postgres.connect
        stores = list(pool.map(lambda _: connect(setup.opts, 20), range(8)))
    for store in stores:
        store.put_meta("a", 1)
        store.close()


@needs_postgresql
def test_one_of_many_leads(setup, monkeypatch):
    """
    All of them see that the leader has gone, and try at the same moment.
    """
    stores = [salt.job_handler.postgres.connect(setup.opts, 20) for _ in range(8)]
    names = {store: str(number) for number, store in enumerate(stores)}
    for store in stores:
        store.id = names[store]
    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            leads = list(pool.map(lambda store: store.lead(names[store]), stores))
        assert sum(leads) == 1
        leader = stores.pop(leads.index(True))
        # who leads goes on to do so
        leader.sign()
        assert not any(store.lead(names[store]) for store in stores)
        leader.close()
        now = time.monotonic() + 60
        monkeypatch.setattr("time.monotonic", lambda now=now: now)
    for store in stores:
        store.close()


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


@pytest.mark.skipif(
    not salt.job_handler.postgres.HAS_PSYCOPG2, reason="psycopg2 is missing"
)
def test_network_that_is_lost():
    """
    A request on its way does not wait for as long as the kernel sends it again.
    """
    dsn = salt.job_handler.postgres._dsn({"host": "db", "schema": "s"})
    assert "tcp_user_timeout=5000" in dsn


def test_store_of_one_master(setup):
    """
    Without the setting the queue is a file of the master.
    """
    opts = {**setup.opts, "rate_limiting": {"criteria": "capacity"}}
    store = salt.job_handler.postgres.connect(opts)
    assert not store.shared
    store.close()


@pytest.fixture
def stores(setup):
    """
    The stores of two masters, of which the first one leads.
    """
    ret = []
    for name in ("a", "b"):
        ret.append(salt.job_handler.postgres.connect({**setup.opts, "id": name}, 5))
    assert ret[0].lead("first")
    assert not ret[1].lead("second")
    yield ret
    for store in ret:
        store.close()


def later(monkeypatch, seconds):
    now = time.monotonic() + seconds
    monkeypatch.setattr(salt.job_handler.postgres.time, "monotonic", lambda: now)


@needs_postgresql
def test_leader_that_takes_over_for_long(stores, monkeypatch):
    """
    It has half a minute for what is in the store, and gives a sign each second after that.
    """
    first, second = stores
    later(monkeypatch, 20)
    assert not second.lead("second")
    first.keep_lead()
    later(monkeypatch, 20)
    assert not second.lead("second")
    later(monkeypatch, 20)
    assert not second.lead("second")
    first.sign()
    assert not second.lead("second")
    later(monkeypatch, 4)
    assert not second.lead("second")
    later(monkeypatch, 6)
    assert second.lead("second")


@needs_postgresql
def test_leader_that_ends_while_it_takes_over(stores, monkeypatch):
    """
    Started again, it does not come before a master that may do better.
    """
    first, second = stores
    later(monkeypatch, 12)
    assert not first.lead("first")
    later(monkeypatch, 31)
    assert second.lead("second")
    assert not first.lead("first")
    # one that has taken over goes on at once
    second.sign()
    assert second.lead("second")


@needs_postgresql
def test_former_leader_writes_nothing(stores, monkeypatch):
    first, second = stores
    first.put_meta("name", "first")
    later(monkeypatch, 100)
    assert second.lead("second")
    second.put_meta("name", "second")
    with pytest.raises(salt.job_handler.store.UNAVAILABLE):
        first.put_meta("name", "first")
    assert second.get_meta("name") == "second"


@needs_postgresql
def test_former_leader_publishes_nothing_again(setup):
    async def run():
        await setup.start()
        assert setup.handler.store.lead("first")
        setup.handler.store.sign()
        await setup.publish("1", ["m00"])
        await setup.stop()
        handler = await setup.start()
        assert handler.store.lead("first")
        other = salt.job_handler.postgres.connect(setup.opts)
        other.db.execute("UPDATE meta SET value = '' WHERE name = 'leader'")
        other.close()
        with pytest.raises(salt.job_handler.store.UNAVAILABLE):
            await handler.dispatcher.pump()

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


@needs_postgresql
def test_schema_that_is_null(setup):
    setup.opts["rate_limiting"]["postgresql"]["schema"] = None
    store = salt.job_handler.postgres.connect(setup.opts)
    assert store.schema == salt.job_handler.postgres.SCHEMA
    store.db.execute(f"DROP SCHEMA {store.schema} CASCADE")
    store.close()
