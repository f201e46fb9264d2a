"""The process that compiles: started when a state run first needs it, and asked for one run at a time."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

import salt.payload

from evil_minions.errors import CompilerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_LENGTH: Final = struct.Struct(">I")
_END_SECONDS: Final = 10.0
_MODULE: Final = "evil_minions.states.compile"


class Compiler:
    """The compiling process of a worker."""

    def __init__(self, folder: Path) -> None:
        """Start nothing yet; what the process caches lies below `folder` while it runs."""
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def _start(self) -> None:
        """Start the process; it ends with the connection."""
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _MODULE, str(theirs.fileno()), str(self._folder), pass_fds=[theirs.fileno()]
            )
        self._reader, self._writer = await asyncio.open_connection(sock=mine)

    async def compile(
        self, order: dict[str, Any], answer: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> dict[str, Any]:
        """Have one run compiled; `answer` answers what the compiler asks on the way. Return the outcome.

        Raises:
            CompilerError: if the process ends meanwhile.

        """
        if self._process is None or self._process.returncode is not None:
            await self._start()
        try:
            await self._send(order)
            while True:
                message = await self._receive()
                if "end" in message:
                    return dict(message["end"])
                await self._send({"answer": await answer(message)})
        except (OSError, asyncio.IncompleteReadError) as error:
            await self.close()
            raise CompilerError("The state compiler of the fleet has ended: see what it printed.") from error
        except BaseException:
            # whatever it waits for won't come
            await self.close()
            raise

    async def _send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        data = salt.payload.dumps(message, use_bin_type=True)
        if self._writer is not None:
            self._writer.write(_LENGTH.pack(len(data)) + data)
            await self._writer.drain()

    async def _receive(self) -> dict[str, Any]:
        """Return the next message."""
        if self._reader is None:
            raise CompilerError("The state compiler of the fleet was not started.")
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        return dict(salt.payload.loads(await self._reader.readexactly(length), encoding="utf-8"))

    async def close(self) -> None:
        """End the process: it tidies up and goes when nobody is there any more, or is killed."""
        process, self._process = self._process, None
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        if process is None:
            return
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
