"""The master's ports as the minions of a worker reach them: beside the master, over a network, or not at all.

A transport is two kinds of wire, which know its frames, and two kinds of link above them, which do what a real minion
does when an answer or a connection is missing. Nothing else in the package asks which transport is in use.

A partition is silence, not an end: existing connections stay open and dead, new ones hang as their first packets get
lost, and what was written is delivered once the network heals, if the connection is still wanted then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evil_minions.network import tcp, ws, zeromq
from evil_minions.network.wire import Endpoint, Wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from evil_minions.network.link import Link, Owner, RequestChannel, Subscriber, Subscription
    from evil_minions.network.path import NetworkPath
    from evil_minions.network.wire import WireOwner
    from evil_minions.samples import Counters


@dataclass(frozen=True, slots=True)
class Transport:
    """The kinds of wire and link of one transport, for the request port and for the publish port."""

    request_wire: type[Wire]
    publish_wire: type[Wire]
    channel: type[RequestChannel]
    subscription: type[Subscription]


TRANSPORTS: Final = {
    name: Transport(module.RequestWire, module.PublishWire, module.RequestChannel, module.Subscription)
    for name, module in {"zeromq": zeromq, "tcp": tcp, "ws": ws}.items()
}
"""Each transport by the name that Salt's option `transport` has for it."""

FILTERED: Final = Transport(zeromq.RequestWire, zeromq.FilteredWire, zeromq.RequestChannel, zeromq.FilteredSubscription)
"""The transport zeromq of a master and minions with the option `zmq_filtering`."""


