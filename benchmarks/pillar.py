"""Pillar fetch from PostgreSQL, stock against patched: time, round trips, and connections.

Both ask the same database, once with the RFC's function and once with the improved one, so that what the patch gains
and what the schema gains are told apart.

What a fetch costs on a network is its round trips, and on one machine they hardly show in its time.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

import psycopg2

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.database import sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.benchmark import Options
    from harness.database.postgres import Postgres

BYTES = 1 << 16


@dataclass
class Relay:
    """Listens on `port` of 127.0.0.1 for clients of the server on `target`; a context manager.

    `trips` counts how often a client spoke after the server had, or first; `connections` those that came.
    """

    target: int
    trips: int = 0
    connections: int = 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        """Start to listen."""
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop listening; connections end with their clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        """Carry one connection; whose turn it is tells the round trips."""
        server = socket.create_connection(("127.0.0.1", self.target))
        for end in (client, server):
            # a delayed acknowledgement would hold back 40 ms of every long answer
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        turn = {"client": False}

        def answers() -> None:
            with suppress(OSError):
                while data := server.recv(BYTES):
                    turn["client"] = False
                    client.sendall(data)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

        Thread(target=answers, daemon=True).start()
        with suppress(OSError):
            while data := client.recv(BYTES):
                if not turn["client"]:
                    self.trips += 1
                turn["client"] = True
                server.sendall(data)
        server.close()
        client.close()


QUERY = "SELECT suse_minion_pillars(%s)"
SESSIONS = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
WORKERS, COMPILES = 4, 10_000
OPEN_S = 30
FETCH = {
    "rfc": Figure("fetch-rfc", "one fetch, {minions} minions, RFC's function", "ms"),
    "improved": Figure("fetch", "one fetch, {minions} minions, sql/pillar.sql", "ms", aim=at_most(1 / 8, of="ratio")),
}
SOCKET = Figure("fetch-socket", "the same by a Unix socket without a password", "ms", aim=at_most(1 / 6, of="ratio"))
# the query, and the end of its transaction. Fewer would be wrong: psycopg2 gives the last result of a message, so what
# ends the transaction can't stand behind the query, and with the next query it comes too late. That one is quoted under
# what the last one has left, and until then the transaction keeps a snapshot, and the connection of a pooler.
TRIPS = Figure("round-trips", "round trips of a fetch", aim=at_most(2))
CONNECTIONS = Figure("connections", f"connections, {COMPILES:,} fetches in {WORKERS} processes", aim=at_most(WORKERS))


def fetcher(tree: str, postgres: Postgres, port: int | None = None) -> SaltProcess:
    """Start a Salt that fetches pillars from a database, over another `port` if one is given; stock needs its flag."""
    connection = {**postgres.salt_options(), **({} if port is None else {"port": port})}
    settings = {"postgres": connection, "queries": [{"query": QUERY, "as_json": tree == "stock"}]}
    return SaltProcess(tree, "harness.saltprocess.pillar", settings)


def run(options: Options) -> dict[Figure, Samples]:
    """Fetch pillars through both trees in turn; raises BenchmarkError when they differ."""
    minions = sources.ids(options.minions)
    samples: dict[Figure, Samples] = {}
    with TemporaryDirectory(prefix="saltbed-") as folder, sources.served(Path(folder)) as server:
        for form, fetch in FETCH.items():
            database = sources.filled(server, form, form, minions)
            with ExitStack() as stack:
                pair = {tree: stack.enter_context(fetcher(tree, database.server)) for tree in ("stock", "patched")}
                samples[fetch] = duel(pair, minions, options)
        samples[SOCKET] = _by_socket(database, minions, options)
        trips = {tree: _round_trips(tree, database.server, minions[:20]) for tree in ("stock", "patched")}
        samples[TRIPS] = Samples([trips["patched"]], [trips["stock"]])
        samples[CONNECTIONS] = Samples([_connections(database, minions)])
    return samples


def _by_socket(database: sources.Database, minions: Sequence[str], options: Options) -> Samples:
    """Return the times of fetches where connecting takes the least."""
    server = by_socket(database)
    with ExitStack() as stack:
        pair = {tree: stack.enter_context(fetcher(tree, server)) for tree in ("stock", "patched")}
        return duel(pair, minions, options)


def by_socket(database: sources.Database) -> Postgres:
    """Return the same database by its Unix socket, and let it ask for no password there."""
    ((rules,),) = database.run("SHOW hba_file")
    ((folder,),) = database.run("SHOW unix_socket_directories")
    text = Path(rules).read_text(encoding="ascii")
    Path(rules).write_text(f"local all all trust\n{text}", encoding="ascii")
    database.run("SELECT pg_reload_conf()")
    server = replace(database.server, host=folder, password="")
    until(lambda: _is_open(server), Deadline(OPEN_S), lambda: "The server takes no connections without a password.")
    return server


def _is_open(server: Postgres) -> bool:
    try:
        psycopg2.connect(server.dsn).close()
    except psycopg2.OperationalError:
        return False
    return True


def duel(pair: dict[str, SaltProcess], minions: Sequence[str], options: Options) -> Samples:
    """Return the milliseconds of fetches of "patched" and "stock"; raises BenchmarkError when their pillars differ."""
    # the same minions each time, far apart in the tables
    chosen = random.Random(1).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    found = interleave({tree: partial(_fetch, one, chosen) for tree, one in pair.items()}, options)
    answers = {tree: [pillar for _, pillar in turns] for tree, turns in found.items()}
    for minion, ours, theirs in zip(chosen, answers["patched"], answers["stock"], strict=True):
        if ours != theirs:
            raise BenchmarkError(f"The two trees give {minion} different pillars; compare them before timing.")
    times = {tree: [seconds * 1000 for seconds, _ in turns] for tree, turns in found.items()}
    return Samples(times["patched"], times["stock"])


def _fetch(contender: SaltProcess, chosen: Sequence[str], turn: int) -> tuple[float, Any]:
    return contender.run(chosen[turn])


def _round_trips(tree: str, postgres: Postgres, minions: Sequence[str]) -> float:
    """Return the round trips of one fetch, the first left out."""
    with (
        Relay(postgres.port) as relay,
        fetcher(tree, postgres, relay.port) as contender,
    ):
        contender.run(minions[0])
        before = relay.trips
        for minion in minions[1:]:
            contender.run(minion)
        return (relay.trips - before) / (len(minions) - 1)


def _connections(database: sources.Database, minions: Sequence[str]) -> int:
    """Return the connections that four workers opened for ten thousand fetches."""
    with ExitStack() as stack, Relay(database.server.port) as relay:
        pool = [stack.enter_context(fetcher("patched", database.server, relay.port)) for _ in range(WORKERS)]
        for number in range(COMPILES):
            pool[number % WORKERS].run(minions[number % len(minions)])
        return relay.connections


PILLAR = Benchmark(
    name="pillar",
    about="fetch of a pillar from PostgreSQL, stock against patched",
    run=run,
    figures=(*FETCH.values(), SOCKET, TRIPS, CONNECTIONS),
    minions=1000,
    rounds=400,
    minutes=2,
)
