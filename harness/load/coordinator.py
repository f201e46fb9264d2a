"""Where workers of other hosts report, get their part of the load, and hand in their samples: `Coordinator`.

Locust's own protocol connects the clients themselves: to locust a worker of another host is like any other. Such a
worker lacks the plan, which a local one has in its environment, and a shared disk for its samples.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from harness.errors import RunError, SettingsError, StartError
from harness.load.plan import to_values
from harness.load.wire import BED, LONGEST_HELLO, PORT, WORKER, address_of, nonce_of, proof, shows, version
from harness.paths import write_private
from harness.processes.deadline import PAUSE_S, Deadline
from harness.processes.line import Line
from harness.scenarios.clients import OVER_API

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from harness.load.plan import Plan
    from harness.scenarios.scenario import Scenario

NAMES = ("remote_workers", "workers_address", "workers_key_file")
KEY_FILE = "workers.key"
SHORTEST = 16


@dataclass(frozen=True)
class Remote:
    """Workers of other hosts: how many, where they find the bed, and the word that lets them in.

    The word is in a file, as everybody can read the command lines of a machine's processes. Unless its user chooses
    one, it comes with the folder of the run.
    """

    workers: int
    address: str
    port: int = PORT
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    key_file: Path | None = None

    @property
    def told(self) -> str:
        """Return what has to be done on the other hosts."""
        several = "s" if self.workers > 1 else ""
        return (
            f"{self.workers} worker{several} of other hosts may join. On each, in a checkout of the same version, "
            f"with a copy of {self.key_file}: "
            f"build/venv/bin/python -m harness worker {self.address}:{self.port} --key-file {KEY_FILE}"
        )

    def with_file(self, folder: Path) -> Remote:
        """Return the same with a file that holds the word, which is written into `folder` unless there is one."""
        if self.key_file:
            return self
        write_private(folder / KEY_FILE, f"{self.key}\n")
        return replace(self, key_file=folder / KEY_FILE)

    @staticmethod
    def check(scenario: Scenario) -> None:
        """Raise SettingsError if a scenario has clients that can be at work on the master's machine only."""
        names = [f"`{clients.name}` ({clients.kind})" for clients in scenario.clients if clients.kind not in OVER_API]
        if names:
            raise SettingsError(
                f"Workers of other hosts reach salt-api only, and the clients {', '.join(names)} run Salt's own "
                "commands: leave them out of the scenario, or --remote-workers."
            )


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("workers of other hosts (docs/load-reference.md)")
    group.add_argument(
        "--remote-workers", type=int, metavar="N", help="workers of other hosts that send a part of the requests too"
    )
    group.add_argument(
        "--workers-address", metavar="IP[:PORT]", help=f"where they reach this machine (default port: {PORT})"
    )
    group.add_argument(
        "--workers-key-file",
        type=Path,
        metavar="FILE",
        help=f"file with their key (default: {KEY_FILE} in the run's folder, with a new key)",
    )


def settings(options: argparse.Namespace) -> Remote | None:
    """Return which workers of other hosts are asked for, None for none.

    Raises SettingsError for options that need others, or a number that makes no sense.
    """
    given = [name for name in NAMES if getattr(options, name) is not None]
    if not given:
        return None
    if options.remote_workers is None or options.workers_address is None:
        raise SettingsError("--remote-workers and --workers-address belong together: give both.")
    if options.remote_workers < 1:
        raise SettingsError("--remote-workers has to be at least 1.")
    if options.docker:
        raise SettingsError("--remote-workers and --docker exclude each other: leave one out.")
    host, port = address_of(options.workers_address)
    if options.workers_key_file is None:
        return Remote(options.remote_workers, host, port)
    return Remote(options.remote_workers, host, port, read_key(options.workers_key_file), options.workers_key_file)


def read_key(file: Path) -> str:
    """Return the word in a file. Raises SettingsError if there is none."""
    try:
        word = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The key of the workers can't be read: {error}; give another file.") from error
    # whoever hears a proof can try words at leisure
    if len(word) < SHORTEST:
        raise SettingsError(
            f"{file} has no safe key: write at least {SHORTEST} characters into it that nobody can guess."
        )
    return word


