"""Pillars from PostgreSQL: fetches by stock and patched Salt, a large table, failures of the database, changed rows.

`pillar` asks the same database once with the RFC's function and once with the improved one, so that what the patch
gains and what the schema gains are told apart. What a fetch costs on a network is its round trips, which hardly show
in its time on one machine. `pillar-scale` does the same with a hundred thousand minions, `pillar-failures` times the
error of each failure, and `pillar-changes` changes a row of each minion at once.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

import psycopg2

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Options, Samples, at_most, exactly, interleave
from harness.bed import Bed, BedSettings
from harness.database import schema, sources
from harness.paths import TREES
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, patched
from harness.saltprocess.patched import options as master_options
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.database import Postgres

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


def _fetcher(tree: str, postgres: Postgres, port: int | None = None) -> SaltProcess:
    """Start a Salt that fetches pillars from a database, over another `port` if one is given; stock needs its flag."""
    connection = {**postgres.salt_options(), **({} if port is None else {"port": port})}
    settings = {"postgres": connection, "queries": [{"query": QUERY, "as_json": tree == "stock"}]}
    return SaltProcess(tree, "harness.saltprocess.pillar", settings)


def run_fetches(options: Options) -> dict[Figure, Samples]:
    """Fetch pillars through both trees in turn; raises BenchmarkError when they differ."""
    minions = sources.ids(options.minions)
    samples: dict[Figure, Samples] = {}
    with TemporaryDirectory(prefix="saltbed-") as folder, sources.served(Path(folder)) as server:
        for form, fetch in FETCH.items():
            database = sources.filled(server, form, form, minions)
            samples[fetch] = _duel(database.server, database.server, minions, options)
        by_socket = _by_socket(database)
        samples[SOCKET] = _duel(by_socket, by_socket, minions, options)
        trips = {tree: _round_trips(tree, database.server, minions[:20]) for tree in ("stock", "patched")}
        samples[TRIPS] = Samples([trips["patched"]], [trips["stock"]])
        samples[CONNECTIONS] = Samples([_connections(database, minions)])
    return samples


def _by_socket(database: sources.Database) -> Postgres:
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


def _duel(theirs: Postgres, ours: Postgres, minions: Sequence[str], options: Options) -> Samples:
    """Return the milliseconds of fetches of both trees; raises BenchmarkError when their pillars differ."""
    # the same minions each time, far apart in the tables
    chosen = Random(1).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    with _fetcher("stock", theirs) as stock, _fetcher("patched", ours) as patched_salt:
        found = interleave(
            {"stock": lambda turn: stock.run(chosen[turn]), "ours": lambda turn: patched_salt.run(chosen[turn])},
            options,
        )
    for minion, (_, mine), (_, other) in zip(chosen, found["ours"], found["stock"], strict=True):
        if mine != other:
            raise BenchmarkError(f"The two trees give {minion} different pillars; compare them before timing.")
    return Samples(*([seconds * 1000 for seconds, _ in found[side]] for side in ("ours", "stock")))


def _round_trips(tree: str, postgres: Postgres, minions: Sequence[str]) -> float:
    """Return the round trips of one fetch, the first left out."""
    with Relay(postgres.port) as relay, _fetcher(tree, postgres, relay.port) as contender:
        contender.run(minions[0])
        before = relay.trips
        for minion in minions[1:]:
            contender.run(minion)
        return (relay.trips - before) / (len(minions) - 1)


def _connections(database: sources.Database, minions: Sequence[str]) -> int:
    """Return the connections that four workers opened for ten thousand fetches."""
    with ExitStack() as stack, Relay(database.server.port) as relay:
        pool = [stack.enter_context(_fetcher("patched", database.server, relay.port)) for _ in range(WORKERS)]
        for number in range(COMPILES):
            pool[number % WORKERS].run(minions[number % len(minions)])
        return relay.connections


PILLAR = Benchmark(
    name="pillar",
    about="fetch of a pillar from PostgreSQL, stock against patched",
    run=run_fetches,
    figures=(*FETCH.values(), SOCKET, TRIPS, CONNECTIONS),
    minions=1000,
    rounds=400,
    minutes=2,
)


# --- a hundred thousand minions ----------------------------------------------------------------------------------
#
# The rows of 1,000 minions are copied inside the server a hundred times: making them out here would take minutes.
# In the end the runner shows earlier pillars, out of a history with one change of each minion, and previews edits of
# everyone's rows and of a group's.

SMALL = 1000
GROW = """
INSERT INTO rhnServer SELECT s.id + c * {small}, s.org_id, s.name || '-' || c
    FROM rhnServer s, generate_series(1, {copies}) c;
