"""The supervisor: starts the workers of a fleet, answers for all of them, and ends them."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import pickle
import signal
import socket
import stat
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from evil_minions.behaviour import behaviour
from evil_minions.errors import ControlError, EvilMinionsError, NotReadyError, UsageError
from evil_minions.fleet import client, ramp
from evil_minions.fleet.orders import ORDERS, Selection
from evil_minions.fleet.status import Status, combine
from evil_minions.functions.modules import FUNCTIONS
from evil_minions.inventory.grains import load_population
from evil_minions.inventory.inventory import KINDS
from evil_minions.network.path import KEYS, NetworkPath
from evil_minions.protocol import keys
from evil_minions.recording.recording import load
from evil_minions.recording.replay import Pace, Replay
from evil_minions.samples.files import read_samples
from evil_minions.samples.rows import JobRow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from evil_minions.fleet.settings import FleetSettings


def check_fleet(settings: FleetSettings, asked: Iterable[str] = (), later: Iterable[str] = ()) -> None:
    """Check everything that needs no master.

    Args:
        settings: of the fleet.
        asked: names of functions that its minions have to know.
        later: names of behaviours that they get while they run.

    Raises:
        UsageError: for what can't work; for functions that are not known, a line for each.

    """
    settings.check()
    if settings.master.autosign:
        ramp.grains(settings.master.autosign)
    for each in settings.shares.behaviours:
        behaviour.load(each.name)
    for name in later:
        behaviour.load(behaviour.find(name))
    if settings.looks.population:
        load_population(settings.looks.population)
    if wanted := list(asked):
        _check_functions(settings, wanted)


def _check_functions(settings: FleetSettings, asked: list[str]) -> None:
    path, pace = settings.replies.recording, Pace(settings.replies.slowdown, settings.replies.jitter)
    recorded = Replay(load(path), settings.seed, pace).functions if path else frozenset[str]()
    known = frozenset(FUNCTIONS) | recorded
    told = []
    for name in dict.fromkeys(asked):
        if name in known:
            continue
        near = difflib.get_close_matches(name, sorted(known), n=1)
        advice = (
            f"did you mean {near[0]}?"
            if near
            else "record it on a real minion, add it in evil_minions/functions/modules/, or correct its name."
        )
        told.append(f"The simulated minions do not know the function {name}: {advice}")
    if told:
        raise UsageError("\n".join(told))


_STOP_SECONDS: Final = 10.0
# the largest fleet on the busiest machine takes some of them
_SILENT_SECONDS: Final = 120.0
_LINE_LIMIT: Final = 64 * 1024 * 1024
_PACKAGE_PARENT: Final = str(Path(__file__).resolve().parent.parent.parent)


async def serve(folder: Path, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> asyncio.Server:
    """Open the control socket of `folder`, for its owner only, and answer every line with `answer`.

    Raises:
        UsageError: if another fleet runs in this folder, or the socket can't be made there.

    """
    path = client.socket_path(folder)
    if path.exists():
        try:
            client.connect(folder, timeout=1.0).close()
        except ControlError:
            path.unlink()
        else:
            raise UsageError(f"Another fleet runs in {folder}: stop it, or give another --folder.")

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await _reply(line, answer), default=str).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(converse, str(path), limit=_LINE_LIMIT)
    except OSError as error:
        raise UsageError(f"{path} can't be made ({error.strerror}): give another --folder.") from error
    finally:
        os.umask(mask)


async def _reply(line: bytes, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the answer to one line, an error included."""
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            return {"error": "A request is a JSON object with a key `do`."}
        return await answer(request)
    except ValueError:
        return {"error": "A request is one line of JSON."}
    except EvilMinionsError as error:
        return {"error": str(error)}


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
                pickle.dumps(settings).hex(),
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


_SAMPLES: Final = ("jobs.*.csv", "tallies.*.csv", "returns.*.csv", "starts.*.csv", "decisions.*.csv")
_KNOCK_SECONDS: Final = 2.0
_ASSEMBLY_SECONDS: Final = 0.3
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "status": (),
    "flush": (),
    "unseen": ("jids",),
    "stop": (),
    "match": ("tgt",),
    **{order.name: (order.argument,) if order.argument else () for order in ORDERS.values()},
}