# for those who start workers by hand, beside a bed that takes its time
JOIN_S = 300.0
HELLO_S = 10.0
# on a quiet machine: workers say each second that they live, and hand in their last rows at the end
SILENT_S = 20.0
LAST_S = 60.0
# how many may be connected without having shown the key; another one takes the place of the first
STRANGERS = 64
# what workers write, by the names of their files
FILES = ("requests", "logins", "clocks")


@dataclass(eq=False)
class RemoteWorker:
    """One worker of another host: the line to it, its host's name, and its number once it has its part of the load."""

    line: Line
    host: str
    number: int = -1
    heard: Deadline = field(default_factory=lambda: Deadline(SILENT_S))
    heard_at: float = field(default_factory=time.time)
    problem: str = ""
    code: int | None = None
    files: dict[str, TextIO] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return what reports call it."""
        return f"worker {self.number} on {self.host}"


class Coordinator:
    """The place where the bed waits for workers of other hosts; a context manager."""

    def __init__(self, remote: Remote) -> None:
        """Take who is expected; nothing listens before the context is entered."""
        self.remote = remote
        self._workers: list[RemoteWorker] = []
        # whoever has not shown the key yet, and who was refused last
        self._strangers: list[Line] = []
        self._refused = ""
        self._lock = threading.Lock()
        self._closing = False
        self._samples: Path | None = None

    def __enter__(self) -> Self:
        """Listen. Raises SettingsError if the address can't be used."""
        where = (self.remote.address, self.remote.port)
        try:
            self._server = socket.create_server(where)
        except OSError as error:
            raise SettingsError(
                f"Workers of other hosts can't join at {where[0]}:{where[1]} ({error.strerror}): give an address of "
                "this machine and a free port with --workers-address."
            ) from error
        threading.Thread(target=self._welcome, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Hang up on everybody: workers without their part of a load come again."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            lines = [*self._strangers, *(worker.line for worker in self._workers)]
        for line in lines:
            line.close()
        for worker in self._workers:
            for file in worker.files.values():
                file.close()

    def gather(self, check: Callable[[], None], seconds: float = JOIN_S) -> None:
        """Wait until all workers are there; `check` is called meanwhile. Raises StartError if they don't come."""
        deadline = Deadline(seconds, time.monotonic)
        while len(self._workers) < self.remote.workers:
            check()
            self._drop_gone()
            if deadline.passed():
                raise StartError(
                    f"Only {len(self._workers)} of {self.remote.workers} workers of other hosts joined within "
                    f"{seconds:g} s: {self.remote.told}{self._refused}"
                )
            time.sleep(PAUSE_S * 5)

    def hand_out(self, plan: Plan, port: int) -> None:
        """Give each worker its part of the load; locust's master listens on `port`."""
        self._samples = plan.samples
        scenario = plan.scenario_file.read_text(encoding="utf-8")
        first = plan.share.workers - self.remote.workers
        for number, worker in enumerate(self._workers, start=first):
            worker.number = number
            # what lies on this machine is of no use there
            part = dataclasses.replace(
                plan,
                scenario_file=Path(),
                samples=Path(),
                commands={},
                command_environment={},
                api=plan.api.reachable_at(self.remote.address),
                share=dataclasses.replace(plan.share, worker=number),
            )
            try:
                worker.line.send(
                    {
                        "plan": to_values(part),
                        "scenario": scenario,
                        "host": self.remote.address,
                        "port": port,
                    }
                )
            except OSError as error:
                raise RunError(f"The {worker.name} has gone before the load began: {error}.") from error
            worker.heard, worker.heard_at = Deadline(SILENT_S), time.time()
            threading.Thread(target=self._listen, args=(worker, plan.samples), daemon=True).start()

    def check(self) -> None:
        """Raise RunError if a worker has gone, failed, or is silent."""
        for worker in self._workers:
            since = time.strftime("%H:%M:%S", time.localtime(worker.heard_at))
            if worker.code is None and worker.problem:
                raise RunError(f"The {worker.name} has gone at {since}: {worker.problem}. Start the run again.")
            if worker.code is None and worker.heard.passed():
                raise RunError(f"The {worker.name} has been silent since {since}: start the run again.")
            if worker.code:
                raise RunError(f"The {worker.name} ended with exit code {worker.code} at {since}: {worker.problem}")

    def done(self) -> bool:
        """Say whether every worker has handed in all of its samples."""
        return all(worker.code == 0 for worker in self._workers)

    def _drop_gone(self) -> None:
        """Forget workers that have hung up before they got their part."""
        with self._lock:
            gone = [worker for worker in self._workers if worker.line.gone()]
            self._workers = [worker for worker in self._workers if worker not in gone]
        for worker in gone:
            worker.line.close()

    def _welcome(self) -> None:
        while not self._closing:
            try:
                connection, (peer, _) = self._server.accept()
            except OSError:
                # the peer has gone already, this process has too many files open, or we are closing
                time.sleep(PAUSE_S)
                continue
            line = Line(connection)
            with self._lock:
                self._strangers.append(line)
                first = self._strangers.pop(0) if len(self._strangers) > STRANGERS else None
            if first:
                first.close()
            threading.Thread(target=self._greet, args=(line, peer), daemon=True).start()

    def _greet(self, line: Line, peer: str) -> None:
        """Let a worker in, or tell it why not."""
        joined = False
        try:
            hello = line.receive(HELLO_S, LONGEST_HELLO)
            problem = self._refusal(line, hello)
            if problem:
                self._refused = f" The last one refused was {peer}: {problem}."
                line.send({"error": problem})
                return
            worker = RemoteWorker(line, str(hello.get("host")))
            with self._lock:
                wanted = len(self._workers) < self.remote.workers and self._samples is None
                # unless another stranger has taken its place
                joined = wanted and line in self._strangers
                if joined:
                    self._strangers.remove(line)
                    self._workers.append(worker)
            if not joined:
                line.send({"wait": f"this load has its {self.remote.workers} workers already"})
        except OSError:
            return
        finally:
            if not joined:
                line.close()
                with self._lock, contextlib.suppress(ValueError):
                    self._strangers.remove(line)

    def _refusal(self, line: Line, hello: dict[str, Any]) -> str:
        """Return why a worker may not join; if it may, show it that we know the key as well."""
        if hello.get("version") != version():
            return f"the bed there has version {version()}, the worker another one: check out the same commit"
        nonces = nonce_of(hello), secrets.token_hex(16)
        line.send({"nonce": nonces[1]})
        if not shows(line.receive(HELLO_S, LONGEST_HELLO), self.remote.key, WORKER, nonces):
            return "the key is another one than that of this load: give a copy of its file with --key-file"
        line.send({"proof": proof(self.remote.key, BED, nonces)})
        return ""

    def _listen(self, worker: RemoteWorker, samples: Path) -> None:
        """Take what a worker sends, until its end."""
        try:
            while worker.code is None:
                message = worker.line.receive(LAST_S * 10)
                worker.heard, worker.heard_at = Deadline(SILENT_S), time.time()
                if message.get("name") in FILES:
                    self._write(worker, samples / f"{message['name']}.{worker.number}.csv", message["rows"])
                elif "ended" in message:
                    for file in worker.files.values():
                        file.close()
                    worker.problem = str(message.get("tail", ""))
                    worker.line.send({"taken": 1})
                    worker.code = int(message["ended"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            worker.problem = str(error) or type(error).__name__

    @staticmethod
    def _write(worker: RemoteWorker, path: Path, rows: list[str]) -> None:
        if path.name not in worker.files:
            worker.files[path.name] = path.open("w", newline="", encoding="utf-8")
        worker.files[path.name].writelines(rows)
        worker.files[path.name].flush()