INSERT INTO suseMinionInfo SELECT m.server_id + c * {small}, m.minion_id || '-' || c
    FROM suseMinionInfo m, generate_series(1, {copies}) c;
INSERT INTO rhnServerGroupMembers SELECT g.server_id + c * {small}, g.server_group_id
    FROM rhnServerGroupMembers g, generate_series(1, {copies}) c;
INSERT INTO suseSaltPillars (server_id, category, pillar) SELECT p.server_id + c * {small}, p.category, p.pillar
    FROM generate_series(1, {copies}) c, suseSaltPillars p WHERE p.server_id IS NOT NULL;
"""
UPGRADE = Figure("upgrade", "upgrade of the RFC's table, {minions} minions", "s")
ROWS = Figure("rows", "rows of pillars, {minions} minions")
SCANS = Figure("scans", "sequential scans of the pillars in the plan", aim=exactly(0))
INSIDE = Figure("inside", "inside the server, {minions} minions", "ms", aim=at_most(0.3))
INSIDE_P95 = Figure("inside-p95", "inside the server, {minions} minions, p95", "ms", "p95")
FETCH_SCALE = Figure("fetch", "one fetch, {minions} minions", "ms")
GROWTH = Figure("growth", f"a fetch with {{minions}} minions / with {SMALL:,}", "x")
SHOW = Figure("show", "an earlier pillar, {minions} minions", "ms", aim=at_most(50))
PREVIEW = Figure("preview", "preview of everyone's row, {minions} minions", "s", aim=at_most(5))
PREVIEW_GROUP = Figure("preview-group", "preview of a group's row, {minions} minions", "s", aim=at_most(5))
PREVIEWS = 5
EDIT = {"category": "motd", "pillar": {"motd": "Closed on Friday"}}
CHANGE_ALL = """
UPDATE suseSaltPillars SET pillar = pillar || '{"changed": true}' WHERE server_id IS NOT NULL AND category = 'general'
"""
EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT suse_minion_pillars(%s)"


def run_scale(options: Options) -> dict[Figure, Samples]:
    """Make the databases, look at plans and times inside the server, and fetch through both trees in turn."""
    if options.minions % SMALL or options.minions < 2 * SMALL:
        raise BenchmarkError(f"{options.minions} minions can't be made; ask for a multiple of {SMALL}, at least two.")
    copies = options.minions // SMALL - 1
    samples: dict[Figure, Samples] = {}
    with TemporaryDirectory(prefix="saltbed-") as folder, sources.served(Path(folder)) as server:
        small = sources.filled(server, "small", "improved", sources.ids(SMALL))
        rfc = sources.filled(server, "rfc", "rfc", sources.ids(SMALL))
        rfc.run(GROW.format(small=SMALL, copies=copies))
        rfc.alone("VACUUM ANALYZE")
        improved = sources.make(server, "improved", template="rfc")
        start = time.monotonic()
        schema.install_form(improved.server.dsn, schema.FORMS["improved"])
        samples[UPGRADE] = Samples([time.monotonic() - start])
        improved.alone("VACUUM ANALYZE")
        samples[ROWS] = Samples([improved.count()])
        minions = [f"{minion}-{copy}" for minion in sources.ids(SMALL) for copy in range(1, copies + 1)]
        # in one session
        chosen = minions[:: len(minions) // 20]
        samples[SCANS] = Samples([int(improved.run(sources.CALL * len(chosen) + sources.SCANS, *chosen)[0][0])])
        inside = {
            name: _inside(database, Random(1).choices(minions, k=count))  # noqa: S311 - nothing secret
            for name, database, count in (("rfc", rfc, 20), ("improved", improved, 200))
        }
        samples[INSIDE] = samples[INSIDE_P95] = Samples(inside["improved"], inside["rfc"])
        samples[FETCH_SCALE] = _duel(rfc.server, improved.server, minions, options)
        with _fetcher("patched", improved.server) as many, _fetcher("patched", small.server) as few:
            samples[GROWTH] = _growth(many, few, minions, replace(options, rounds=options.rounds * 5))
        samples.update(_past(improved, minions, options))
    return samples


def _inside(database: sources.Database, minions: list[str]) -> list[float]:
    """Return the milliseconds of the function inside the server."""
    # one session, as the master keeps its own: the first query of a session reads the catalogues
    with closing(psycopg2.connect(database.server.dsn)) as connection, connection.cursor() as cursor:
        plans = []
        for minion in minions:
            cursor.execute(EXPLAIN, (minion,))
            (row,) = cursor.fetchone() or ([],)
            plans.append(row if isinstance(row, list) else json.loads(row))
    return [float(plan[0]["Planning Time"]) + float(plan[0]["Execution Time"]) for plan in plans]


def _growth(many: SaltProcess, few: SaltProcess, minions: list[str], options: Options) -> Samples:
    """Return how many times longer fetches take with many minions than with few, in turn."""
    chosen = Random(2).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    contenders = {
        "many": lambda turn: many.run(chosen[turn])[0],
        "few": lambda turn: few.run(chosen[turn].rpartition("-")[0])[0],
    }
    found = interleave(contenders, options)
    return Samples([large / small for large, small in zip(found["many"], found["few"], strict=True)])


def _past(database: sources.Database, minions: list[str], options: Options) -> dict[Figure, Samples]:
    """Show pillars before a change of every minion, and preview edits; raises BenchmarkError for a wrong answer."""
    database.run(schema.read("pillar_changes.sql"))
    ((at,),) = database.run("SELECT clock_timestamp()::TEXT")
    ((groups, members),) = database.run(
        "SELECT max(server_group_id)::INT, count(*) FILTER (WHERE server_group_id = 1) FROM rhnServerGroupMembers"
    )
    database.run(CHANGE_ALL)
    # as autovacuum does after a while
    database.alone("VACUUM ANALYZE")
    chosen = Random(3).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    settings = {"postgres": database.server.salt_options(), "ext_pillar": [{"uyuni": {"lenient": True}}]}
    with SaltProcess("patched", "benchmarks.tasks.calls", {"what": "runner", "options": settings}) as runner:
        shown = [runner.run("pillar_sql.show", {"minion": minion, "at": at}) for minion in chosen]
        later = runner.run("pillar_sql.show", {"minion": chosen[0]})[1]
        everyone = [runner.run("pillar_sql.preview", EDIT) for _ in range(PREVIEWS)]
        group = [runner.run("pillar_sql.preview", {**EDIT, "group": 1 + turn % groups}) for turn in range(PREVIEWS)]
    if "changed" not in later or any("changed" in pillar for _, pillar in shown):
        raise BenchmarkError("The pillars shown are not those of before the change.")
    if [len(answer["changes"][0]["minions"]) for _, answer in everyone] != [options.minions] * PREVIEWS:
        raise BenchmarkError("An edit of everyone's row does not change the pillar of each minion.")
    if group[0][1]["minions"] != members:
        raise BenchmarkError("An edit of a group's row does not change the pillar of each of its minions.")
    return {
        SHOW: Samples([1000 * seconds for seconds, _ in shown[1:] or shown]),
        PREVIEW: Samples([seconds for seconds, _ in everyone]),
        PREVIEW_GROUP: Samples([seconds for seconds, _ in group]),
    }


PILLAR_SCALE = Benchmark(
    name="pillar-scale",
    about="the same at 100,000 minions: stock with the RFC's function, ours with sql/pillar.sql",
    run=run_scale,
    figures=(FETCH_SCALE, INSIDE, INSIDE_P95, SCANS, GROWTH, SHOW, PREVIEW, PREVIEW_GROUP, ROWS, UPGRADE),
    minions=100_000,
    rounds=20,
    minutes=5,
    extensions=("uyuni-pillar",),
)


# --- a database that fails: the seconds from the question to `_errors` -------------------------------------------

CONNECT_S, STATEMENT_S = 2, 1
LIMIT = at_most(CONNECT_S + 1)
FAILURES = {
    key: Figure(key, f"until the error: {words}", "s", "max", LIMIT)
    for key, words in {
        "database-down": "nobody listens",
        "wrong-password": "wrong password",
        "missing-table": "missing table",
        "broken-second-query": "broken second query",
        "backend-killed": "backend killed",
        "statement-timeout": f"statement_timeout {STATEMENT_S} s",
        "silent-server": f"no answer, connect_timeout {CONNECT_S} s",
    }.items()
}
SLEEP = "SELECT pg_sleep(60)"
KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE query LIKE '%pg_sleep(60)%' AND state = 'active' AND pid <> pg_backend_pid()"
)


@dataclass
class Failures:
    """The seven failures, each as a function of the turn that returns its seconds."""

    salt: Salt
    database: sources.Database

    def by_key(self) -> dict[str, Callable[[int], float]]:
        """Return them by the keys of their figures."""
        return {
            "database-down": self._down,
            "wrong-password": lambda _: self._fails(**{"pass": "wrong"}),
            "missing-table": lambda _: self._fails("SELECT a FROM nosuch WHERE id = %s"),
            "broken-second-query": lambda _: self._fails(*schema.FUNCTION, "SELECT 1 +"),
            "backend-killed": self._killed,
            "statement-timeout": lambda _: self._fails(SLEEP, statement_timeout=STATEMENT_S),
            "silent-server": self._silent,
        }

    def _fails(self, *queries: str, **more: object) -> float:
        """Compile a pillar that has to fail; raises BenchmarkError if it doesn't."""
        source: list[dict[str, Any]] = [{"postgres": list(queries or schema.FUNCTION)}]
        changes = master_options(self.database.server, source, **{"connect_timeout": CONNECT_S, **more})
        start = time.monotonic()
        (pillar,) = self.salt.act("compile", changes, sources.ids(1))
        seconds = time.monotonic() - start
        if list(pillar) != ["_errors"]:
            raise BenchmarkError(f"The pillar is not an error alone: {sorted(pillar)}; this is a fault of the patch.")
        return seconds

    def _down(self, _turn: int) -> float:
        """Ask where nobody listens."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            port = server.getsockname()[1]
        return self._fails(port=port)

    def _silent(self, _turn: int) -> float:
        """Ask a server that accepts and never answers."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            return self._fails(port=server.getsockname()[1])

    def _killed(self, _turn: int) -> float:
        """Kill the backend in the middle of a query; the time counts from there."""
        killed: list[float] = []

        def kill() -> None:
            until(lambda: self.database.run(KILL), Deadline(60), lambda: "There is no query to kill.")
            killed.append(time.monotonic())

        killer = Thread(target=kill)
        killer.start()
        start = time.monotonic()
        seconds = self._fails(SLEEP)
        killer.join()
        return max(0.0, start + seconds - killed[0])


