"""A row of each minion changes at once: how long until all have their new pillars, and what a ping takes meanwhile.

The pings of an idle master, half of them before and half of them after, stand in the place of stock, which has no such
engine. Then the rows change again while the engine's session is ended, so that it is not told.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Options, Samples, at_most, exactly, interleave
from harness.bed import Bed, BedSettings
from harness.database import schema, sources
from harness.paths import TREES
from harness.processes.deadline import Deadline, until

# as the engine's page has them; those who count on a notification must not be helped by a look at the clock
BATCH, CHECK_S = 20, 3600
RAMP_UP_S, PING_S, LISTEN_S, LOOK_S = 2400, 120, 120, 1
CHANGE = """
UPDATE suseSaltPillars SET pillar = pillar || jsonb_build_object('news', %s::text)
    WHERE server_id IS NOT NULL AND category = 'custom-info'
"""
LISTENING = """
SELECT pid FROM pg_stat_activity
    WHERE query LIKE '%suse_salt_pillar%' AND state = 'idle' AND pid <> pg_backend_pid()
"""
END = f"SELECT pg_terminate_backend(pid) FROM ({LISTENING}) AS one"  # noqa: S608 - own text
PING = Figure("ping", "a ping while {minions} minions refresh; idle for stock", "s", aim=at_most(2, of="ratio"))
TOLD = Figure("told", "{minions} rows changed, until all pillars are new", "s")
CAUGHT_UP = Figure("caught-up", "the same when the notification was lost", "s")
MISSED = Figure("missed", "minions that did not get their new pillar", "", "max", exactly(0))


def run(options: Options) -> dict[Figure, Samples]:
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
            half = Options(options.minions, max(1, options.rounds // 2), output=options.output)
            idle = interleave({"idle": partial(_ping, bed)}, half)["idle"]
            options.progress(1, 4)
            database.run(CHANGE, "first-news")
            told, busy, missed = _follow(bed, "first-news")
            options.progress(2, 4)
            idle += interleave({"idle": partial(_ping, bed)}, half)["idle"]
            # the engine connects again some seconds later, and is told of nothing between
            database.run(END)
            database.run(CHANGE, "later-news")
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
    run=run,
    figures=(PING, TOLD, CAUGHT_UP, MISSED),
    minions=1000,
    rounds=20,
    minutes=6,
)
