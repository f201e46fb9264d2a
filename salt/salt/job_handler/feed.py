"""
What the job handler hears on the event bus: returns and starts of minions.

Tens of thousands of returns are read here, so nothing is unpacked that isn't needed:
the tag of a return names the job and the minion, and of the data only the id is read. The
master lets minions fire no event with such a tag, and a return of a minion carries the id
that the master has authenticated, in the tag and in the data. Where the two differ, as in
an event that something else has fired, nothing is given back.
"""

import asyncio
import collections
import logging
import re

import salt.exceptions
import salt.payload
import salt.transport
import salt.utils.event
import salt.utils.msgpack
import salt.utils.stringutils

log = logging.getLogger(__name__)

_TAGEND = salt.utils.stringutils.to_bytes(salt.utils.event.TAGEND)
_RETURN = re.compile(rb"salt/job/([^/]+)/ret/(.+)")
_START = re.compile(rb"salt/minion/([^/]+)/start$")
_PEER = re.compile(rb"salt/job/([^/]+)/(new|publish)$")

#: How many jobs of peers may be known but not published yet.
_PEER_JOBS = 1000


def _id(body):
    """
    Return the id in the data of an event, without unpacking what a minion has returned:
    that may be large.
    """
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


class Feed:
    """
    :param dict opts: the master's options
    :param sink: is told what was heard, see
        :class:`salt.job_handler.maintenance.Maintenance`
    """

    def __init__(self, opts, sink):
        self.opts = opts
        self.sink = sink
        self.clustered = bool(opts.get("cluster_id"))
        self.client = None
        self.heard = 0
        self._lost = False
        self._peer_jobs = collections.OrderedDict()

    async def connect(self):
        """
        Connect to the event bus.
        """
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
            # the bus drops whoever is too slow, and what it sent until now is lost
            self._lost = False
            self.sink.missed()

    async def run(self):
        """
        Listen for ever.
        """
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
        self.heard += 1

    def hear(self, raw):
        """
        Take over one event as it comes from the bus.
        """
        tag, _, body = raw.partition(_TAGEND)
        match = _RETURN.match(tag)
        if match:
            jid, minion = match.group(1).decode(), match.group(2).decode()
            if self.sink.is_question(jid):
                data = self._unpack(body)
                if data.get("id") == minion:
                    self.sink.answered(jid, minion, data.get("return"))
            elif _id(body) == minion:
                self.sink.returned(jid, minion)
            return
        match = _START.match(tag)
        if match:
            minion = match.group(1).decode()
            # the master has checked the id of what a minion sends
            if self._unpack(body).get("id") == minion:
                self.sink.started(minion)
            return
        if self.clustered:
            match = _PEER.match(tag)
            if match:
                self._hear_peer(match.group(2), self._unpack(body))

    def _hear_peer(self, kind, data):
        """
        Another master of the cluster publishes a job.
        """
        jid = data.get("jid")
        if kind == b"new":
            self._peer_jobs[jid] = data.get("minions")
            if len(self._peer_jobs) > _PEER_JOBS:
                self._peer_jobs.popitem(last=False)
            return
        minions = self._peer_jobs.get(jid)
        if data.get("tgt_type") == "list":
            minions = data.get("tgt")
        # the job handler of that master says whom a wave is for
        minions = data.get("minions", minions)
        # the bus trims what is too large, and then says so in a text
        if isinstance(minions, list) and minions:
            self.sink.peer_published(jid, data.get("fun", ""), minions)

    @staticmethod
    def _unpack(body):
        try:
            data = salt.payload.loads(body, encoding="utf-8")
        except salt.exceptions.SaltDeserializationError:
            data = None
        return data if isinstance(data, dict) else {}
