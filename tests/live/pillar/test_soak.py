"""A long run of compiles in eight processes while everything around the database fails, again and again.

Half of the processes ask the servers, half ask PgBouncer in transaction mode; half have one query, half four. What
fails is drawn from a seed (`SALTBED_SOAK_SEED`), for `SALTBED_SOAK_S` seconds, and on until `SALTBED_SOAK_COMPILES`
compiles have given a pillar. The figures are printed (`-s`).
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg2
import pytest

from harness.database import sources
from harness.saltprocess.patched import Salt, patched
from tests.live.helpers.cut_network import cut_network
from tests.live.helpers.pillar_layouts import FORMS
from tests.live.helpers.pillar_servers import DATABASE, POOL, POOLER_PORT, PORTS, USER, Servers, missing, servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = float(os.environ.get("SALTBED_SOAK_S", "1800"))
COMPILES = int(os.environ.get("SALTBED_SOAK_COMPILES", "100000"))
# What a compile may say: no connection, or a server that is over, is in recovery, is full or was told to end
KNOWN = re.compile(r"there is no connection to the database|the database reports \w+ \((?:08|25|53|57)\w+\)")
SEED = int(os.environ.get("SALTBED_SOAK_SEED", "22"))
WORKERS, BATCH = 8, 10
IDS = sources.ids(200)
# what a compile may take: a query in flight when the network drops it, then both servers, tried in turn
LIMITS = {"connect_timeout": 2, "statement_timeout": 3, "lifetime": 30}
HANGING_S = 60
CUT_S, STOPPED_S = 20, 5
# whatever a process has read and kept once, it has after a part of the run
WARM, GROWN_KB = 0.3, 3000
SESSIONS = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{USER}' AND backend_type = 'client backend'"  # noqa: S608 - own text
BACKENDS = f"SELECT pid FROM pg_stat_activity WHERE usename = '{USER}'"  # noqa: S608 - own text

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.needs_root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(5 * SECONDS + 600),
]


@dataclass
class Worker:
    """A process that compiles pillars, and what came of it."""

    salt: Salt
    options: dict[str, Any]
    good: int = 0
    longest: float = 0
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    sockets: Counter[int] = field(default_factory=Counter)
    memory: list[tuple[float, int]] = field(default_factory=list)

    def work(self, chance: random.Random, expected: dict[str, str], pace: float, is_over: Callable[[], bool]) -> None:
        """Compile a batch each `pace` seconds until it is over."""
        process = psutil.Process(self.salt.process.pid)
        start = time.monotonic()
        while not is_over():
            began = time.monotonic()
            minions = chance.choices(IDS, k=BATCH)
            for minion, (digest, errors, seconds) in zip(
                minions, self.salt.act("timed", self.options, minions), strict=True
            ):
                self.longest = max(self.longest, seconds)
                if errors:
                    self.errors.update(errors)
                elif digest == expected[minion]:
                    self.good += 1
                else:
                    self.wrong.append(minion)
            self.sockets[sum(bool(one.raddr) for one in process.net_connections("tcp"))] += 1
            self.memory.append((began - start, process.memory_info().rss // 1024))
            time.sleep(max(0, pace - (time.monotonic() - began)))

    def grown(self, seconds: float) -> int:
        """Return by how many KB the process has grown since it was warm."""
        warm = [size for when, size in self.memory if when > WARM * seconds]
        return max(warm[-20:]) - max(warm[:20])


def restart(found: Servers) -> None:
    """Stop the server and start it."""
    found.stop(found.primary, kill=False)
    found.start(found.primary)


def crash(found: Servers) -> None:
    """Let the server die and recover."""
    found.stop(found.primary, kill=True)
    found.start(found.primary)


def kill_sessions(found: Servers) -> None:
    """End all sessions as an administrator does."""
    found.database().run(f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) AS one")  # noqa: S608 - own text


def stop_sessions(found: Servers) -> None:
    """Let sessions take queries for a while and not answer."""
    pids = [pid for (pid,) in found.database().run(BACKENDS)]
    for code, pause in ((signal.SIGSTOP, STOPPED_S), (signal.SIGCONT, 0)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, code)
        time.sleep(pause)


def cut(found: Servers) -> None:
    """Drop all packets for a while, as a firewall does."""
    found.network.cut()
    time.sleep(CUT_S)
    found.network.mend()


def restart_pooler(found: Servers) -> None:
    """Stop PgBouncer and start it."""
    found.stop_pooler()
    found.start_pooler()


def rotate(found: Servers) -> None:
    """Give the role another password."""
    found.rotate(f"{found.password[:8]}-{time.monotonic_ns()}")


FAULTS: tuple[Callable[[Servers], None], ...] = (
    *(restart, crash, Servers.fail_over, kill_sessions, stop_sessions, cut, restart_pooler, rotate),
)


@pytest.fixture
def stage() -> Iterator[Servers]:
    """Yield both servers and the pooler, with the pillars of all minions, in a network that can be cut."""
    with (
        # a socket's name has to be short
        tempfile.TemporaryDirectory(dir="/tmp", prefix="soak-") as name,
        cut_network() as network,
        servers(network, Path(name)) as found,
    ):
        server = found.postgres(database="postgres")
        made = sources.filled(server, DATABASE, "improved", IDS)
        made.run(
            f"CREATE ROLE {USER} LOGIN PASSWORD %s; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {USER}", "first"
        )
        found.copy()
        found.start_pooler()
        yield found


def test_no_pillar_is_short_or_of_another(stage: Servers, tmp_path: Path) -> None:
    """Each pillar is whole and its minion's, or an error; nothing hangs, piles up or grows."""
    chance = random.Random(SEED)  # noqa: S311 - nothing secret
    with ExitStack() as stack:
        workers = [
            Worker(stack.enter_context(patched(tmp_path / str(number))), _options(stage, number))
            for number in range(WORKERS)
        ]
        expected = {}
        for minion in IDS:
            ((digest, errors, _),) = workers[0].salt.act("timed", workers[0].options, [minion])
            assert not errors
            expected[minion] = digest
        assert len(set(expected.values())) == len(IDS)
        start = time.monotonic()

        def is_over() -> bool:
            seconds = time.monotonic() - start
            enough = sum(worker.good for worker in workers) >= COMPILES
            return seconds > 4 * SECONDS or (seconds > SECONDS and enough)

        # a third of the time is for what fails
        pace = 0.6 * SECONDS * WORKERS * BATCH / COMPILES
        threads = [
            threading.Thread(target=worker.work, args=(random.Random(f"{SEED} {number}"), expected, pace, is_over))  # noqa: S311 - nothing secret
            for number, worker in enumerate(workers)
        ]
        for thread in threads:
            thread.start()
        done, sessions = _fail(stage, chance, is_over)
        for thread in threads:
            thread.join(HANGING_S * BATCH)
        hanging = sum(thread.is_alive() for thread in threads)
        seconds = time.monotonic() - start
        figures: dict[str, Any] = {
            "seconds": round(seconds),
            "good": sum(worker.good for worker in workers),
            "errors": sum((worker.errors for worker in workers), Counter()),
            "wrong": [minion for worker in workers for minion in worker.wrong],
            "hanging": hanging,
            "longest": round(max(worker.longest for worker in workers), 1),
            "faults": done,
            "sockets": max(max(worker.sockets) for worker in workers),
            "sessions": max(sessions),
            "first and last KB": [(worker.memory[0][1], worker.memory[-1][1]) for worker in workers],
            "grown KB": [worker.grown(seconds) for worker in workers],
        }
        print(json.dumps(figures, indent=1))
    assert (figures["wrong"], hanging) == ([], 0)
    assert [error for error in figures["errors"] if not KNOWN.search(error)] == []
    assert figures["good"] >= COMPILES
    assert figures["longest"] < HANGING_S
    assert min(done[one.__name__] for one in FAULTS) > 0
    # each process has one connection; those of PgBouncer share a few
    assert figures["sockets"] == 1
    assert figures["sessions"] <= WORKERS + POOL
    assert max(figures["grown KB"]) < GROWN_KB


