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

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.database import schema, sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.benchmark import Options

CONNECT_S, STATEMENT_S = 2, 1
LIMIT = at_most(CONNECT_S + 1)
FIGURES = {
    "database_down": Figure("database-down", "until the error: nobody listens", "s", "max", LIMIT),
    "wrong_password": Figure("wrong-password", "until the error: wrong password", "s", "max", LIMIT),
    "missing_table": Figure("missing-table", "until the error: missing table", "s", "max", LIMIT),
    "broken_second_query": Figure("broken-second-query", "until the error: broken second query", "s", "max", LIMIT),
    "backend_killed": Figure("backend-killed", "until the error: backend killed", "s", "max", LIMIT),
    "statement_timeout": Figure(
        "statement-timeout", f"until the error: statement_timeout {STATEMENT_S} s", "s", "max", LIMIT
    ),
    "silent_server": Figure(
        "silent-server", f"until the error: no answer, connect_timeout {CONNECT_S} s", "s", "max", LIMIT
    ),
}
SLEEP = "SELECT pg_sleep(60)"
KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE query LIKE '%pg_sleep(60)%' AND state = 'active' AND pid <> pg_backend_pid()"
)


@dataclass
class Failures:
    """The seven failures, each as a function that returns its seconds."""

    salt: Salt
    database: sources.Database

    def each(self) -> Iterator[tuple[str, Callable[[], float]]]:
        """Yield them by name."""
        yield "database_down", self._down
        yield "wrong_password", lambda: self._fails(**{"pass": "wrong"})
        yield "missing_table", lambda: self._fails("SELECT a FROM nosuch WHERE id = %s")
        yield "broken_second_query", lambda: self._fails(*schema.FUNCTION, "SELECT 1 +")
        yield "backend_killed", self._killed
        yield "statement_timeout", lambda: self._fails(SLEEP, statement_timeout=STATEMENT_S)
        yield "silent_server", self._silent

    def _fails(self, *queries: str, **more: object) -> float:
        """Compile a pillar that has to fail; raises BenchmarkError if it doesn't."""
        source: list[dict[str, Any]] = [{"postgres": list(queries or schema.FUNCTION)}]
        changes = options(self.database.server, source, **{"connect_timeout": CONNECT_S, **more})
        start = time.monotonic()
        (pillar,) = self.salt.act("compile", changes, sources.ids(1))
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


def run(options: Options) -> dict[Figure, Samples]:
    """Measure each failure; none may take longer than `connect_timeout` and a second."""
    with TemporaryDirectory(prefix="saltbed-") as name, sources.served(Path(name)) as server:
        database = sources.filled(server, "failures", "improved", sources.ids(options.minions))
        with patched(Path(name) / "salt") as salt:
            # the first compile loads Salt's modules
            salt.compile(server, [], sources.ids(1))
            measures = {name: _turn(measure) for name, measure in Failures(salt, database).each()}
            found = interleave(measures, options)
    return {figure: Samples(found[name]) for name, figure in FIGURES.items()}


def _turn(measure: Callable[[], float]) -> Callable[[int], float]:
    """Return a measurement that does not care which turn it is."""
    return lambda _: measure()


PILLAR_FAILURES = Benchmark(
    name="pillar-failures",
    about="from the question of a minion to the error, when its database fails",
    run=run,
    figures=tuple(FIGURES.values()),
    minions=50,
    rounds=3,
    minutes=0.5,
)
