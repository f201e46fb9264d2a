"""Minions that are connected and do nothing: the load of the benchmark `idle`, in a process of its own.

Each connection greets as a minion's socket does and answers heartbeats, and nothing else. When all are established
one line says so; they close when standard input does, and another line tells how many the master closed before.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

from evil_minions import zmtp

if TYPE_CHECKING:
    from collections.abc import Sequence

# not more at once than the queue of a listening socket holds
AT_ONCE: Final = 200
ESTABLISH_S: Final = 300.0
TYPES: Final = {"publish": b"SUB", "request": b"REQ"}


class Peer:
    """One connection to the master."""

    def __init__(self, port: int, kind: str) -> None:
        """Connect, and greet."""
        self.hello = zmtp.ready(TYPES[kind]) + (zmtp.subscribe() if kind == "publish" else b"")
        self.established = False
        self.decoder = zmtp.Decoder()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(zmtp.GREETING)

    def handle(self) -> bool:
        """Read what came, and answer it; return whether the connection has just become established."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("The master closed a connection.")
        before = self.established
        for event in self.decoder.feed(data):
            if event is zmtp.Greeting.SEEN:
                self.socket.sendall(self.hello)
            elif isinstance(event, zmtp.Command) and event.name == b"READY":
                self.established = True
            elif isinstance(event, zmtp.Command) and event.name == b"PING":
                self.socket.sendall(zmtp.pong(event.body))
        return self.established and not before


def establish(port: int, kind: str, count: int, poller: select.epoll) -> dict[int, Peer]:
    """Return so many established connections, by descriptor; raises TimeoutError if they take too long."""
    peers: dict[int, Peer] = {}
    established, deadline = 0, time.monotonic() + ESTABLISH_S
    while established < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Only {established} of {count} connections to port {port} are established.")
        while len(peers) < count and len(peers) - established < AT_ONCE:
            peer = Peer(port, kind)
            peers[peer.socket.fileno()] = peer
            poller.register(peer.socket, select.EPOLLIN)
        established += sum(peers[descriptor].handle() for descriptor, _ in poller.poll(1.0))
    return peers


def main(argv: Sequence[str]) -> int:
    """Stay connected until standard input closes; tell how many connections the master closed until then."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle_pump", description=__doc__)
    parser.add_argument("port", type=int, help="the master's port")
    parser.add_argument("kind", choices=TYPES, help="what the port is for")
    parser.add_argument("connections", type=int, help="how many to open")
    options = parser.parse_args(argv)
    poller = select.epoll()
    peers = establish(options.port, options.kind, options.connections, poller)
    print(json.dumps({"connections": len(peers)}), flush=True)
    poller.register(sys.stdin, select.EPOLLIN)
    closed = 0
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == sys.stdin.fileno():
                print(json.dumps({"closed": closed}), flush=True)
                return 0
            try:
                peers[descriptor].handle()
            except ConnectionError:
                peers.pop(descriptor).socket.close()
                closed += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