def _options(stage: Servers, number: int) -> dict[str, Any]:
    """Return the options of a process: a way to the database, and a form of the queries."""
    place = {"host": stage.network.minions, "port": POOLER_PORT, "application_name": "pooled"}
    if number % 2:
        place = {"host": ",".join([stage.network.minions] * 2), "port": ",".join(map(str, PORTS))}
        place["target_session_attrs"] = "read-write"
    place |= {"user": USER, "db": DATABASE, "passfile": str(stage.passfile), "pass": None, **LIMITS}
    form = "improved" if number % 4 < 2 else "four"
    return {"postgres": place, "ext_pillar": FORMS[form].options()}


def _fail(stage: Servers, chance: random.Random, is_over: Callable[[], bool]) -> tuple[Counter[str], list[int]]:
    """Let one thing after the other fail; return how often each did, and how many sessions were seen."""
    done: Counter[str] = Counter()
    sessions = [0]
    pause = max(2.0, min(15.0, SECONDS / len(FAULTS) / 4))
    while not is_over():
        for fault in chance.sample(FAULTS, len(FAULTS)):
            fault(stage)
            done[fault.__name__] += 1
            end = time.monotonic() + pause
            while time.monotonic() < end:
                with suppress(psycopg2.OperationalError):
                    sessions.append(int(stage.database().run(SESSIONS)[0][0]))
                time.sleep(0.5)
            if is_over() and len(done) == len(FAULTS):
                break
    return done, sessions
