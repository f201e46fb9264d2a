"""A worker process as its supervisor sees it: started, asked, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from evil_minions.errors import ControlError

if TYPE_CHECKING:
    from evil_minions.settings import FleetSettings

_STOP_SECONDS: Final = 10.0
_LINE_LIMIT: Final = 64 * 1024 * 1024
_PACKAGE_PARENT: Final = str(Path(__file__).resolve().parent.parent)


class WorkerLink:
    """One worker process and the line to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Use a process that has been started."""
        self.process = process
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, settings: FleetSettings) -> Self:
        """Start the worker that `settings` describe."""
        ours, theirs = socket.socketpair()
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), _PACKAGE_PARENT])
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "evil_minions.worker",
                str(theirs.fileno()),
                settings.to_json(),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": path},
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_LIMIT)
        return cls(process, reader, writer)

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises:
            ControlError: if the worker has gone.

        """
        async with self._turn:
            try:
                self._writer.write(json.dumps(request).encode() + b"\n")
                await self._writer.drain()
                line = await self._reader.readline()
                return dict(json.loads(line))
            except (OSError, ValueError) as error:
                raise ControlError("A worker of the fleet has gone: see what it printed.") from error

    async def stop(self) -> None:
        """End the worker: politely first, then for certain."""
        self._writer.close()
        if self.process.returncode is None:
            try:
                self.process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(self.process.wait(), _STOP_SECONDS)
            except TimeoutError:
                self.process.kill()
            except ProcessLookupError:
                pass
        await self.process.wait()
