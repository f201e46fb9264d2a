"""
The store: which jobs there are, which waves went out, and who has returned.

A job is a row with a state:

============= =================================================================
``new``       a worker of the master has a place for it, and prepares it
``queued``    it waits for all of its minions, or for the rest of them
``running``   it has been published to all of its minions, and some have a lease
``done``      nothing is left to do
``direct``    the worker has published it, as the job handler did not answer
``cancelled`` somebody took it out of the queue
``discarded`` it waited for too long, its caller has ended, or a rule rejects it
============= =================================================================

A wave is a row before it is published, and is marked as sent some seconds later. A minion
has a lease if a wave went out to it and it is not in ``ended``. SQLite is in WAL mode with
``synchronous = NORMAL``: ``kill -9`` loses nothing, and a power cut the last moments.
"""

import contextlib
import errno
import hashlib
import logging
import os
import sqlite3
import time
import zlib

import salt.exceptions
import salt.payload
import salt.utils.files

try:
    import psycopg2

    _POSTGRES = (psycopg2.OperationalError, psycopg2.InterfaceError)
    _POSTGRES_ERROR = psycopg2.Error
except ImportError:
    _POSTGRES, _POSTGRES_ERROR = (), sqlite3.Error

#: What the database raises if it can't be read or written now.
UNAVAILABLE = (sqlite3.OperationalError, *_POSTGRES)

#: All that the database raises.
ERRORS = (sqlite3.Error, _POSTGRES_ERROR)

log = logging.getLogger(__name__)

NAME = "jobs.sqlite"

#: Each script brings the schema from one version to the next.
MIGRATIONS = (
    """
    CREATE TABLE targets (digest {bytes} PRIMARY KEY, ids {bytes} NOT NULL);
    CREATE TABLE jobs (
        seq {number},
        key TEXT UNIQUE,
        jid TEXT,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        size BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        digest {bytes},
        count INTEGER NOT NULL DEFAULT 0,
        waves INTEGER NOT NULL DEFAULT 0,
        info {bytes},
        load {bytes},
        reason TEXT
    );
    CREATE INDEX jobs_waiting ON jobs (owner, size) WHERE state = 'queued';
    CREATE INDEX jobs_jid ON jobs (jid);
    CREATE TABLE waves (
        id {number},
        seq BIGINT NOT NULL,
        jid TEXT NOT NULL,
        cost DOUBLE PRECISION NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        sent BOOLEAN NOT NULL,
        whole BOOLEAN NOT NULL,
        ids {bytes} NOT NULL
    );
    CREATE INDEX waves_jid ON waves (jid);
    CREATE TABLE ended (
        jid TEXT NOT NULL, minion TEXT NOT NULL, PRIMARY KEY (jid, minion)
    );
    CREATE TABLE left_out (
        id {number},
        jid TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        reasons {bytes} NOT NULL
    );
    CREATE INDEX left_out_jid ON left_out (jid);
    CREATE TABLE meta (name TEXT PRIMARY KEY, value {bytes} NOT NULL);
    """,
    # a new form of the values "pauses" and "leader", which earlier versions can't read
    "DELETE FROM meta WHERE name = 'leader'",
    # what administrators said of jobs was in the value "pauses", see Dispatcher.recover
    """
    CREATE TABLE orders (
        id {number},
        jid TEXT NOT NULL UNIQUE,
        priority INTEGER,
        held BOOLEAN,
        cancelled BOOLEAN
    );
    DROP INDEX jobs_waiting;
    CREATE INDEX jobs_state ON jobs (state, owner, size)
    """,
)

_TYPES = {"bytes": "BLOB", "number": "INTEGER PRIMARY KEY AUTOINCREMENT"}

#: A worker waits so many seconds for somebody who holds the database.
BUSY_SECONDS = 1

#: The log of the database is cut to so many bytes when it has been moved into it.
LOG_BYTES = 16 * 1024 * 1024

