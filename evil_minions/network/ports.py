"""The master's ports as the minions of a worker reach them: beside the master, over a network, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from evil_minions.network.channel import ChannelOwner
from evil_minions.network.networkmap import NetworkMap
from evil_minions.network.partition import Partition
from evil_minions.network.subscription import Subscriber
from evil_minions.network.wire import Endpoint
from evil_minions.rng import RandomSource

if TYPE_CHECKING:
    import asyncio

    from evil_minions.network.channel import RequestChannel
    from evil_minions.network.subscription import Subscription
    from evil_minions.network.transports.transport import Transport
    from evil_minions.samples.counters import Counters


class Speaker(ChannelOwner, RandomSource, Protocol):
    """The minion behind a channel; `index` is its place in its worker."""

    index: int


class Listener(Subscriber, RandomSource, Protocol):
    """The minion behind a subscription; `index` is its place in its worker."""

    index: int


class Ports:
    """The request port, and each publish port that the master tells, over one transport."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, address: str, request_port: int, transport: Transport, counters: Counters
    ) -> None:
        """Describe the ports of the master at an IP address; nothing is opened yet."""
        self.networks = NetworkMap()
        self.partition = Partition()
        self.requests = Endpoint(loop, (address, request_port), transport.request_wire, counters)
        self._loop = loop
        self._address = address
        self._transport = transport
        self._counters = counters
        self._publishers: dict[int, Endpoint] = {}

    def channel(self, minion: Speaker) -> RequestChannel:
        """Return a new connection to the request port, not yet open."""
        return self._transport.channel(self.side(minion.index, self.requests), minion, minion)

    def subscription(self, port: int, minion: Listener) -> Subscription:
        """Return a new connection to a publish port, not yet open."""
        return self._transport.subscription(self.side(minion.index, self.publisher(port)), minion, minion)

    def publisher(self, port: int) -> Endpoint:
        """Return the endpoint of a publish port."""
        if port not in self._publishers:
            address = (self._address, port)
            self._publishers[port] = Endpoint(self._loop, address, self._transport.publish_wire, self._counters)
        return self._publishers[port]

    def side(self, index: int, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as a minion sees it, who may be far away or cut off."""
        endpoint = self.networks.side(index, endpoint)
        return self.partition.side(index, endpoint) if self.partition.cut else endpoint
