"""Bug 61656: minions connect over tcp, then one of them gets a job."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import salt.transport.frame
import salt.transport.tcp

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

MINIONS = 100
# the job's own connection may be looked at more than once
MOST = 5


class Subscriber(salt.transport.tcp.Subscriber):  # type: ignore[misc] # Salt has no types
    """A connection that counts how often its id is asked for."""

    looks = 0
    _given = None

    @property
    def id_(self) -> Any:
        """Return the id that the minion gave."""
        Subscriber.looks += 1
        return self._given

    @id_.setter
    def id_(self, value: Any) -> None:
        self._given = value


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    salt.transport.tcp.Subscriber = Subscriber
    io_loop = parts.loop()

    def identify(client: Any, message: Any) -> None:
        client.id_ = message["id"]

    server = parts.pub_server(parts.master_options(folder), io_loop, presence_callback=identify)
    with socket.create_server(("127.0.0.1", 0), backlog=MINIONS) as listening:
        port = listening.getsockname()[1]
        listening.setblocking(False)
        server.add_socket(listening)
        minions = [socket.create_connection(("127.0.0.1", port)) for _ in range(MINIONS)]
        for number, minion in enumerate(minions):
            minion.sendall(salt.transport.frame.frame_msg({"id": f"minion-{number}"}))

        async def work() -> None:
            while len([client for client in server.clients if client.id_]) < MINIONS:
                await parts.pause()
            Subscriber.looks = 0
            await server.publish_payload({"payload": "job"}, ["minion-7"])

        parts.run(io_loop, work, 60)
    minions[7].settimeout(10)
    wrong = [] if minions[7].recv(1) else ["the job did not arrive"]
    if Subscriber.looks > MOST:
        wrong.append(f"a job for one minion looked at the connections of {min(Subscriber.looks, MINIONS)} minions")
    return wrong
