"""
What is heard of minions, and what they are asked.

Tens of thousands of returns are read here, so of the data of a return only the id is
unpacked. The master has authenticated it; events whose tag differs are forged.
"""

import asyncio
import collections
import logging
import re

import salt.exceptions
import salt.job_handler
import salt.job_handler.handover
import salt.job_handler.store
import salt.key
import salt.payload
import salt.transport
import salt.utils.event
import salt.utils.jid
import salt.utils.msgpack
import salt.utils.stringutils
from salt.job_handler import QUESTION

log = logging.getLogger(__name__)

_TAGEND = salt.utils.stringutils.to_bytes(salt.utils.event.TAGEND)
_RETURN = re.compile(rb"salt/job/([^/]+)/ret/(.+)")
_START = re.compile(rb"salt/minion/([^/]+)/start$")
_PEER = re.compile(rb"salt/job/[^/]+/(new|publish)$")

#: How many jobs of peers may be known but not published yet.
_PEER_JOBS = 1000


def _id(body):
    """Return the id in an event without unpacking the rest, which may be large."""
    unpacker = salt.utils.msgpack.Unpacker(raw=False, max_buffer_size=0)
    unpacker.feed(body)
    try:
        for _ in range(unpacker.read_map_header()):
            if unpacker.unpack() == "id":
                return unpacker.unpack()
            unpacker.skip()
    except Exception as exc:  # pylint: disable=broad-except
        log.debug("A return that makes no sense: %r", exc)
    return None


def _unpack(body):
    try:
        data = salt.payload.loads(body, encoding="utf-8")
    except salt.exceptions.SaltDeserializationError:
        data = None
    return data if isinstance(data, dict) else {}


class Maintenance:
    """:param Dispatcher dispatcher: publishes, and knows the leases"""

    def __init__(self, dispatcher):
        self.dispatcher = dispatcher
        self.opts = dispatcher.opts
        self.clock = dispatcher.clock
        self.queue = dispatcher.queue
        self.leases = dispatcher.leases
        self.client = None
        self._lost = False
        self._peer_jobs = collections.OrderedDict()

    # Listening

    async def connect(self):
        """Connect to the event bus."""
        self.client = salt.transport.ipc_publish_client(
            "master", self.opts, asyncio.get_running_loop()
        )
        await self.client.connect(
            connect_callback=self._connected,
            disconnect_callback=self._disconnected,
        )

    async def _disconnected(self):
        log.warning("The job handler lost the event bus, and connects again")
        self._lost = True

    async def _connected(self, _connected):
        if self._lost:
            # the bus drops a subscriber that is too slow, and what it sent is lost
            self._lost = False
            self.leases.doubt()

    async def listen(self):
        """Listen for ever."""
        while True:
            raw = await self.client.recv()
            if raw is None:
                await asyncio.sleep(0.05)
                continue
            self._take(raw)
            # what came in the same piece is at hand, and a turn of the event loop for
            # each event would cost more than the event
            for message in self.client.unpacker:
                self._take(message[b"body"])
            # the bus may have more than others can wait for
            await asyncio.sleep(0)

    def _take(self, raw):
        try:
            self.hear(raw)
        except Exception:  # pylint: disable=broad-except
            log.exception("The job handler failed on an event")

    def hear(self, raw):
        """Take over one event as it comes from the bus."""
        tag, _, body = raw.partition(_TAGEND)
        match = _RETURN.match(tag)
        if match:
            jid, minion = match.group(1).decode(), match.group(2).decode()
            if self.leases.is_question(jid):
                data = _unpack(body)
                if data.get("id") == minion:
                    self.leases.answered(jid, minion, data.get("return"), self.clock())
                    self.dispatcher.wake()
            elif _id(body) == minion:
                self.returned(jid, minion)
            return
        match = _START.match(tag)
        if match:
            minion = match.group(1).decode()
            if _unpack(body).get("id") == minion:
                self.started(minion)
        elif tag == b"salt/job_handler/unavailable":
            # a worker is about to publish a job itself, which is returned after that
            self.dispatcher.report.count_unavailable(_unpack(body).get("fail_mode"))
            self.dispatcher.take_direct()
        elif self.opts.get("cluster_id"):
            # with a shared queue as well, they publish what could not be written there
            match = _PEER.match(tag)
            if match:
                self._hear_peer(match.group(1), _unpack(body))

    def returned(self, jid, minion):
        """A minion has returned a job."""
        now = self.clock()
        lease = self.leases.jobs.get(jid, {}).get(minion)
        if self.leases.returned(jid, minion, now):
            self.dispatcher.report.estimate.returned(lease.fun, now - lease.since)
            self.queue.criteria.released(jid, minion, now)
            self.dispatcher.wake()

    def started(self, minion):
        """A minion has connected. Its jobs may have survived that."""
        self.leases.heard(minion)
        self.leases.doubt(minion)
        self.queue.criteria.started(minion, self.clock())
        self.dispatcher.wake()

    def _hear_peer(self, kind, data):
        jid, minions = data.get("jid"), data.get("minions")
        if kind == b"new":
            # packed, as they may be many. The job handler of that master names them again
            self._peer_jobs[jid] = salt.job_handler.store.pack(minions)
            if len(self._peer_jobs) > _PEER_JOBS:
                self._peer_jobs.popitem(last=False)
            return
        if data.get("tgt_type") == "list":
            minions = data.get("tgt")
        elif minions is None and jid in self._peer_jobs:
            minions = salt.job_handler.store.unpack(self._peer_jobs[jid])
        own = jid in self.dispatcher.store.jids_out() or salt.job_handler.is_question(
            data
        )
        exempt = salt.job_handler.handover.exempt(
            self.queue.section, data.get("fun", "")
        )
        # the bus trims what is too large, and then there is a text
        if isinstance(minions, list) and not (own or exempt):
            self.leases.take(jid, minions, 1, self.clock())

    # Asking

    async def ask(self):
        """Ask minions what they run; a full queue does not stop that."""
        now = self.clock()
        connecting = now < self.dispatcher.connected_at
        if self.queue.is_held(now) or connecting or self.dispatcher.unsent:
            # who has not been sent a job yet does not run it
            return
        waiting = self.queue.waiting(now)
        for question in self.leases.tick(now, waiting):
            jid = salt.utils.jid.gen_jid(self.opts)[:20] + QUESTION
            self.leases.asked(jid, question, now)
            try:
                await self.dispatcher.bus.publish(self._load(jid, question))
            except Exception:  # pylint: disable=broad-except
                # a minion that was not asked is not silent
                log.exception("The minions could not be asked what they run")
                self.leases.not_asked(jid, question)
        if waiting:
            self.dispatcher.wake()

    def _load(self, jid, question):
        load = {
            "fun": question.fun,
            "arg": question.arg,
            "tgt": question.minions,
            "tgt_type": "list",
            "jid": jid,
            "ret": "",
            "user": self.opts["user"],
            # a minion that runs as many jobs as it may would have this wait in its own
            # queue, and look as if it was dead
            "__ignore_process_count_max": True,
        }
        if "master_id" in self.opts:
            load["master_id"] = self.opts["master_id"]
        return load

    async def forget_deleted(self):
        """Forget the silent minions whose keys have been deleted."""
        if not self.leases.silent:
            return
        loop = asyncio.get_running_loop()
        known = await loop.run_in_executor(None, self._accepted)
        for minion in set(self.leases.silent).difference(known):
            self.leases.forget(minion)

    def _accepted(self):
        with salt.key.get_key({**self.opts, "eauth": None}) as key:
            return key.list_status("accepted").get("minions", [])
