"""The tables that the figures are made of: the load's jobs, the returns that were sent for them, the requests' ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.scenarios.clients import RUNNERS

if TYPE_CHECKING:
    from harness.scenarios.asked import Asked
    from harness.verify.store import Store


def prepare(store: Store, asked: Asked) -> None:
    """Make what the figures are made of: the load's jobs, the returns that were sent for them, the requests' ends."""
    start, settled = store.timeline["load_start"], store.timeline["settled"]
    store.make("CREATE TABLE functions (fun TEXT)")
    tables = ("jobs", "tallies", "accepted", "returns")
    for (name,) in store.rows(" UNION ".join(f"SELECT fun FROM {table}" for table in tables)):  # noqa: S608 - our names
        if name in asked:
            store.make("INSERT INTO functions VALUES (:name)", name=name)
    store.make(
        """
        CREATE TABLE load_jobs AS
        SELECT jid, min(fun) AS fun, sum(targeted) AS targeted FROM jobs WHERE time >= :start GROUP BY jid
        """,
        start=start,
    )
    store.make("CREATE UNIQUE INDEX load_jobs_index ON load_jobs (jid)")
    store.make("CREATE TABLE told (jid TEXT, fun TEXT, expected INTEGER)")
    for kind, function, expected, jids in store.rows(
        "SELECT kind, function, expected, jids FROM requests ORDER BY rowid"
    ):
        # a runner's id is not the id of a job on minions; master and fleet know the functions of jobs that it published
        for jid in () if kind in RUNNERS else jids.split():
            store.make("INSERT INTO told VALUES (:jid, :fun, :minions)", jid=jid, fun=function, minions=expected)
    # a worker writes a tally several times, with the same number; the last row counts
    store.make(
        """
        CREATE TABLE reached AS
        SELECT jid, min(fun) AS fun, sum(targeted) AS targeted, sum(reached) AS reached FROM tallies
        WHERE rowid IN (SELECT max(rowid) FROM tallies GROUP BY file, number) AND fun IN (SELECT fun FROM functions)
        GROUP BY jid
        """
    )
    # jobs are known from the master, which accepted them, from clients, which were told their ids, and from minions
    store.make(
        """
        CREATE TABLE followed AS
        WITH known AS (
            SELECT jid FROM accepted WHERE fun IN (SELECT fun FROM functions)
            UNION SELECT jid FROM told UNION SELECT jid FROM reached
            EXCEPT SELECT jid FROM jobs WHERE jid NOT IN (SELECT jid FROM load_jobs)
        ), asked AS (
            SELECT jid, coalesce(nullif((SELECT sum(targeted) FROM accepted WHERE accepted.jid = known.jid), 0),
                                 (SELECT expected FROM told WHERE told.jid = known.jid LIMIT 1), 0) AS targeted
            FROM known
        )
        SELECT jid, reached.jid IS NOT NULL AS published, coalesce(reached.reached, 0) AS reached,
               max(asked.targeted, coalesce(reached.targeted, 0)) AS targeted,
               (SELECT count(DISTINCT minion) FROM kept WHERE kept.jid = asked.jid) AS kept,
               (SELECT count(DISTINCT minion) FROM returns WHERE returns.jid = asked.jid AND time <= :settled
                AND attempts > 0 AND fun IN (SELECT fun FROM functions)
                AND NOT EXISTS (SELECT 1 FROM kept WHERE kept.jid = returns.jid AND kept.minion = returns.minion)
               ) AS lost
        FROM asked LEFT JOIN reached USING (jid)
        """,
        settled=settled,
    )
    store.make(
        """
        CREATE VIEW sent AS
        SELECT returns.time, returns.fun, attempts, acknowledged, seconds,
               returns.jid IN (SELECT jid FROM followed) AS asked
        FROM returns JOIN load_jobs USING (jid) WHERE attempts > 0
        """
    )
    _end(store)


def _end(store: Store) -> None:
    """Make the table of what became of each request."""
    store.make("CREATE TABLE ends (function TEXT, wait NUMERIC, latency NUMERIC, failed INTEGER)")
    for kind, function, mode, scheduled, finished, jids, expected, error in store.rows(
        "SELECT kind, function, mode, scheduled, finished, jids, expected, error FROM requests"
    ):
        over, failed = finished, bool(error)
        if mode == "async" and kind in RUNNERS:
            # the job cache has its answer, which names the jobs
            rows = store.rows("SELECT answered, jids, error FROM runners WHERE jid = :jid", jid=jids)
            last = max((_of_jobs(store, named.split())[1] for _, named, _ in rows), default=0.0)
            over = max(finished, last)
            failed = failed or not rows or any(wrong or seen < expected for seen, _, wrong in rows)
        elif mode == "async":
            # a client that only wanted the job's id would find the returns in the job cache
            seen, last = _of_jobs(store, jids.split())
            over, failed = max(finished, last), failed or seen < expected
        store.make(
            "INSERT INTO ends VALUES (:function, :wait, :latency, :failed)",
            function=function,
            wait=over - scheduled,
            latency=finished - scheduled,
            failed=failed,
        )


def _of_jobs(store: Store, jids: list[str]) -> tuple[int, float]:
    """Return how many minions' returns of some jobs were kept, and when the last was acknowledged (0 if none was)."""
    minions: set[str] = set()
    last = 0.0
    for jid in jids:
        minions |= {name for (name,) in store.each("SELECT minion FROM kept WHERE jid = :jid", jid=jid)}
        last = max(last, store.value("SELECT max(time) FROM returns WHERE jid = :jid AND acknowledged", jid=jid) or 0.0)
    return len(minions), last
