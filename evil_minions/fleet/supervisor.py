"""The supervisor: starts the workers of a fleet, answers for all of them, and ends them."""

from __future__ import annotations

import asyncio
import difflib
import os
import pickle
import signal
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from evil_minions import behaviour
from evil_minions.errors import ControlError, EvilMinionsError, NotReadyError, UsageError
from evil_minions.fleet import client, ramp
from evil_minions.fleet.client import Status
from evil_minions.fleet.orders import ORDERS, Selection
from evil_minions.functions.modules import FUNCTIONS
from evil_minions.inventory import load_population
from evil_minions.inventory.targets import KINDS
from evil_minions.line import LONGEST, AsyncLine, Child, MalformedError
from evil_minions.protocol import keys
from evil_minions.recording import load
from evil_minions.recording.replay import Pace, Replay
from evil_minions.samples import JobRow, read_samples

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
    if settings.autosign:
        ramp.grains(settings.autosign)
    for each in settings.behaviours:
        behaviour.load(each.name)
    for name in later:
        behaviour.load(behaviour.find(name))
    if settings.population:
        load_population(settings.population)
    if wanted := list(asked):
        _check_functions(settings, wanted)


def _check_functions(settings: FleetSettings, asked: list[str]) -> None:
    path, pace = settings.recording, Pace(settings.slowdown, settings.jitter)
    recorded = Replay(load(path), settings.seed, pace).functions if path else frozenset[str]()
    known = frozenset(FUNCTIONS) | recorded
    problems = []
    for name in dict.fromkeys(asked):
        if name in known:
            continue
        near = difflib.get_close_matches(name, sorted(known), n=1)
        advice = (
            f"did you mean {near[0]}?"
            if near
            else "record it on a real minion, add it in evil_minions/functions/modules/, or correct its name."
        )
        problems.append(f"The simulated minions do not know the function {name}: {advice}")
    if problems:
        raise UsageError("\n".join(problems))