#: For so many seconds a second try of a publish request gets the job id of the first.
KEY_SECONDS = 900

#: A worker hands a job over within so many seconds, or never.
NEW_SECONDS = 600

#: So many jobs that were cancelled or discarded are kept for people to look at.
HISTORY = 1000

#: So many orders of administrators are kept for later parts of batches.
ORDERS = 1000

#: The share of the queue that only root may use, and the share that one user may.
ROOT_SHARE = 0.1
USER_SHARE = 0.5


class TakenError(salt.exceptions.SaltException):
    """A worker has taken the job back, and published it itself."""


class DamageError(salt.exceptions.SaltException):
    """A row of the database can't be read."""


class StoreError(salt.exceptions.SaltException):
    """The database can't be used. The message says what to do."""


def is_damage(exc):
    """Return whether the database is damaged. SQLite's module has own classes for all else."""
    # pylint: disable-next=unidiomatic-typecheck
    return isinstance(exc, DamageError) or type(exc) is sqlite3.DatabaseError


def is_busy(exc):
    """Return whether the database may be there again in a moment."""
    if isinstance(exc, sqlite3.OperationalError):
        return "locked" in str(exc)
    return isinstance(exc, _POSTGRES) and not str(exc.pgcode).startswith("53")


def pack(value):
    """Return a value as it is stored."""
    return zlib.compress(salt.payload.dumps(value, use_bin_type=True), 1)


def unpack(packed):
    """Return a value that was stored.

    :raises DamageError: if it is damaged
    """
    try:
        return salt.payload.loads(zlib.decompress(packed))
    except (zlib.error, salt.exceptions.SaltDeserializationError, TypeError) as exc:
        raise DamageError(f"a row of the queue is damaged: {exc}") from exc


def folder(opts):
    """Return the folder of the store. Masters that share a cachedir each have their own."""
    ret = os.path.join(opts["cachedir"], "job_handler")
    if opts.get("cluster_id"):
        ret = os.path.join(ret, hashlib.sha256(opts["id"].encode()).hexdigest()[:16])
    return ret


def _private(path, folder):
    """Make a folder, or a file, for the user of this process alone."""
    try:
        if folder:
            os.makedirs(path, mode=0o700, exist_ok=True)
        kind = os.O_DIRECTORY if folder else os.O_CREAT | os.O_RDWR
        handle = os.open(path, kind | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(handle).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "another user has it")
            os.fchmod(handle, 0o700 if folder else 0o600)
        finally:
            os.close(handle)
    except OSError as exc:
        raise StoreError(
            f"{path} can't be used ({exc.strerror}): correct that, or move it away."
        ) from exc


class Clock:
    """Seconds that go on at the same pace in all processes, over restarts as well."""

    def __init__(self, store):
        self.store = store
        self._offset = None

    def __call__(self):
        if self._offset is None:
            self._offset = self._read()
        return time.monotonic() + self._offset

    def _read(self):
        boot = self._boot()
        known = self.store.get_meta("clock") or {}
        if boot and known.get("boot") == boot:
            return known["offset"]
        # not before what was seen last: the clock of the machine may be wrong
        offset = max(time.time(), known.get("seen", 0)) - time.monotonic()
        self.store.put_meta("clock", {"boot": boot, "offset": offset})
        return offset

    def keep(self):
        """Remember what time it is."""
        known = {"boot": self._boot(), "offset": self._offset, "seen": self()}
        self.store.put_meta("clock", known)

    @staticmethod
    def _boot():
        try:
            with salt.utils.files.fopen("/proc/sys/kernel/random/boot_id") as handle:
                return handle.read().strip()
        except OSError:
            return ""


