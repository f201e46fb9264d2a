"""
A job handler with a real queue, a real socket and real claims, in a folder of its own,
whose publisher and event bus write down what they get.
"""

import asyncio
import os
import re
import shutil
import tempfile

import pytest

import salt.job_handler.process
import salt.utils.resource_registry


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

    def jids(self):
        """
        Return the ids of the jobs that were published, without the maintenance.
        """
        own = ("saltutil.running", "saltutil.find_job")
        return [load["jid"] for load in self.published if load["fun"] not in own]

    def reached(self, jid, minions):
        """
        Return which of these minions each publication of a job is for, in their order.
        """
        ret = []
        for load in self.published:
            if load["jid"] == jid:
                match = {
                    "list": lambda minion, tgt: minion in tgt,
                    "pcre": lambda minion, tgt: re.match(tgt, minion) is not None,
                    "glob": lambda minion, tgt: tgt == "*",
                }[load["tgt_type"]]
                ret.append(
                    [name for name in sorted(minions) if match(name, load["tgt"])]
                )
        return ret

    def kinds(self, jid):
        """
        Return what has been told of a job.
        """
        prefix = f"salt/job/{jid}/"
        return [tag[len(prefix) :] for tag, _ in self.events if tag.startswith(prefix)]

    def told(self, jid, kind):
        """
        Return the data of the events of a kind.
        """
        return [data for tag, data in self.events if tag == f"salt/job/{jid}/{kind}"]


class Clock:
    """
    Goes when it is told to.
    """

    now = 1000.0

    def __call__(self):
        return self.now


class Setup:
    """
    A master's options, and job handlers one after the other.
    """

    def __init__(self, opts):
        self.opts = opts
        self.bus = Bus()
        self.clock = Clock()
        self.handler = None

    async def start(self, master="master"):
        self.handler = salt.job_handler.process.Handler(self.opts, master, self.clock)
        self.handler.bus.event = self.bus
        self.handler.bus.channels = [self.bus]
        await self.handler.start()
        return self.handler

    async def stop(self):
        """
        End the job handler as ``kill -9`` would: nothing is tidied up.
        """
        self.handler.server.close()
        self.handler.journal.close()
        os.unlink(salt.job_handler.ipc.path(self.opts))
        # let connections end
        await asyncio.sleep(0.01)

    def config(self, **settings):
        self.opts["rate_limiting"] = {"criteria": "capacity", **settings}


@pytest.fixture
def setup(master_opts):
    # the path of a socket has room for about a hundred bytes
    folder = tempfile.mkdtemp(prefix="jh-")
    master_opts["sock_dir"] = folder
    master_opts["cachedir"] = folder
    ret = Setup(master_opts)
    ret.config(max_master_jobs=10, max_minion_jobs=2)
    yield ret
    if ret.handler is not None:
        ret.handler.journal.close()
    shutil.rmtree(folder)


@pytest.fixture
def resources(setup):
    """
    A minion with two resources, and one whose own are known to nobody yet.
    """
    salt.utils.resource_registry.reset_registry()
    registry = salt.utils.resource_registry.get_registry(setup.opts)
    registry.register_minion("m3", {"dummy": ["res-1", "res-2"]})
    yield
    salt.utils.resource_registry.reset_registry()
