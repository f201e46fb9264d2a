"""The transports of Salt, a module for each, and what the rest of the package needs to know of one.

A transport is two kinds of wire, which know its frames, and two kinds of link above them, which do what a real minion
does when an answer or a connection is missing. Nothing else in the package asks which transport is in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evil_minions.network.transports import tcp, ws, zeromq

if TYPE_CHECKING:
    from evil_minions.network.channel import RequestChannel
    from evil_minions.network.link import Subscription
    from evil_minions.network.wire import Wire


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
