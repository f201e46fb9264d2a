"""A relay between Salt and PostgreSQL that counts round trips.

What a fetch costs on a network is its round trips, and on one machine they hardly show in its time.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

BYTES = 1 << 16


@dataclass
class Relay:
    """Listens on `port` of 127.0.0.1 for clients of the server on `target`; a context manager.

    `trips` counts how often a client spoke after the server had, or first; `connections` those that came.
    """

    target: int
    trips: int = 0
    connections: int = 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        """Start to listen."""
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening; connections end with their clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        """Carry one connection; whose turn it is tells the round trips."""
        server = socket.create_connection(("127.0.0.1", self.target))
        for end in (client, server):
            # a delayed acknowledgement would hold back 40 ms of every long answer
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        turn = {"client": False}

        def answers() -> None:
            with suppress(OSError):
                while data := server.recv(BYTES):
                    turn["client"] = False
                    client.sendall(data)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

        Thread(target=answers, daemon=True).start()
        with suppress(OSError):
            while data := client.recv(BYTES):
                if not turn["client"]:
                    self.trips += 1
                turn["client"] = True
                server.sendall(data)
        server.close()
        client.close()
