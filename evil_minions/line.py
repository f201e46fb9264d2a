"""The dialogue between two processes: messages in JSON, one line each.

`Line` waits for messages, `AsyncLine` awaits them on an event loop; both have a time limit for each message, and
`Child` is a process at the other end of a line, whose name and last output are in its errors. Only the compiler of
states has another framing: its messages hold the contents of files, and keys of mappings that are no text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST: Final = 64 * 2**20
"""Bytes of the longest message."""
_SLICE_S: Final = 0.5
_CHUNK: Final = 65_536
# of what a process printed
PRINTED_BYTES: Final = 4096
_PRINTED_LINES: Final = 5
# for a process to end after its line has closed, which takes Python a while on a busy machine
_END_S: Final = 10.0
# and for its last output
_LAST_S: Final = 1.0
_STOP_S: Final = 10.0


class MalformedError(ConnectionError):
    """The other end sent a line that is no message."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as it is sent; what JSON does not know goes as text."""
    return json.dumps(message, default=str).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the message in a line.

    Raises:
        MalformedError: if there is none.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedError("the other end sends something else") from error
    if not isinstance(message, dict):
        raise MalformedError("the other end sends something else")
    return message


def printed(output: bytes) -> str:
    """Return the end of what a process printed as a sentence for its error, or nothing if it printed nothing."""
    lines = output.decode(errors="replace").rstrip().splitlines()[-_PRINTED_LINES:]
    return "\n".join([" The last lines that it printed are:", *lines]) if lines else ""


class Line:
    """A connection over which whole messages go; no two threads may receive at once."""

    def __init__(self, connection: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        """Use a connected socket; time limits are in seconds of `clock`."""
        self._socket = connection
        self._clock = clock
        self._received = b""

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any], seconds: float | None = None) -> None:
        """Send a message.

        Raises:
            OSError: if nobody takes it, within `seconds` if they are given.
        """
        self._socket.settimeout(seconds)
        self._socket.sendall(encode(message))

    def receive(self, seconds: float = math.inf) -> dict[str, Any]:
        """Return the next message.

        Raises:
            TimeoutError: if none has come within `seconds`.
            OSError: if none can come, or if what comes is none.
        """
        end = self._clock() + seconds
        while b"\n" not in self._received:
            left = end - self._clock()
            self._socket.settimeout(max(0.001, min(_SLICE_S, left)))
            try:
                chunk = self._socket.recv(_CHUNK)
            except TimeoutError:
                if left <= 0:
                    raise
                continue
            if not chunk:
                raise ConnectionError("the other end hung up")
            self._received += chunk
            if len(self._received) > LONGEST:
                raise MalformedError("the other end sends something else")
        line, _, self._received = self._received.partition(b"\n")
        return decode(line)

    def waits(self) -> bool:
        """Say whether another message has been received already."""
        return b"\n" in self._received

    def close(self) -> None:
        """Hang up, also on a thread that waits for a message."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class AsyncLine:
    """The same on an event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use the streams of a connection, whose limit is `LONGEST`."""
        self.reader = reader
        self.writer = writer

    @classmethod
    async def over(cls, connection: socket.socket) -> Self:
        """Return a line over a connected socket."""
        return cls(*await asyncio.open_connection(sock=connection, limit=LONGEST))

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message.

        Raises:
            OSError: if nobody takes it.
        """
        self.writer.write(encode(message))
        await self.writer.drain()

    async def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """Return the next message.

        Raises:
            TimeoutError: if none has come within `seconds`.
            OSError: if none can come, or if what comes is none.
        """
        try:
            line = await asyncio.wait_for(self.reader.readline(), seconds)
        except ValueError as error:
            raise ConnectionError("the other end sends something else") from error
        if not line.endswith(b"\n"):
            raise ConnectionError("the other end hung up")
        return decode(line)

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


class Child:
    """A process of Python's on the other end of a line; what it prints as errors is passed on, and its end is kept."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, line: AsyncLine) -> None:
        """Use a process that `start` has started."""
        self.name = name
        self.process = process
        self.line = line
        self._printed = b""
        self._copying = asyncio.create_task(self._copy())

    @classmethod
    async def start(cls, name: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Self:
        """Start `python -m module DESCRIPTOR arguments`, where the descriptor is its end of the line."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    module,
                    str(theirs.fileno()),
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                    env=environment,
                )
            except BaseException:
                ours.close()
                raise
        return cls(name, process, await AsyncLine.over(ours))

    async def _copy(self) -> None:
        """Pass on what the process prints as errors, and keep its end."""
        while self.process.stderr and (chunk := await self.process.stderr.read(_CHUNK)):
            self._printed = (self._printed + chunk)[-PRINTED_BYTES:]
            with contextlib.suppress(OSError):
                os.write(2, chunk)

    def describe(self) -> str:
        """Return which process this is."""
        return f"{self.name} (process {self.process.pid})"

    def last(self) -> str:
        """Return what it printed last, see `printed`."""
        return printed(self._printed)

    async def describe_end(self) -> str:
        """Return how a process whose line has closed has ended, which is known a moment later, and its last output."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), _END_S)
        # a process that it has left behind may keep the pipe open
        await asyncio.wait([self._copying], timeout=_LAST_S)
        code = self.process.returncode
        by = f" ({signal.Signals(-code).name})" if code and -code in set(signal.Signals) else ""
        end = "has hung up" if code is None else f"ended with exit code {code}{by}"
        return f"{self.describe()} {end}.{self.last()}"

    async def stop(self, *, asked: bool = True) -> None:
        """Hang up and end the process: by SIGTERM if `asked`, and for certain after ten seconds."""
        self.line.close()
        try:
            if asked and self.process.returncode is None:
                self.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(self.process.wait(), _STOP_S)
        except TimeoutError:
            self.process.kill()
        except ProcessLookupError:
            pass
        await self.process.wait()
        self._copying.cancel()
