"""The dialogue between two processes of a bed: messages in JSON, one line each, over a socket."""

from __future__ import annotations

import contextlib
import json
import select
import socket
from typing import Any

from harness.processes.deadline import SLICE_S, Deadline

LONGEST = 64 * 2**20


class Line:
    """One connection, with whole messages."""

    def __init__(self, connection: socket.socket) -> None:
        """Take a connection."""
        self._socket = connection
        self._received = b""

    def send(self, message: dict[str, Any], seconds: float | None = None) -> None:
        """Send a message. Raises OSError if nobody takes it, within `seconds` if they are given."""
        self._socket.settimeout(seconds)
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float, longest: int = LONGEST) -> dict[str, Any]:
        """Return the next message, of at most `longest` bytes, for which there are `seconds` on a quiet machine.

        Raises TimeoutError if none has come by then, OSError if none can come, or if what comes is none.
        """
        deadline = Deadline(seconds)
        while b"\n" not in self._received:
            self._socket.settimeout(max(0.001, min(SLICE_S, deadline.left())))
            try:
                chunk = self._socket.recv(65_536)
            except TimeoutError:
                if deadline.passed():
                    raise
                continue
            if not chunk:
                raise ConnectionError("the other end hung up")
            self._received += chunk
            if len(self._received) > longest:
                raise ConnectionError("the other end sends something else")
        line, _, self._received = self._received.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConnectionError("the other end sends something else") from error
        if not isinstance(message, dict):
            raise ConnectionError("the other end sends something else")
        return message

    def gone(self) -> bool:
        """Say whether the other end has hung up."""
        ready = select.select([self._socket], [], [], 0.0)[0]
        try:
            return bool(ready) and len(self._socket.recv(1, socket.MSG_PEEK)) == 0
        except OSError:
            return True

    def close(self) -> None:
        """Hang up, also on a thread that waits for a message."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