# the largest fleet on the busiest machine takes some of them
_SILENT_S: Final = 120.0
_WORKER: Final = "evil_minions.fleet.worker"
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
        line = AsyncLine(reader, writer)
        try:
            while True:
                await line.send(await _reply(line, answer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            line.close()

    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(converse, str(path), limit=LONGEST)
    except OSError as error:
        raise UsageError(f"{path} can't be made ({error.strerror}): give another --folder.") from error
    finally:
        os.umask(mask)


async def _reply(line: AsyncLine, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the answer to the next request, an error included."""
    try:
        return await answer(await line.receive())
    except MalformedError:
        return {"error": "A request is one line of JSON, an object with a key `do`."}
    except EvilMinionsError as error:
        return {"error": str(error)}


class WorkerLink:
    """One worker process, which is asked one thing after the other."""

    def __init__(self, child: Child) -> None:
        """Use a process that has been started."""
        self.child = child
        self._silent = False
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, settings: FleetSettings) -> Self:
        """Start the worker that `settings` describe."""
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), _PACKAGE_PARENT])
        numbers = settings.numbers
        name = f"The worker with the minions {numbers[0]} to {numbers[-1]}"
        environment = {**os.environ, "PYTHONPATH": path}
        return cls(await Child.start(name, _WORKER, pickle.dumps(settings).hex(), environment=environment))

    async def ask(self, request: dict[str, Any], seconds: float = _SILENT_S) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises:
            ControlError: if the worker has gone, or does not answer a question for its state within `seconds`.
        """
        async with self._turn:
            if self._silent:
                raise ControlError(
                    f"{self.child.describe()} does not answer any more: end the fleet.{self.child.last()}"
                )
            try:
                await self.child.line.send(request)
                # orders have no time limit
                return await self.child.line.receive(seconds if request.get("do") == "status" else None)
            except TimeoutError as error:
                # its late answer would be mistaken for that to the next request
                self._silent = True
                silent = f"has not answered for {seconds:g} s: end the fleet.{self.child.last()}"
                raise ControlError(f"{self.child.describe()} {silent}") from error
            except OSError as error:
                raise ControlError(await self.child.describe_end()) from error


_SAMPLES: Final = ("jobs.*.csv", "tallies.*.csv", "returns.*.csv", "starts.*.csv", "decisions.*.csv")
_KNOCK_S: Final = 2.0
_ASSEMBLY_S: Final = 0.3
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
        # before that an answer would be that of some workers
        self._started = asyncio.Event()
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
            folder.mkdir(mode=0o711 if self.settings.keys else 0o700, parents=True, exist_ok=True)
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
            if self.settings.keys:
                numbers = self.settings.numbers
                ramp.write(replace(self.settings, whole=(numbers.start, numbers.stop)))
            for share in self.settings.workers():
                await self._start(share)
        except OSError as error:
            await self._close()
            raise UsageError(f"{folder} can't be used ({error.strerror}): give another --folder.") from error
        except BaseException:
            await self._close()
            raise
        self._started.set()
        return self

    async def _start(self, share: FleetSettings) -> None:
        worker = await WorkerLink.start(share)
        self._shares.append(share)
        self._workers.append(worker)
        end = asyncio.create_task(worker.child.process.wait())
        end.add_done_callback(lambda _task: self._ended.set())
        self._ends.append(end)
        if self._assembly is None or self._assembly.done():
            self._assembly = asyncio.create_task(self._assemble())

    async def _assemble(self) -> None:
        """Let the workers ask for pillars once all of them have their minions connected."""
        with suppress(ControlError):
            while not all(reply["assembled"] for reply in await self._all({"do": "assembled"})):  # noqa: ASYNC110 - they are other processes
                await asyncio.sleep(_ASSEMBLY_S)
            await self._all({"do": "begin"})

    async def __aexit__(self, *_error: object) -> None:
        """End the workers, and remove the socket."""
        await self._close()

    async def _close(self) -> None:
        for task in (*self._ends, *filter(None, [self._assembly])):
            task.cancel()
        await asyncio.gather(*(worker.child.stop() for worker in self._workers))
        if self._server is not None:
            self._server.close()
            client.socket_path(self.settings.folder).unlink(missing_ok=True)

    async def status(self) -> Status:
        """Return the state of the fleet."""
        return Status.of([Status.from_dict(answer) for answer in await self._all({"do": "status"})])

    async def _all(self, request: dict[str, Any]) -> Sequence[dict[str, Any]]:
        return await asyncio.gather(*(worker.ask(request) for worker in self._workers))

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the control socket.

        Raises:
            ControlError: if the request makes no sense or a worker has gone.
        """
        await self._started.wait()
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
            return await self._scale(ORDERS[do].read(request["minions"]))
        if do == "heal":
            return await self._sum({"do": "heal"})
        selection, key = Selection.of(request), ORDERS[do].argument
        more = {key: ORDERS[do].read(request[key])} if key else {}
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

    async def _scale(self, minions: int) -> int:
        """Have so many minions in all; the last worker takes as many more as it may, new ones take the rest."""
        changed = 0
        left = minions
        for worker, share in zip(list(self._workers), list(self._shares), strict=True):
            room = share.minions
            if share is self._shares[-1]:
                room = max(room, min(left, self.settings.per_process))
                self._shares[-1] = replace(share, minions=room)
            changed += (await worker.ask({"do": "scale", "minions": min(left, room)}))["minions"]
            left -= min(left, room)
        while left:
            last = self._shares[-1]
            count = min(left, self.settings.per_process)
            await self._start(replace(last, worker=last.worker + 1, first=last.numbers.stop, minions=count))
            changed += count
            left -= count
        return changed

    async def _why(self, status: Status) -> str:
        """Return why minions are not ready, in words that say what to do."""
        wanted = status.minions - status.expected if self.settings.keys else 0
        turned_away = status.pending + status.rejected + status.denied
        if status.pending and turned_away > wanted:
            return f"{status.pending} keys wait for acceptance: salt-key -A"
        if turned_away > wanted:
            return f"the master rejected or denied {status.rejected + status.denied} keys: salt-key -L shows them"
        if not status.authenticated:
            address, port = self.settings.address, self.settings.request_port
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _KNOCK_S)
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
                    gone = next(worker for worker in self._workers if worker.child.process.returncode is not None)
                    raise EvilMinionsError(await gone.child.describe_end())
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