def run_failures(options: Options) -> dict[Figure, Samples]:
    """Measure each failure; none may take longer than `connect_timeout` and a second."""
    with TemporaryDirectory(prefix="saltbed-") as name, sources.served(Path(name)) as server:
        database = sources.filled(server, "failures", "improved", sources.ids(options.minions))
        with patched(Path(name) / "salt") as salt:
            # the first compile loads Salt's modules
            salt.compile(server, [], sources.ids(1))
            found = interleave(Failures(salt, database).by_key(), options)
    return {figure: Samples(found[key]) for key, figure in FAILURES.items()}


PILLAR_FAILURES = Benchmark(
    name="pillar-failures",
    about="from the question of a minion to the error, when its database fails",
    run=run_failures,
    figures=tuple(FAILURES.values()),
    minions=50,
    rounds=3,
    minutes=0.5,
)


# --- a row of each minion changes at once ------------------------------------------------------------------------
#
# The pings of an idle master, half of them before and half of them after, stand in the place of stock, which has no
# such engine. Then the rows change again while the engine's session is ended, so that it is not told.

# as the engine's page has them; those who count on a notification must not be helped by a look at the clock
BATCH, CHECK_S = 20, 3600
RAMP_UP_S, PING_S, LISTEN_S, LOOK_S = 2400, 120, 120, 1
CHANGE_NEWS = """
UPDATE suseSaltPillars SET pillar = pillar || jsonb_build_object('news', %s::text)
    WHERE server_id IS NOT NULL AND category = 'custom-info'
"""
LISTENING = """
SELECT pid FROM pg_stat_activity
    WHERE query LIKE '%suse_salt_pillar%' AND state = 'idle' AND pid <> pg_backend_pid()
"""
END_SESSION = f"SELECT pg_terminate_backend(pid) FROM ({LISTENING}) AS one"  # noqa: S608 - own text
PING = Figure("ping", "a ping while {minions} minions refresh; idle for stock", "s", aim=at_most(2, of="ratio"))
TOLD = Figure("told", "{minions} rows changed, until all pillars are new", "s")
CAUGHT_UP = Figure("caught-up", "the same when the notification was lost", "s")
MISSED = Figure("missed", "minions that did not get their new pillar", "", "max", exactly(0))


