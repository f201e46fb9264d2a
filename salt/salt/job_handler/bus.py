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

    async def publish(self, load):
        """
        Send a load on its way as ``ClearFuncs.publish`` would.
        """
        await self.event.fire_event_async(
            dict(load), salt.utils.event.tagify([load["jid"], "publish"], "job")
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
                {"jid": job.jid, "fun": job.fun, **data},
                salt.utils.event.tagify([job.jid, kind], "job"),
            )
        except Exception:  # pylint: disable=broad-except
            log.exception("The job handler could not fire an event")
