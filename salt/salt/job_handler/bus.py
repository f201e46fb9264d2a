"""
How the job handler speaks: to minions through the master's publisher, and to everybody
else on the event bus.
"""

import asyncio
import logging

import salt.channel.server
import salt.utils.event
from salt.utils.channel import iter_transport_opts

log = logging.getLogger(__name__)


class Bus:
    """
    :param dict opts: the master's options
    """

    def __init__(self, opts):
        self.opts = opts
        self.event = None
        self.channels = []

    async def connect(self):
        """
        Connect to the event bus and to the publisher.
        """
        self.event = salt.utils.event.get_master_event(
            self.opts,
            self.opts["sock_dir"],
            listen=False,
            io_loop=asyncio.get_running_loop(),
        )
        for _, opts in iter_transport_opts(self.opts):
            self.channels.append(salt.channel.server.PubServerChannel.factory(opts))

    async def publish(self, load, minions=None):
        """
        Send a load on its way as ``ClearFuncs.publish`` would.

        :param list minions: whom it is for, which other masters of a cluster can't tell
            from the target of a wave
        """
        data = dict(load)
        if minions is not None and self.opts.get("cluster_id"):
            data["minions"] = minions
        await self.event.fire_event_async(
            data, salt.utils.event.tagify([load["jid"], "publish"], "job")
        )
        await asyncio.gather(
            *[channel.publish(dict(load)) for channel in self.channels]
        )

    async def tell(self, job, kind, data):
        """
        Fire an event about a job.
        """
        try:
            await self.event.fire_event_async(
                {"jid": job.jid, "fun": job.fun, "ticket": job.ticket, **data},
                salt.utils.event.tagify([job.jid, kind], "job"),
            )
        except Exception:  # pylint: disable=broad-except
            log.exception("The job handler could not fire an event")
