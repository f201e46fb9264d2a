"""How long a worker of the master is kept by a database that fails: the seconds from the question to `_errors`."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome
from benchmarks.patched import Salt, options, patched
from harness.database import forms, scratch
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.options import Options

CONNECT_S, STATEMENT_S = 2, 1
SLEEP = "SELECT pg_sleep(60)"
KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE query LIKE '%pg_sleep(60)%' AND state = 'active' AND pid <> pg_backend_pid()"
)


@dataclass
class Failures:
    """The seven failures, each as a function that returns its seconds."""

    salt: Salt
    database: scratch.Database

    def each(self) -> Iterator[tuple[str, Callable[[], float]]]:
        """Yield them by name."""
        yield "database_down", self._down
        yield "wrong_password", lambda: self._fails(**{"pass": "wrong"})
        yield "missing_table", lambda: self._fails("SELECT a FROM nosuch WHERE id = %s")
        yield "broken_second_query", lambda: self._fails(*forms.FUNCTION, "SELEC 1")
        yield "backend_killed", self._killed
        yield "statement_timeout", lambda: self._fails(SLEEP, statement_timeout=STATEMENT_S)
        yield "silent_server", self._silent

    def _fails(self, *queries: str, **more: object) -> float:
        """Compile a pillar that has to fail; raises BenchmarkError if it doesn't."""
        source: list[dict[str, Any]] = [{"postgres": list(queries or forms.FUNCTION)}]
        changes = options(self.database.server, source, **{"connect_timeout": CONNECT_S, **more})
        start = time.monotonic()
        (pillar,) = self.salt.act("compile", changes, scratch.ids(1))
        seconds = time.monotonic() - start
        if list(pillar) != ["_errors"]:
            raise BenchmarkError(f"The pillar is not an error alone: {sorted(pillar)}; this is a fault of the patch.")
        return seconds

    def _down(self) -> float:
        """Ask where nobody listens."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            port = server.getsockname()[1]
        return self._fails(port=port)

    def _silent(self) -> float:
        """Ask a server that accepts and never answers."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            return self._fails(port=server.getsockname()[1])

    def _killed(self) -> float:
        """Kill the backend in the middle of a query; the time counts from there."""
        killed: list[float] = []

        def kill() -> None:
            until(lambda: self.database.run(KILL), Deadline(60), lambda: "There is no query to kill.")
            killed.append(time.monotonic())

        killer = threading.Thread(target=kill)
        killer.start()
        start = time.monotonic()
        seconds = self._fails(SLEEP)
        killer.join()
        return max(0.0, start + seconds - killed[0])


def run(options: Options) -> Outcome:
    """Measure each failure; `late` counts those that took longer than connect_timeout and a second."""
    samples: dict[str, list[float]] = {}
    with TemporaryDirectory(prefix="saltbed-") as name, scratch.served(Path(name)) as server:
        database = scratch.filled(server, "failures", "improved", scratch.ids(options.minions))
        with patched(Path(name) / "salt") as salt:
            # the first compile loads Salt's modules
            salt.compile(server, [], scratch.ids(1))
            for turn in range(options.rounds):
                for failure, measure in Failures(salt, database).each():
                    samples.setdefault(failure, []).append(measure())
                options.progress(turn + 1, options.rounds)
    figures: dict[str, float] = {f"{failure}_max_s": max(series) for failure, series in samples.items()}
    figures["connect_timeout_s"] = CONNECT_S
    figures["late"] = sum(seconds > CONNECT_S + 1 for series in samples.values() for seconds in series)
    return Outcome("pillar-failures", "From the question to the error, patched", {}, figures, samples)