class NetworkMap:
    """The networks of a worker's minions; those without one are beside the master."""

    def __init__(self) -> None:
        """Begin with everybody beside the master."""
        self._paths: dict[int, NetworkPath] = {}
        self._sides: dict[tuple[Endpoint, NetworkPath], Endpoint] = {}

    def place(self, index: int, path: NetworkPath | None) -> None:
        """Put a minion behind a network, or beside the master again."""
        if path is None:
            self._paths.pop(index, None)
        else:
            self._paths[index] = path

    def side(self, index: int, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as a minion sees it."""
        path = self._paths.get(index)
        if path is None:
            return endpoint
        if (endpoint, path) not in self._sides:
            self._sides[endpoint, path] = endpoint.over(path)
        return self._sides[endpoint, path]


# seconds after the first packet of a connection at which Linux sends it again, and when it gives up (tcp_syn_retries 6)
_TRIES: Final = (1.0, 3.0, 7.0, 15.0, 31.0, 63.0)
_GIVES_UP: Final = 127.0
# bytes of output that the system buffers for a dead connection before it accepts no more
_KEPT_BYTES: Final = 1024 * 1024


class SilentWire(Wire):
    """A connection that nothing comes through, around the real one if there was one."""

    __slots__ = ("_behind", "_cut_off", "_kept", "_kept_bytes", "_since")

    def __init__(self, endpoint: CutOffEndpoint, owner: WireOwner, behind: Wire | None = None) -> None:
        """Silence the wire `behind`."""
        super().__init__(endpoint, owner)
        self._cut_off = endpoint
        self._behind = behind
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._since = endpoint.loop.time()
        if behind is not None:
            behind.pause()

    def send(self, message: bytes) -> None:
        """Keep what the system would keep."""
        if self._behind is not None and self._kept_bytes + len(message) <= _KEPT_BYTES:
            self._kept.append(message)
            self._kept_bytes += len(message)

    def close(self, *, reset: bool = False) -> None:  # noqa: ARG002 - a wire's signature
        """Hang up on this side; the other side hears of it when the network heals."""
        if self._behind is not None:
            self._cut_off.abandoned.append(self._behind)
            self._behind = None

    def reroute(self, endpoint: Endpoint) -> None:
        """Go over another network when this one lets something through again."""
        super().reroute(endpoint)
        if isinstance(endpoint, CutOffEndpoint):
            self._cut_off = endpoint
            if self._behind is not None:
                self._behind.reroute(endpoint.real)

    def heal(self) -> tuple[Wire | None, float]:
        """Return the real connection, alive again, or None and the seconds until the next try to connect."""
        wire, self._behind = self._behind, None
        if wire is None:
            waited = (self._cut_off.loop.time() - self._since) % _GIVES_UP
            return None, next((at for at in _TRIES if at > waited), _GIVES_UP) - waited
        if not wire.resume():
            return None, _TRIES[0]
        for message in self._kept:
            wire.send(message)
        return wire, 0.0


class CutOffEndpoint(Endpoint):
    """A port of the master as seen from behind the partition."""

    def __init__(self, real: Endpoint) -> None:
        """Stand in for `real`."""
        super().__init__(real.loop, real.address, real.kind, real.counters, real.path)
        self.base = real.base
        self.buffer = real.buffer
        self.real = real
        self.abandoned: list[Wire] = []

    def open(self, owner: WireOwner) -> Wire:
        """Start to connect, in vain."""
        return SilentWire(self, owner)


class Partition:
    """Which minions of a worker are cut off, and the silent ones that stand for its endpoints."""

    def __init__(self) -> None:
        """Begin with a network that works."""
        self.cut: set[int] = set()
        self._cut_off: dict[Endpoint, CutOffEndpoint] = {}

    def side(self, index: int, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint as a minion sees it."""
        if index not in self.cut:
            return endpoint
        if endpoint not in self._cut_off:
            self._cut_off[endpoint] = CutOffEndpoint(endpoint)
        return self._cut_off[endpoint]

    def sever(self, index: int, link: Link) -> None:
        """Silence a link of a minion that is in `cut`."""
        cut = self.side(index, link.endpoint)
        if not isinstance(cut, CutOffEndpoint):
            return

        def silenced(wire: Wire | None) -> Wire | None:
            if wire is None or link.linked:
                return wire and SilentWire(cut, link, wire)
            wire.close()
            return SilentWire(cut, link)

        link.swap(cut, silenced)

    def rejoin(self, link: Link) -> None:
        """Give a link its network back."""
        if not isinstance(link.endpoint, CutOffEndpoint):
            return
        cut = link.endpoint
        wait = 0.0

        def healed(wire: Wire | None) -> Wire | None:
            nonlocal wait
            found, wait = wire.heal() if isinstance(wire, SilentWire) else (wire, 0.0)
            return found

        link.swap(cut.real, healed)
        if wait:
            cut.loop.call_later(wait, link.open)

    def drop(self, index: int, links: Callable[[], list[Link]], seconds: float) -> None:
        """Break the connections of a minion, and let no new ones through for some seconds.

        Without effect on a minion that is cut off already.
        """
        if index in self.cut:
            return
        found = links()
        for link in found:
            link.sever()
        self.cut.add(index)
        for link in found:
            self.sever(index, link)
            link.open()
        if found:
            found[0].endpoint.loop.call_later(seconds, self._restore, index, links)

    def _restore(self, index: int, links: Callable[[], list[Link]]) -> None:
        self.cut.discard(index)
        for link in links():
            self.rejoin(link)

    def heal(self) -> None:
        """Let everything through again; connections that were hung up meanwhile end now."""
        self.cut.clear()
        for cut in self._cut_off.values():
            for wire in cut.abandoned:
                wire.close(reset=True)
            cut.abandoned.clear()


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

    def channel(self, minion: Owner) -> RequestChannel:
        """Return a new connection to the request port, not yet open."""
        return self._transport.channel(self.side(minion.index, self.requests), minion)

    def subscription(self, port: int, minion: Subscriber) -> Subscription:
        """Return a new connection to a publish port, not yet open."""
        return self._transport.subscription(self.side(minion.index, self.publisher(port)), minion)

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