class Store:
    """
    :param float busy: for how many seconds to wait for somebody who holds the database
    """

    #: whether other masters have it as well
    shared = False

    def __init__(self, opts, busy=BUSY_SECONDS):
        path = folder(opts)
        _private(os.path.join(opts["cachedir"], "job_handler"), True)
        _private(path, True)
        self.path = os.path.join(path, NAME)
        _private(self.path, False)
        #: tells whether the database was put aside
        self.inode = os.stat(self.path).st_ino
        self.db = sqlite3.connect(self.path, timeout=busy, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self.db.close()
            raise
        self.clock = Clock(self)

    def _prepare(self):
        # only has an effect before there are tables
        self.db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = NORMAL")
        # a checkpoint syncs, so the job handler does it in a thread
        self.db.execute("PRAGMA wal_autocheckpoint = 0")
        self.db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        self._check_version(self._version())
        if self._version() < len(MIGRATIONS):
            with self.writing():
                self._migrate()

    def _migrate(self):
        for number, script in enumerate(MIGRATIONS[self._version() :], self._version()):
            for statement in script.format(**_TYPES).split(";"):
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {number + 1}")

    def _check_version(self, version):
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} has version {version} of the queue, and this Salt knows"
                f" {len(MIGRATIONS)}: start the Salt that wrote it, and let the queue run"
                " empty, or move it away."
            )

    def _version(self):
        return self.db.execute("PRAGMA user_version").fetchone()[0]

    def _insert(self, statement, values):
        return self.db.execute(statement, values).lastrowid

    def close(self):
        """Close the database."""
        self.db.close()

    @contextlib.contextmanager
    def writing(self):
        """Keep all that is written here, or nothing."""
        if self.db.in_transaction:
            yield
            return
        try:
            self._begin()
            yield
            self.db.execute("COMMIT")
        except BaseException:
            # the database may have done so itself, or be gone
            with contextlib.suppress(*ERRORS):
                self.db.execute("ROLLBACK")
            raise

    def _begin(self):
        self.db.execute("BEGIN IMMEDIATE")

    def keep_lead(self):
        """Say that the job handler is still taking over, if other masters wait for that."""

    def replaced(self):
        """Return whether the database was moved away, or another one is in its place."""
        try:
            return os.stat(self.path).st_ino != self.inode
        except FileNotFoundError:
            return True

    def check(self):
        """:raises DamageError: if the database is damaged"""
        answer = self.db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise DamageError(answer)
        self.waves()
        self.jobs("queued")
        query = "SELECT value FROM meta UNION ALL SELECT ids FROM targets"
        for (value,) in self.db.execute(query):
            unpack(value)

    def checkpoint(self):
        """Move the log into the database. Another thread may call this."""
        db = sqlite3.connect(self.path, isolation_level=None)
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            db.close()

    def get_meta(self, name, default=None):
        """Return a value that was kept."""
        row = self.db.execute(
            "SELECT value FROM meta WHERE name = ?", (name,)
        ).fetchone()
        return unpack(row[0]) if row else default

    def put_meta(self, name, value):
        """Keep a value that msgpack can carry."""
        with self.writing():
            self.db.execute(
                "INSERT INTO meta VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, pack(value)),
            )

    # What workers of the master do

    def reserve(self, key, user, privileged, size, most, most_bytes):
        """Get a place for a job, in one transaction.

        :param str key: names the publish request, or None
        :return: ``(seq, None, None)`` for a new job, ``(seq, state, jid)`` if the
            request is known, or ``(None, sentence, None)`` if there is no place
        """
        with self.writing():
            row = self.db.execute(
                "SELECT seq, state, jid FROM jobs WHERE key = ?", (key,)
            ).fetchone()
            if row:
                return row
            sentence = self._full(user, privileged, size, most, most_bytes)
            if sentence:
                return None, sentence, None
            seq = self._insert(
                "INSERT INTO jobs (key, owner, state, size, at) VALUES (?, ?, ?, ?, ?)",
                (key, user, "new", size, self.clock()),
            )
        return seq, None, None

    def _full(self, user, privileged, size, most, most_bytes):
        count, taken, mine, my_bytes = self.db.execute(
            "SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT),"
            " coalesce(sum(CASE WHEN owner = ? THEN 1 END), 0),"
            " CAST(coalesce(sum(CASE WHEN owner = ? THEN size END), 0) AS BIGINT)"
            " FROM jobs WHERE state IN ('new', 'queued')",
            (user, user),
        ).fetchone()
        jobs = f"The master has {count} jobs waiting, and takes"
        size_of = "The waiting jobs{} would take {} bytes with this one, and may take"
        checks = []
        if not privileged:
            own = f"User {user} has {mine} jobs waiting, and may have"
            own_size = size_of.format(f" of user {user}", my_bytes + size)
            checks.append((own, mine + 1, max(1, int(most * USER_SHARE))))
            checks.append((own_size, my_bytes + size, int(most_bytes * USER_SHARE)))
            most -= int(most * ROOT_SHARE)
            most_bytes -= int(most_bytes * ROOT_SHARE)
        checks.append((jobs, count + 1, most))
        checks.append((size_of.format("", taken + size), taken + size, most_bytes))
        for sentence, number, limit in checks:
            if number > limit:
                return f"{sentence} at most {limit}"
        return None

    def complete(self, seq, jid, load, ids, info):
        """Hand a job over. The minions with the sorted ``ids`` get the load."""
        body = pack(load)
        with self.writing():
            row = self._row("state", seq)
            if row and row[0] != "new":
                # done, but the connection was lost then
                return
            size = len(body) + self._set_ids(seq, ids, 0)
            cursor = self.db.execute(
                "UPDATE jobs SET jid = ?, size = ?, at = ?, info = ?, load = ?"
                " WHERE seq = ?",
                (jid, size, self.clock(), pack(info), body, seq),
            )
            if not cursor.rowcount:
                raise StoreError("its place in the queue is gone")

    def abandon(self, seq):
        """Forget a job that got no job id."""
        self.db.execute("DELETE FROM jobs WHERE seq = ? AND state = 'new'", (seq,))

    def take_back(self, seq, state, reason=None):
        """Take a job, unless a wave of it was written, from the job handler; return whether."""
        with self.writing():
            done = self.db.execute(
                # the caller reads that nothing was sent, and may try again
                "UPDATE jobs SET state = ?, reason = ?,"
                " key = CASE WHEN ? = 'direct' THEN key END"
                " WHERE seq = ? AND state IN ('new', 'queued', ?) AND waves = 0",
                # the last for one that took it, and lost the connection then
                (state, reason, state, seq, state),
            )
        return bool(done.rowcount)

    # What the job handler does

    def values(self, column, state):
        """Return a list of one value of each job in a state."""
        rows = self.db.execute(f"SELECT {column} FROM jobs WHERE state = ?", (state,))
        return [value for (value,) in rows]

    def jobs(self, state, seq=None):
        """
        Return ``(seq, jid, user, size, at, count, waves, info, order)`` of the jobs in a
        state, or of the one with a number.
        """
        rows = self.db.execute(
            "SELECT seq, jid, owner, size, at, count, waves, info, priority, held,"
            " cancelled FROM jobs LEFT JOIN orders USING (jid)"
            f" WHERE state = ? {'' if seq is None else 'AND seq = ?'} ORDER BY seq",
            (state,) if seq is None else (state, seq),
        ).fetchall()
        return [(*row[:7], unpack(row[7]), row[8:]) for row in rows]

    def order(self, jid, priority=None, held=None, cancelled=None):
        """
        Keep an order for a job and later parts of a batch; None leaves what there is.
        """
        with self.writing():
            row = self.db.execute(
                "SELECT priority, held, cancelled FROM orders WHERE jid = ?", (jid,)
            ).fetchone()
            order = [
                old if new is None else new
                for old, new in zip(
                    row or (None, None, None), (priority, held, cancelled)
                )
            ]
            # what was said last is forgotten last
            self.db.execute("DELETE FROM orders WHERE jid = ?", (jid,))
            self.db.execute(
                "INSERT INTO orders (jid, priority, held, cancelled)"
                " VALUES (?, ?, ?, ?)",
                (jid, *order),
            )

    def _row(self, columns, seq):
        return self.db.execute(
            f"SELECT {columns} FROM jobs WHERE seq = ?", (seq,)
        ).fetchone()

    def load_of(self, seq):
        """Return what the minions of a job get, or None if it has ended."""
        row = self._row("load", seq)
        return unpack(row[0]) if row and row[0] is not None else None

    def ids_of(self, seq):
        """Return the ids of the minions that a job waits for, none if it is not known."""
        row = self.db.execute(
            "SELECT ids FROM jobs JOIN targets USING (digest) WHERE seq = ?", (seq,)
        ).fetchone()
        return unpack(row[0]) if row else []

    def _set_ids(self, seq, ids, waves):
        """
        Let a job wait for these minions, and return how many bytes their ids take.
        """
        packed = pack(ids)
        digest = hashlib.blake2b(packed, digest_size=16).digest()
        self.db.execute(
            "INSERT INTO targets VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, packed)
        )
        self.db.execute(
            "UPDATE jobs SET digest = ?, count = ?, waves = ?, state = 'queued'"
            " WHERE seq = ?",
            (digest, len(ids), waves, seq),
        )
        return len(packed)

    def wave(self, job, minions, excluded, rest, whole, state="queued"):
        """Write down that a wave is about to be published, and who is left out.

        :param bool whole: whether it goes out with the target of the job
        :param str state: of the job; with ``direct`` a worker has published the wave
        :return: the number of the wave, and the load; Nones if ``minions`` is empty
        :raises TakenError: if a worker has taken the job back
        """
        number = load = None
        with self.writing():
            row = self._row("state", job.seq)
            if row is None or row[0] != state:
                raise TakenError(f"job {job.jid} was published by a worker")
            self._leave_out(job.jid, excluded)
            if minions:
                packed, load = pack(minions), self.load_of(job.seq)
                number = self._insert(
                    "INSERT INTO waves (seq, jid, cost, at, sent, whole, ids)"
                    " VALUES (?, ?, ?, ?, FALSE, ?, ?)",
                    (job.seq, job.jid, job.cost, self.clock(), whole, packed),
                )
            if rest:
                self._set_ids(job.seq, rest, job.waves + 1)
            else:
                self.db.execute(
                    "UPDATE jobs SET state = 'running', count = 0, waves = ?"
                    " WHERE seq = ?",
                    (job.waves + 1, job.seq),
                )
        return number, load

    def _leave_out(self, jid, reasons):
        if reasons:
            self.db.execute(
                "INSERT INTO left_out (jid, at, reasons) VALUES (?, ?, ?)",
                (jid, self.clock(), pack(reasons)),
            )

    def progress(self, sent, ended, done):
        """
        Write down which waves were sent, ``(jid, minion)`` ended, and jobs are done.
        """
        jids = [(jid,) for jid in done]
        with self.writing():
            for statement, rows in (
                ("UPDATE waves SET sent = TRUE WHERE id = ?", [(id_,) for id_ in sent]),
                ("INSERT INTO ended VALUES (?, ?) ON CONFLICT DO NOTHING", ended),
                ("DELETE FROM waves WHERE jid = ? AND sent", jids),
                ("DELETE FROM ended WHERE jid = ?", jids),
                (
                    "UPDATE jobs SET state = 'done', load = NULL, digest = NULL"
                    " WHERE jid = ? AND state = 'running'"
                    " AND seq NOT IN (SELECT seq FROM waves)",
                    jids,
                ),
            ):
                self.db.executemany(statement, rows)

    def jids_out(self):
        """Return the ids of all jobs that run, or of which waves went out."""
        rows = self.db.execute(
            "SELECT jid FROM waves UNION SELECT jid FROM jobs WHERE state = 'running'"
        )
        return {jid for (jid,) in rows}

    def failed(self, wave, seq, minions, waves):
        """A wave could not be published: the job waits again for these minions."""
        with self.writing():
            self.db.execute("DELETE FROM waves WHERE id = ?", (wave,))
            self._set_ids(seq, minions, waves)

    def waves(self):
        """
        Return ``(id, seq, jid, cost, at, sent, whole, minions, those with a lease)`` of
        all waves, each with the function and the user of its job, or None.
        """
        ended = {}
        for jid, minion in self.db.execute("SELECT jid, minion FROM ended"):
            ended.setdefault(jid, set()).add(minion)
        ret = []
        for *row, ids, info, owner in self.db.execute(
            "SELECT w.id, w.seq, w.jid, w.cost, w.at, w.sent, w.whole, w.ids, info, owner"
            " FROM waves AS w LEFT JOIN jobs USING (seq) ORDER BY w.id"
        ):
            minions = unpack(ids)
            gone = ended.get(row[2], ())
            held = [minion for minion in minions if minion not in gone]
            known = None if info is None else (unpack(info)["fun"], owner)
            ret.append(((*row, minions, held), known))
        return ret

    def finish(self, seq, jid, state, reason, left_out):
        """End a job, or the rest of one, that waits.

        :raises TakenError: if a worker has taken the job back
        """
        with self.writing():
            self._leave_out(jid, left_out)
            done = self.db.execute(
                "UPDATE jobs SET state = ?, reason = ?, count = 0, digest = NULL, at = ?,"
                # a wave of it may have to be published again
                " load = CASE WHEN seq IN (SELECT seq FROM waves WHERE NOT sent)"
                " THEN load END WHERE seq = ? AND state = 'queued'",
                (state, reason, self.clock(), seq),
            )
            if not done.rowcount:
                raise TakenError(f"job {jid} was published by a worker")
        return True

    def left_out(self, jid, since=0):
        """Return the minions that did not get a job since then, each with the reason."""
        ret = {}
        for (reasons,) in self.db.execute(
            "SELECT reasons FROM left_out WHERE jid = ? AND at >= ? ORDER BY id",
            (jid, since),
        ):
            ret.update(unpack(reasons))
        return ret

    def owners(self, jid):
        """Return the users whose jobs have this id."""
        rows = self.db.execute("SELECT DISTINCT owner FROM jobs WHERE jid = ?", (jid,))
        return [owner for (owner,) in rows]

    def history(self, limit):
        """Return ``(jid, user, state, reason, when)`` of jobs that did not go out, latest first."""
        return self.db.execute(
            "SELECT jid, owner, state, reason, at FROM jobs"
            " WHERE state IN ('cancelled', 'discarded') ORDER BY at DESC, seq DESC"
            " LIMIT ?",
            (limit,),
        ).fetchall()

    def clean(self, keep):
        """
        Forget what nobody needs; who was left out after ``keep`` seconds, or never (0).
        """
        now, gone = self.clock(), "state IN ('cancelled', 'discarded')"
        with self.writing():
            for statement, *values in (
                ("DELETE FROM left_out WHERE at < ?", now - (keep or float("inf"))),
                ("DELETE FROM jobs WHERE state = 'new' AND at < ?", now - NEW_SECONDS),
                (
                    f"DELETE FROM jobs WHERE (state = 'done' OR {gone}) AND at < ? AND seq"
                    f" NOT IN (SELECT seq FROM jobs WHERE {gone} ORDER BY at DESC LIMIT ?)",
                    now - KEY_SECONDS,
                    HISTORY,
                ),
                (
                    f"UPDATE jobs SET load = NULL WHERE {gone} AND load IS NOT NULL"
                    " AND seq NOT IN (SELECT seq FROM waves WHERE NOT sent)",
                ),
                (
                    "DELETE FROM orders WHERE jid NOT IN"
                    " (SELECT jid FROM jobs WHERE state = 'queued') AND id NOT IN"
                    " (SELECT id FROM orders ORDER BY id DESC LIMIT ?)",
                    ORDERS,
                ),
                (
                    "DELETE FROM targets WHERE digest NOT IN"
                    " (SELECT digest FROM jobs WHERE digest IS NOT NULL)",
                ),
            ):
                self.db.execute(statement, values)
        self._shrink()

    def _shrink(self):
        # execute() would end after the first page
        self.db.executescript("PRAGMA incremental_vacuum(1000)")

    def end_all(self, reason):
        """End all jobs for good, as the job handler is turned off."""
        for seq, jid, *_ in self.jobs("queued"):
            ids = self.ids_of(seq)
            log.warning("Job %s is not published to %d minions", jid, len(ids))
            self.finish(seq, jid, "discarded", reason, dict.fromkeys(ids, reason))
        with self.writing():
            for statement in (
                "DELETE FROM waves",
                "DELETE FROM ended",
                "DELETE FROM orders",
                "DELETE FROM meta WHERE name IN ('pauses', 'kept')",
                "UPDATE jobs SET state = 'done', load = NULL, digest = NULL"
                " WHERE state IN ('new', 'running', 'direct')",
            ):
                self.db.execute(statement)


