"""
What survives a crash: the jobs that were accepted, the waves that went out, what has
come back of these, and which publish requests have been answered.

A SQLite database in WAL mode, with one writer. ``synchronous = NORMAL``: a commit is
in the operating system's hands, so ``kill -9`` loses nothing that was committed, and a
power cut may lose the last moments but not the database. The job cache, without which
a queued job would be of no use, is not synced to disk either.

A wave is written down before it is published, and marked when it has been. A wave
without the mark after a crash may have been published or not; it is published again,
under the same job id, and minions drop what they have got already. So a job is neither
lost nor executed twice.
"""

import contextlib
import hashlib
import logging
import os
import sqlite3
import time

import salt.job_handler.job
import salt.job_handler.salvage
import salt.payload

log = logging.getLogger(__name__)

VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS targets (digest BLOB PRIMARY KEY, ids BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    submission TEXT UNIQUE,
    jid TEXT NOT NULL,
    digest BLOB NOT NULL,
    count INTEGER NOT NULL,
    waves INTEGER NOT NULL,
    info BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS waves (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    seq INTEGER NOT NULL,
    jid TEXT NOT NULL,
    cost REAL NOT NULL,
    since REAL NOT NULL,
    sent INTEGER NOT NULL,
    ids BLOB NOT NULL,
    load BLOB
);
CREATE TABLE IF NOT EXISTS loads (seq INTEGER PRIMARY KEY, load BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS waves_jid ON waves (jid);
CREATE TABLE IF NOT EXISTS returns (
    jid TEXT NOT NULL, minion TEXT NOT NULL, PRIMARY KEY (jid, minion)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
    request TEXT PRIMARY KEY,
    answered REAL NOT NULL,
    digest BLOB NOT NULL,
    answer BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS snapshots (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""

#: The log of the database is moved into it when it has so many bytes, and kept no larger.
LOG_BYTES = 16 * 1024 * 1024

#: How long the answer to a publish request is remembered, in seconds.
REQUEST_SECONDS = 900


class JobStore:
    """
    :param str folder: where the database is, which is made if it isn't there
    :param callable clock: returns seconds since the epoch, for what is kept a while
    """

    def __init__(self, folder, clock=time.time):
        self.clock = clock
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(folder, "queue.sqlite")
        try:
            self._open()
        except Exception as exc:  # pylint: disable=broad-except
            if not salt.job_handler.salvage.is_damage(exc):
                raise
            self._renew(exc)

    def _open(self):
        # only the master's user reads arguments of jobs; sqlite gives its further files
        # the mode of the first
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = NORMAL")
        # a checkpoint syncs, so it is done in a thread, see checkpoint()
        self.db.execute("PRAGMA wal_autocheckpoint = 0")
        self.db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        version = self.db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"version {version} of another Salt")
        self.db.executescript(_SCHEMA)
        self.db.execute(f"PRAGMA user_version = {VERSION}")
        damage = salt.job_handler.salvage.damage(self.db)
        if damage is not None:
            raise sqlite3.DatabaseError(damage)
        self._read()

    def _read(self):
        """
        Read everything once: what is whole for SQLite may make no sense all the same.
        """
        for job in self.jobs():
            self.minions_of(job[1])
            self.load_of(job[1])
        self.waves()

    def _renew(self, damage):
        """
        Start anew when the database is damaged, with what can be read of it.
        """
        self.db.close()
        aside = f"{self.path}.broken-{int(self.clock())}"
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.replace(self.path + suffix, aside + suffix)
        self._open()
        try:
            kept = salt.job_handler.salvage.copy(aside, self.db)
            self._read()
        except Exception:  # pylint: disable=broad-except
            log.exception("Nothing could be read of the job handler's damaged queue")
            kept = 0
            salt.job_handler.salvage.empty(self.db)
        log.critical(
            "The job handler's queue is damaged (%s). %d jobs that wait could be read,"
            " others are lost; the damaged database is kept as %s",
            damage,
            kept,
            aside,
        )

    def close(self):
        """
        Close the database.
        """
        self.db.close()

    def checkpoint(self):
        """
        Move what has been committed from the log into the database. Safe to call in
        another thread, and does not hold the writer back.
        """
        db = sqlite3.connect(self.path, isolation_level=None)
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            db.close()

    def log_bytes(self):
        """
        Return the size of what :meth:`checkpoint` would move.
        """
        try:
            return os.path.getsize(f"{self.path}-wal")
        except FileNotFoundError:
            return 0

    # ------------------------------------------------------------------
    # Jobs
    # ------------------------------------------------------------------

    def add(self, submission, job, ids, load):
        """
        Keep a job that is accepted, and set its number.

        :param str submission: names the submission; the same one is kept once
        :param bytes ids: the sorted ids of its minions, packed with msgpack
        :param dict load: what they get
        :return: whether it is a new one
        """
        with self._writing():
            new = self._insert(submission, job, ids, load)
        return new

    @contextlib.contextmanager
    def _writing(self):
        """
        Keep all of what is done here, or nothing.
        """
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            # SQLite may have done so itself
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def _insert(self, submission, job, ids, load):
        """
        Insert a job, with a new number if it has none.
        """
        info = salt.payload.dumps(
            {
                "fun": job.fun,
                "user": job.user,
                "sync": job.sync,
                "deadline": job.deadline,
                "queued": job.queued,
                "forced": job.forced,
                "fixed": job.fixed,
            },
            use_bin_type=True,
        )
        digest = hashlib.blake2b(ids, digest_size=16).digest()
        self.db.execute("INSERT OR IGNORE INTO targets VALUES (?, ?)", (digest, ids))
        cursor = self.db.execute(
            "INSERT OR IGNORE INTO jobs"
            " (seq, submission, jid, digest, count, waves, info)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (job.seq, submission, job.jid, digest, job.count, job.waves, info),
        )
        if not cursor.rowcount:
            return False
        job.seq, job.ref = cursor.lastrowid, digest
        self._put_load(job.seq, load)
        return True

    def _put_load(self, seq, load):
        self.db.execute(
            "INSERT OR REPLACE INTO loads VALUES (?, ?)",
            (seq, salt.payload.dumps(load, use_bin_type=True)),
        )

    def load_of(self, job):
        """
        Return what the minions of a job get. It may be large, so nobody keeps it.
        """
        row = self.db.execute(
            "SELECT load FROM loads WHERE seq = ?", (job.seq,)
        ).fetchone()
        return salt.payload.loads(row[0]) if row else {}

    def minions_of(self, job):
        """
        Return the ids of the minions that a job waits for.
        """
        row = self.db.execute(
            "SELECT ids FROM targets WHERE digest = ?", (job.ref,)
        ).fetchone()
        return salt.payload.loads(row[0])

    def jobs(self):
        """
        Return ``(submission, job)`` for all jobs that wait, in their order.
        """
        ret = []
        for seq, submission, jid, digest, count, waves, info in self.db.execute(
            "SELECT seq, submission, jid, digest, count, waves, info FROM jobs"
            " ORDER BY seq"
        ):
            info = salt.payload.loads(info)
            if "load" in info:
                # as this was kept before
                self._put_load(seq, info.pop("load"))
            job = salt.job_handler.job.Job(seq, jid, count=count, ref=digest, **info)
            job.waves = waves
            ret.append((submission, job))
        return ret

    def remove(self, job):
        """
        Forget a job that won't be published.
        """
        with self._writing():
            self._delete(job)

    def _delete(self, job):
        for table in ("jobs", "loads"):
            self.db.execute(f"DELETE FROM {table} WHERE seq = ?", (job.seq,))

    # ------------------------------------------------------------------
    # Waves
    # ------------------------------------------------------------------

    def dispatch(self, action, load, cost, now):
        """
        Write down that a wave is about to be published.

        :param Dispatch action: what is to be done
        :param dict load: what will be published, or None if nobody is left
        :return: the number of the wave, for :meth:`sent`
        """
        job = action.job
        wave = None
        with self._writing():
            if load is not None:
                wave = self.db.execute(
                    "INSERT INTO waves (seq, jid, cost, since, sent, ids, load)"
                    " VALUES (?, ?, ?, ?, 0, ?, ?)",
                    (
                        job.seq,
                        job.jid,
                        cost,
                        now,
                        salt.payload.dumps(action.minions, use_bin_type=True),
                        salt.payload.dumps(load, use_bin_type=True),
                    ),
                ).lastrowid
            if action.last:
                self._delete(job)
            else:
                ids = salt.payload.dumps(job.minions, use_bin_type=True)
                job.ref = hashlib.blake2b(ids, digest_size=16).digest()
                self.db.execute(
                    "INSERT OR IGNORE INTO targets VALUES (?, ?)", (job.ref, ids)
                )
                self.db.execute(
                    "UPDATE jobs SET digest = ?, count = ?, waves = ? WHERE seq = ?",
                    (job.ref, job.count, job.waves, job.seq),
                )
        return wave

    def sent(self, waves):
        """
        Mark waves as published.

        :param list waves: their numbers
        """
        with self._writing():
            self.db.executemany(
                "UPDATE waves SET sent = 1, load = NULL WHERE id = ?",
                [(wave,) for wave in waves],
            )

    def recall(self, wave):
        """
        Forget a wave that must not be published any more.
        """
        self.db.execute("DELETE FROM waves WHERE id = ?", (wave,))

    def failed(self, wave, submission, job, load):
        """
        A wave could not be published: forget it, and keep the job with the minions that
        it has now.
        """
        ids = salt.payload.dumps(job.minions, use_bin_type=True)
        with self._writing():
            self.db.execute("DELETE FROM waves WHERE id = ?", (wave,))
            self._delete(job)
            self._insert(submission, job, ids, load)

    def waves(self):
        """
        Return ``(id, seq, jid, cost, since, minions, owing, load)`` of all waves with
        charges; ``owing`` are the minions that have given nothing back, and ``load`` is
        None if the wave is known to be published.
        """
        returned = {}
        for jid, minion in self.db.execute("SELECT jid, minion FROM returns"):
            returned.setdefault(jid, set()).add(minion)
        ret = []
        for wave, seq, jid, cost, since, ids, load in self.db.execute(
            "SELECT id, seq, jid, cost, since, ids, load FROM waves ORDER BY id"
        ):
            minions, back = salt.payload.loads(ids), returned.get(jid, ())
            ret.append(
                (
                    wave,
                    seq,
                    jid,
                    int(cost) if cost == int(cost) else cost,
                    since,
                    minions,
                    [minion for minion in minions if minion not in back],
                    None if load is None else salt.payload.loads(load),
                )
            )
        return ret

    def waves_since(self, wave):
        """
        Return how many waves have been written down after one.
        """
        last = self.db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'waves'")
        return last.fetchone()[0] - wave

    def returned(self, charges):
        """
        Note what has been given back.

        :param list charges: ``(jid, minion)`` of each
        """
        with self._writing():
            self.db.executemany("INSERT OR IGNORE INTO returns VALUES (?, ?)", charges)

    def settled(self, jids):
        """
        Forget the waves of jobs of which nothing is charged any more.
        """
        rows = [(jid,) for jid in jids]
        with self._writing():
            self.db.executemany("DELETE FROM waves WHERE jid = ? AND sent = 1", rows)
            self.db.executemany("DELETE FROM returns WHERE jid = ?", rows)

    # ------------------------------------------------------------------
    # Requests, snapshots, cleaning
    # ------------------------------------------------------------------

    def answer(self, request, answer, ids):
        """
        Remember what was answered to a publish request.

        :param bytes ids: the ids of the job's minions, which are the same ones as those
            of many other jobs
        """
        digest = hashlib.blake2b(ids, digest_size=16).digest()
        self.db.execute("INSERT OR IGNORE INTO targets VALUES (?, ?)", (digest, ids))
        self.db.execute(
            "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)",
            (
                request,
                self.clock(),
                digest,
                salt.payload.dumps(answer, use_bin_type=True),
            ),
        )

    def answered(self, request):
        """
        Return what was answered to a publish request, or None.
        """
        row = self.db.execute(
            "SELECT answer, ids FROM requests JOIN targets USING (digest)"
            " WHERE request = ?",
            (request,),
        ).fetchone()
        if row is None:
            return None
        return {**salt.payload.loads(row[0]), "minions": salt.payload.loads(row[1])}

    def put_snapshot(self, name, value):
        """
        Keep a value that msgpack can carry.
        """
        self.db.execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?)",
            (name, salt.payload.dumps(value, use_bin_type=True)),
        )

    def get_snapshot(self, name):
        """
        Return a value that was kept, or None.
        """
        row = self.db.execute(
            "SELECT value FROM snapshots WHERE name = ?", (name,)
        ).fetchone()
        return salt.payload.loads(row[0]) if row else None

    def clean(self):
        """
        Drop what nobody needs any more. Call this now and then.
        """
        self.db.execute(
            "DELETE FROM requests WHERE answered < ?",
            (self.clock() - REQUEST_SECONDS,),
        )
        self.db.execute(
            "DELETE FROM targets WHERE digest NOT IN"
            " (SELECT digest FROM jobs UNION SELECT digest FROM requests)"
        )