class Supervisor:
    """A fleet that runs; an asynchronous context manager that owns its workers and its control socket."""

    def __init__(self, settings: FleetSettings) -> None:
        """Check the settings; nothing runs yet.

        Raises:
            UsageError: if they can't be used.

        """
        check_fleet(settings)
        self.settings = settings
        self.stopping = asyncio.Event()
        self._workers: list[WorkerLink] = []
        self._shares: list[FleetSettings] = []
        self._ended = asyncio.Event()
        self._ends: list[asyncio.Task[int]] = []
        self._turn = asyncio.Lock()
        self._turns = 0
        self._server: asyncio.Server | None = None
        self._assembly: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Make the folder, the keys and the socket, and start the workers."""
        folder = self.settings.folder
        try:
            # a master of another user has to get to the files of `keystates`, by their names
            folder.mkdir(mode=0o711 if self.settings.shares.keys else 0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder} can't be made ({error.strerror}): give another --folder.") from error
        entry = folder.stat()
        owners = {entry.st_uid, folder.lstat().st_uid}
        if owners - {0, os.geteuid()} or entry.st_mode & stat.S_IWOTH:
            # they could put links in the place of files, and another socket, or let their link lead elsewhere
            raise UsageError(f"Other users may write into {folder}: give a --folder of your own.")
        self._server = await serve(folder, self.answer)
        try:
            for pattern in _SAMPLES:
                for old in folder.glob(pattern):
                    old.unlink()
            keys.load_pool(folder)
            if self.settings.shares.keys:
                numbers = self.settings.size.numbers
                ramp.write(replace(self.settings, whole=(numbers.start, numbers.stop)))
            for share in self.settings.workers():
                await self._start(share)
        except OSError as error:
            await self._close()
            raise UsageError(f"{folder} can't be used ({error.strerror}): give another --folder.") from error
        except BaseException:
            await self._close()
            raise
        return self

    async def _start(self, share: FleetSettings) -> None:
        worker = await WorkerLink.start(share)
        self._shares.append(share)
        self._workers.append(worker)
        end = asyncio.create_task(worker.process.wait())
        end.add_done_callback(lambda _task: self._ended.set())
        self._ends.append(end)
        if self._assembly is None or self._assembly.done():
            self._assembly = asyncio.create_task(self._assemble())

    async def _assemble(self) -> None:
        """Let the workers ask for pillars once all of them have their minions connected."""
        with suppress(ControlError):
            while not all(reply["assembled"] for reply in await self._all({"do": "assembled"})):  # noqa: ASYNC110 - they are other processes
                await asyncio.sleep(_ASSEMBLY_SECONDS)
            await self._all({"do": "begin"})

    async def __aexit__(self, *_error: object) -> None:
        """End the workers, and remove the socket."""
        await self._close()

    async def _close(self) -> None:
        for task in (*self._ends, *filter(None, [self._assembly])):
            task.cancel()
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        if self._server is not None:
            self._server.close()
            client.socket_path(self.settings.folder).unlink(missing_ok=True)

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
            case "unseen":
                return await self._unseen(request["jids"])
            case "stop":
                self.stopping.set()
                return {}
            case "flush":
                await self._all(request)
                return {}
            case "match":
                request = {"tgt_type": "glob", "delimiter": ":", **request}
                return {"ids": [name for found in await self._all(request) for name in found["ids"]]}
            case _:
                async with self._turn:
                    return {"minions": await self._order(do, request)}

    async def _unseen(self, jids: Sequence[str]) -> dict[str, Any]:
        """Return those of the job ids that no minion has heard of, by the workers' files: they take no memory."""
        await self._all({"do": "flush"})
        seen = await asyncio.to_thread(lambda: {row.jid for row in read_samples(self.settings.folder, JobRow)})
        return {"unseen": [jid for jid in jids if jid not in seen]}

    async def _order(self, do: str, request: dict[str, Any]) -> int:
        """Carry out an order to some minions, and return how many it changed.

        Raises:
            ControlError: if the request makes no sense or a worker has gone.

        """
        if do == "scale":
            return await self._scale(request["minions"])
        if do == "heal":
            return await self._sum({"do": "heal"})
        selection = Selection.of(request)
        more: dict[str, Any] = {}
        if do == "behaviour":
            more = {"name": str(behaviour.find(str(request["name"])))}
            behaviour.load(more["name"])
        elif do == "network":
            if not isinstance(request["path"], dict):
                raise ControlError(f"`path` is {request['path']!r}, but has to be an object with {', '.join(KEYS)}.")
            more = {"path": NetworkPath.of(request["path"]).to_dict()}
        target = selection.to_dict() if selection.tgt is not None else {}
        if target and selection.tgt_type not in KINDS:
            raise ControlError(f"`tgt_type` is {selection.tgt_type!r}, but has to be one of {', '.join(KINDS)}.")
        found = await self._all({"do": "candidates", "order": do, **target})
        candidates = sorted(number for reply in found for number in reply["numbers"])
        self._turns += selection.share is not None
        picked = selection.pick(candidates, self.settings.seed, self._turns)
        return await self._sum({"do": do, "numbers": picked, **more})

    async def _sum(self, request: dict[str, Any]) -> int:
        """Ask all workers the same, and add up how many minions each of them changed."""
        return sum(int(reply["minions"]) for reply in await self._all(request))

    async def _scale(self, minions: object) -> int:
        """Have so many minions in all; the last worker takes as many more as it may, new ones take the rest."""
        if isinstance(minions, bool) or not isinstance(minions, int) or minions < 0:
            raise ControlError(f"`minions` is {minions!r}, but has to be a whole number, 0 or more.")
        changed = 0
        left = minions
        for worker, share in zip(list(self._workers), list(self._shares), strict=True):
            room = share.size.minions
            if share is self._shares[-1]:
                room = max(room, min(left, self.settings.size.per_process))
                self._shares[-1] = replace(share, size=replace(share.size, minions=room))
            changed += (await worker.ask({"do": "scale", "minions": min(left, room)}))["minions"]
            left -= min(left, room)
        while left:
            last = self._shares[-1]
            count = min(left, self.settings.size.per_process)
            more = replace(last.size, first=last.size.numbers.stop, minions=count)
            await self._start(replace(last, worker=last.worker + 1, size=more))
            changed += count
            left -= count
        return changed

    async def _why(self, status: Status) -> str:
        """Return why minions are not ready, in words that say what to do."""
        wanted = status.minions - status.expected if self.settings.shares.keys else 0
        turned_away = status.pending + status.rejected + status.denied
        if status.pending and turned_away > wanted:
            return f"{status.pending} keys wait for acceptance: salt-key -A"
        if turned_away > wanted:
            return f"the master rejected or denied {status.rejected + status.denied} keys: salt-key -L shows them"
        if not status.authenticated:
            address, port = self.settings.master.address, self.settings.master.request_port
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _KNOCK_SECONDS)
            except (OSError, TimeoutError):
                return f"nothing answers on {address}:{port}"
            writer.close()
            return f"{address}:{port} answers, but signs no minion in: see the master's log, and check --transport"
        return f"{status.authenticated} are signed in: give them more time, or see the master's log"

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
        waits = [asyncio.create_task(event.wait()) for event in (self.stopping, self._ended)]
        try:
            while True:
                pause = every if deadline is None else max(0.0, min(every, deadline - loop.time()))
                await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if self.stopping.is_set():
                    return
                if self._ended.is_set():
                    gone = next(worker for worker in self._workers if worker.process.returncode is not None)
                    raise EvilMinionsError(f"{gone.told()}: see what it printed above.")
                status = await self.status()
                report(status)
                if status.ready >= status.expected:
                    deadline = None
                elif deadline is not None and loop.time() >= deadline:
                    reason = await self._why(status)
                    raise NotReadyError(
                        f"Only {status.ready} of {status.expected} minions got ready in {until_ready:g} s: {reason}."
                    )
        finally:
            for task in waits:
                task.cancel()