def run_changes(options: Options) -> dict[Figure, Samples]:
    """Change the rows of all minions twice; `options.rounds` is the number of pings of an idle master."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        engine = {"pillar_changes": {"batch": BATCH, "check": CHECK_S}}
        settings = BedSettings(
            tree=TREES["patched"],
            folder=Path(folder),
            minions=options.minions,
            api=None,
            master_options={"engines": [engine], "timeout": PING_S},
        )
        with Bed(settings) as bed:
            database = sources.Database(bed.postgres)
            database.run(schema.read("pillar_changes.sql"))
            bed.start_fleet().wait_ready(RAMP_UP_S)
            until(lambda: database.run(LISTENING) != [], Deadline(LISTEN_S), lambda: "The engine does not listen.")
            half = Options(options.minions, max(1, options.rounds // 2))
            idle = interleave({"idle": partial(_ping, bed)}, half)["idle"]
            options.progress(1, 4)
            database.run(CHANGE_NEWS, "first-news")
            told, busy, missed = _follow(bed, "first-news")
            options.progress(2, 4)
            idle += interleave({"idle": partial(_ping, bed)}, half)["idle"]
            # the engine connects again some seconds later, and is told of nothing between
            database.run(END_SESSION)
            database.run(CHANGE_NEWS, "later-news")
            options.progress(3, 4)
            caught_up, more, missed_later = _follow(bed, "later-news")
    return {
        PING: Samples([*busy, *more], idle),
        TOLD: Samples([told]),
        CAUGHT_UP: Samples([caught_up]),
        MISSED: Samples([missed, missed_later]),
    }


def _ping(bed: Bed, turn: int) -> float:
    """Return the seconds of Salt's command for one minion."""
    minion = bed.settings.minion_ids()[turn * 37 % bed.settings.minions]
    start = time.monotonic()
    done = bed.salt([minion, "test.ping", "--out=txt"], timeout=PING_S)
    if f"{minion}: True" not in done.stdout:
        raise BenchmarkError(f"{minion} does not answer: {done.stdout.strip()} {done.stderr.strip()}")
    return time.monotonic() - start


