"""
A job handler with a real store and a real socket in a folder of its own, whose publisher
and event bus write down what they get.

With ``SALT_JOB_HANDLER_POSTGRESQL``, a connection string of libpq's, the store is in
PostgreSQL, in a schema of its own for each test.
"""

# pylint: disable=protected-access

import asyncio
import contextlib
import os
import shutil
import tempfile
import uuid

import pytest

import salt.job_handler.control
import salt.job_handler.dispatch
import salt.job_handler.handover
import salt.job_handler.process
import salt.utils.resource_registry

POSTGRESQL = os.environ.get("SALT_JOB_HANDLER_POSTGRESQL")

if POSTGRESQL:
    import psycopg2
    import psycopg2.extensions

#: for tests of files
sqlite_only = pytest.mark.skipif(bool(POSTGRESQL), reason="The store has no files")

MINIONS = [f"m{number:02}" for number in range(25)]


class Bus:
    """
    Stands for the publisher and the event bus.
    """

    def __init__(self):
        self.published = []
        self.events = []
        self.broken = False

    async def publish(self, load):
        if self.broken:
            raise OSError("the publisher is gone")
        self.published.append(load)

    async def fire_event_async(self, data, tag):
        self.events.append((tag, data))

    def fire_event(self, data, tag):
        self.events.append((tag, data))

    def jobs(self):
        """
        Return ``(jid, minions)`` of what was published, without questions. A target that
        is not a list stands for all minions.
        """
        own = ("saltutil.running", "saltutil.find_job")
        return [
            (load["jid"], load["tgt"] if load["tgt_type"] == "list" else load["tgt"])
            for load in self.published
            if load["fun"] not in own
        ]

    def questions(self):
        own = ("saltutil.running", "saltutil.find_job")
        return [load for load in self.published if load["fun"] in own]

    def kinds(self, jid):
        """
        Return which events there were about a job.
        """
        prefix = f"salt/job/{jid}/"
        return [tag[len(prefix) :] for tag, _ in self.events if tag.startswith(prefix)]

    def data(self, jid, kind):
        return [data for tag, data in self.events if tag == f"salt/job/{jid}/{kind}"]


class Clock:
    """
    Goes when a test says so.
    """

    now = 1000.0

    def __call__(self):
        return self.now

    def keep(self):
        """
        The clock of a store remembers what time it is.
        """


class Setup:
    """
    A master's options, workers, and job handlers one after the other.
    """

    def __init__(self, opts):
        self.opts = opts
        self.bus = Bus()
        self.clock = Clock()
        self.handler = None
        self.schema = f"test_{uuid.uuid4().hex}"

    def config(self, **settings):
        if POSTGRESQL:
            dsn = psycopg2.extensions.parse_dsn(POSTGRESQL)
            settings["store"] = "postgresql"
            settings["postgresql"] = {**dsn, "schema": self.schema}
        self.opts["rate_limiting"] = {"criteria": "capacity", **settings}

    async def start(self, master="master"):
        self.handler = salt.job_handler.process.Handler(self.opts, master, self.clock)
        self.handler.store.clock = self.clock
        self.handler.bus.event = self.bus
        self.handler.bus.channels = [self.bus]
        await self.handler.start()
        return self.handler

    async def stop(self):
        """
        End the job handler as ``kill -9`` would: nothing is tidied up.
        """
        self.handler.server.close()
        self.handler._beating.cancel()
        self.handler.store.close()
        # since Python 3.13 the server removes its socket
        with contextlib.suppress(FileNotFoundError):
            os.unlink(salt.job_handler.control.path(self.opts))
        # let connections end
        await asyncio.sleep(0.01)

    async def enter(self, fun="state.apply", user="root", minions=(), **kwargs):
        load = {"fun": fun, "user": user, "tgt": "*", "arg": kwargs.pop("arg", [])}
        load.update(kwargs.pop("load", {}))
        request = kwargs.pop("request", None)
        ret = await salt.job_handler.handover.enter(
            self.opts, self.bus, load, request, minions, **kwargs
        )
        salt.job_handler.handover._store(self.opts).clock = self.clock
        return ret

    async def publish(self, jid, minions, fun="state.apply", **kwargs):
        """
        Do what ClearFuncs.publish does.

        :return: its answer, or None if the worker has to publish the job itself
        """
        user = kwargs.get("user", "root")
        arg = kwargs.get("arg", [])
        handover = await self.enter(fun, minions=list(minions), **kwargs)
        if handover is None:
            return None
        if handover.answer is not None:
            return handover.answer
        load = {"jid": jid, "fun": fun, "arg": arg, "tgt": "*", "tgt_type": "glob"}
        load.update({"ret": "", "user": user})
        return await handover.submit(load, list(minions), [])

    def returns(self, jid, *minions):
        for minion in minions:
            self.handler.maintenance.returned(jid, minion)

    async def tick(self, seconds=0.0):
        """
        Let time pass, and the job handler do what that brings.
        """
        self.clock.now += seconds
        await self.handler.tick()
        await self.handler.dispatcher.pump()

    async def land(self):
        """
        Let so much time pass that what was published counts as sent.
        """
        await self.tick(salt.job_handler.dispatch.FLIGHT_SECONDS + 1)

    def states(self):
        """
        Return the states of all jobs in the store.
        """
        rows = self.handler.store.db.execute("SELECT jid, state FROM jobs ORDER BY seq")
        return dict(rows.fetchall())


def request(name="1", **kwargs):
    """
    Return what a client says of itself.
    """
    return {"id": name, "sync": False, "timeout": 5, "extend": False, **kwargs}


@pytest.fixture
def setup(master_opts, monkeypatch):
    # however slow the machine is; what is killed has no socket any more
    monkeypatch.setattr(salt.job_handler.control, "alive", lambda *args: True)
    monkeypatch.setattr(salt.job_handler.handover, "ANSWER_SECONDS", 30)
    monkeypatch.setattr(salt.job_handler.dispatch, "PATIENCE_SECONDS", 30)
    # the path of a socket has room for about a hundred bytes
    folder = tempfile.mkdtemp(prefix="jh-")
    master_opts["sock_dir"] = folder
    master_opts["cachedir"] = folder
    ret = Setup(master_opts)
    ret.config(max_master_jobs=10, max_minion_jobs=2)
    yield ret
    # the options are those of all tests of a module
    master_opts.pop("order_masters", None)
    for store in salt.job_handler.handover._stores.values():
        store.close()
    salt.job_handler.handover._stores.clear()
    salt.job_handler.handover._failures.clear()
    if ret.handler is not None:
        ret.handler.store.close()
    if POSTGRESQL:
        connection = psycopg2.connect(POSTGRESQL)
        with connection, connection.cursor() as cursor:
            cursor.execute(f"DROP SCHEMA IF EXISTS {ret.schema} CASCADE")
        connection.close()
    shutil.rmtree(folder)


@pytest.fixture
def resources(setup):
    """
    Let m03 have a resource.
    """
    salt.utils.resource_registry.reset_registry()
    registry = salt.utils.resource_registry.get_registry(setup.opts)
    registry.register_minion("m03", {"dummy": ["res-1"]})
    yield registry
    salt.utils.resource_registry.reset_registry()
