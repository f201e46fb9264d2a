"""The line to the worker: what the compiler asks is answered before it goes on."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import salt.payload

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

_LENGTH: Final = struct.Struct(">I")


class Line:
    """A connection to the worker; `work` adds up the milliseconds of simulated work since the last question."""

    def __init__(self, sock: socket.socket) -> None:
        """Use a connected socket."""
        self._file = sock.makefile("rwb")
        self.work = 0.0

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        return dict(salt.payload.loads(self._file.read(length), encoding="utf-8"))

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        data = salt.payload.dumps(message, use_bin_type=True)
        self._file.write(_LENGTH.pack(len(data)) + data)
        self._file.flush()

    def ask(self, **message: Any) -> Any:
        """Ask something, and return the answer.

        Raises:
            EOFError: if the worker has gone.

        """
        self.send({**message, "pause": self.pause()})
        answer = self.receive()
        if answer is None:
            raise EOFError("The worker has gone.")
        return answer["answer"]

    def pause(self) -> float:
        """Return the seconds of work since the last question, and begin to count from zero."""
        pause, self.work = self.work / 1000.0, 0.0
        return pause
