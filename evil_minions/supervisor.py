"""The supervisor: starts the workers of a fleet, answers for all of them, and ends them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from evil_minions import control, keys
from evil_minions.errors import ControlError, EvilMinionsError, NotReadyError, UsageError
from evil_minions.status import Status, combine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from evil_minions.settings import FleetSettings

_STOP_SECONDS: Final = 10.0
_LINE_LIMIT: Final = 64 * 1024 * 1024
_PACKAGE_PARENT: Final = str(Path(__file__).resolve().parent.parent)
_SAMPLES: Final = ("jobs.*.csv", "returns.*.csv", "starts.*.csv")
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "status": (),
    "flush": (),
    "stop": (),
    "match": ("tgt",),
    "pillar": ("id",),
}


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


class Supervisor:
    """A fleet that runs; an asynchronous context manager that owns its workers and its control socket."""

    def __init__(self, settings: FleetSettings) -> None:
        """Check the settings; nothing runs yet.

        Raises:
            UsageError: if they can't be used.

        """
        settings.check()
        self.settings = settings
        self.stopping = asyncio.Event()
        self._workers: list[WorkerLink] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Make the folder, the keys and the socket, and start the workers."""
        folder = self.settings.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder} can't be made ({error.strerror}): give another --folder.") from error
        self._server = await control.serve(folder, self.answer)
        try:
            for pattern in _SAMPLES:
                for old in folder.glob(pattern):
                    old.unlink()
            keys.load_pool(folder)
            for share in self.settings.shares():
                self._workers.append(await WorkerLink.start(share))
        except OSError as error:
            await self._close()
            raise UsageError(f"{folder} can't be used ({error.strerror}): give another --folder.") from error
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers, and remove the socket."""
        await self._close()

    async def _close(self) -> None:
        """End everything."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        if self._server is not None:
            self._server.close()
            control.socket_path(self.settings.folder).unlink(missing_ok=True)

    async def status(self) -> Status:
        """Return the state of the fleet."""
        return combine(await self._all({"do": "status"}))

    async def _all(self, request: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Ask all workers the same."""
        return await asyncio.gather(*(worker.ask(request) for worker in self._workers))

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the control socket.

        Raises:
            ControlError: if the request makes no sense or a worker has gone.

        """
        do = str(request.get("do"))
        if do not in _NEEDED or any(name not in request for name in _NEEDED[do]):
            usage = "; ".join(f"{name} {' '.join(needed)}".strip() for name, needed in _NEEDED.items())
            raise ControlError(f"A request has `do` and what it needs: {usage}.")
        match do:
            case "status":
                return (await self.status()).to_dict()
            case "stop":
                self.stopping.set()
                return {}
            case "match":
                request = {"tgt_type": "glob", "delimiter": ":", **request}
                return {"ids": [name for found in await self._all(request) for name in found["ids"]]}
            case "pillar":
                found = [reply for reply in await self._all(request) if "pillar" in reply]
                if not found:
                    raise ControlError(f"The fleet has no minion {request['id']}.")
                return found[0]
            case _:
                await self._all(request)
                return {}

    async def run(self, report: Callable[[Status], None], every: float, until_ready: float | None) -> None:
        """Report the state every so many seconds until the fleet is stopped.

        Raises:
            NotReadyError: if not every minion is ready after `until_ready` seconds.
            EvilMinionsError: if a worker ends by itself.

        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        deadline = None if until_ready is None else loop.time() + until_ready
        ended = [asyncio.create_task(worker.process.wait()) for worker in self._workers]
        stop = asyncio.create_task(self.stopping.wait())
        try:
            while True:
                pause = every if deadline is None else max(0.0, min(every, deadline - loop.time()))
                await asyncio.wait([stop, *ended], timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if self.stopping.is_set():
                    return
                if any(task.done() for task in ended):
                    raise EvilMinionsError("A worker has ended: see what it printed above.")
                status = await self.status()
                report(status)
                if status.ready == status.minions:
                    deadline = None
                elif deadline is not None and loop.time() >= deadline:
                    raise NotReadyError(
                        f"Only {status.ready} of {status.minions} minions got ready in {until_ready:g} s."
                    )
        finally:
            for task in (stop, *ended):
                task.cancel()