def when_off(opts, name, *args):
    """Call a method of the store, if there is one, while the job handler is off."""
    if not os.path.exists(os.path.join(folder(opts), NAME)):
        return None
    try:
        with contextlib.closing(Store(opts)) as store:
            return getattr(store, name)(*args)
    except (StoreError, DamageError, OSError, sqlite3.Error) as exc:
        # a newer version may have it, which is no error
        level = logging.INFO if isinstance(exc, StoreError) else logging.ERROR
        log.log(level, "The job handler's queue can't be used: %s", exc)
        return None


def set_aside(opts, damage):
    """Put a damaged database aside, and copy what can be read into a new one."""
    path = os.path.join(folder(opts), NAME)
    aside = f"{path}.damaged"
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside + suffix)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + suffix, aside + suffix)
    lost = set()
    # it is not known any more what these are, or whom they are for
    unknown = (
        "FROM jobs WHERE state IN ('queued', 'direct') AND (jid IS NULL OR info IS NULL"
        " OR load IS NULL OR digest IS NULL OR digest NOT IN (SELECT digest FROM targets))"
    )
    with contextlib.closing(Store(opts)) as store:
        with contextlib.closing(sqlite3.connect(aside)) as old:
            for table in "targets jobs waves ended left_out meta orders".split():
                _copy(old, store.db, table, lost)
        lost.update(jid for (jid,) in store.db.execute(f"SELECT jid {unknown}"))
        store.db.execute(f"DELETE {unknown}")
    log.critical(
        "The job handler's queue is damaged (%s). Lost is: %s; what else could"
        " be read is kept, and the damaged database is %s",
        damage,
        ", ".join(sorted(map(str, lost))) or "nothing that is known",
        aside,
    )


def _copy(old, new, table, lost):
    """
    Copy the rows that make sense. Add to a set what is lost: job ids, or the table.
    """
    for order in ("ASC", "DESC"):
        key = {"targets": "digest", "meta": "name", "ended": "jid"}.get(table, "rowid")
        try:
            cursor = old.execute(f"SELECT * FROM {table} ORDER BY {key} {order}")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                values = dict(zip(names, row))
                try:
                    for name in ("ids", "info", "load", "reasons", "value"):
                        if values.get(name) is not None:
                            unpack(values[name])
                    marks = ", ".join("?" * len(row))
                    new.execute(
                        f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT DO NOTHING",
                        row,
                    )
                except (DamageError, sqlite3.Error):
                    lost.add(values.get("jid") or f"a row of {table}")
        except (sqlite3.DatabaseError, OverflowError) as exc:
            # an earlier version has no table of orders
            if f"no such table: {table}" not in str(exc):
                lost.add(f"a page of {table}")