def _follow(bed: Bed, news: str) -> tuple[float, list[float], int]:
    """Ping until the master has given the news to everybody; return the seconds, the pings, and who has no news."""
    start = time.monotonic()
    pings: list[float] = []
    waiting = set(bed.settings.minion_ids())
    is_new = partial(_is_new, bed.master.cache_dir / "pillar", news)
    limit = 3 * len(waiting) / BATCH + 300
    seconds = 0.0
    while waiting and time.monotonic() - start < limit:
        waiting = {minion for minion in waiting if not is_new(minion)}
        seconds = time.monotonic() - start
        # one that takes place when the last ones have it is not of those meanwhile
        if len(waiting) > BATCH:
            pings.append(_ping(bed, len(pings)))
        else:
            time.sleep(LOOK_S)
    return seconds, pings, len(waiting)


def _is_new(folder: Path, news: str, minion: str) -> bool:
    """Say whether the pillar that the master has sent to a minion last has the news."""
    try:
        return news.encode() in (folder / f"{minion}.p").read_bytes()
    except FileNotFoundError:
        return False


PILLAR_CHANGES = Benchmark(
    name="pillar-changes",
    about="a row of each minion changes at once: the engine, and pings meanwhile",
    run=run_changes,
    figures=(PING, TOLD, CAUGHT_UP, MISSED),
    minions=1000,
    rounds=20,
    minutes=6,
    extensions=("uyuni-pillar",),
)
