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
    from evil_minions.fleet.settings import FleetSettings

_STOP_SECONDS: Final = 10.0
# the largest fleet on the busiest machine takes some of them
_SILENT_SECONDS: Final = 120.0
_LINE_LIMIT: Final = 64 * 1024 * 1024
_PACKAGE_PARENT: Final = str(Path(__file__).resolve().parent.parent.parent)


class WorkerLink:
    """One worker process and the line to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        settings: FleetSettings,
    ) -> None:
        """Use a process that has been started for the minions that `settings` say."""
        self.process = process
        self._first, self._last = settings.size.numbers[0], settings.size.numbers[-1]
        self._silent = False
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
                "evil_minions.fleet.worker",
                str(theirs.fileno()),
                settings.to_json(),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": path},
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_LIMIT)
        return cls(process, reader, writer, settings)

    def told(self) -> str:
        """Return which worker this is and, if it has ended, how."""
        name = f"The worker with the minions {self._first} to {self._last} (process {self.process.pid})"
        code = self.process.returncode
        if code is None:
            return name
        by = f" ({signal.Signals(-code).name})" if -code in set(signal.Signals) else ""
        return f"{name} ended with exit code {code}{by}"

    async def ask(self, request: dict[str, Any], seconds: float = _SILENT_SECONDS) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises:
            ControlError: if the worker has gone, or does not answer a question for its state within `seconds`.

        """
        async with self._turn:
            if self._silent:
                raise ControlError(f"{self.told()} does not answer any more: end the fleet.")
            try:
                self._writer.write(json.dumps(request).encode() + b"\n")
                await self._writer.drain()
                # orders have no time limit
                limit = seconds if request.get("do") == "status" else None
                line = await asyncio.wait_for(self._reader.readline(), limit)
                return dict(json.loads(line))
            except TimeoutError as error:
                # its late answer would be mistaken for that to the next request
                self._silent = True
                raise ControlError(f"{self.told()} has not answered for {seconds:g} s: end the fleet.") from error
            except (OSError, ValueError) as error:
                gone = " has gone" if self.process.returncode is None else ""
                raise ControlError(f"{self.told()}{gone}: see what it printed.") from error

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
