"""
The database of the journal: how it is opened, what is done when it is damaged, and how
its log is kept short.

SQLite in WAL mode, with one writer. ``synchronous = NORMAL``: a commit is in the operating
system's hands, so ``kill -9`` loses nothing that was committed, and a power cut may lose
the last moments but not the database. The job cache, without which a queued job would be
of no use, is not synced to disk either.
"""

import contextlib
import hashlib
import logging
import os
import re
import sqlite3
import stat
import time

import salt.job_handler.salvage
import salt.payload

log = logging.getLogger(__name__)

VERSION = 1

#: The name of its file.
NAME = "queue.sqlite"

#: How many damaged databases are kept.
DAMAGED_KEPT = 2

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
CREATE TABLE IF NOT EXISTS left_out (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    jid TEXT NOT NULL,
    since REAL NOT NULL,
    sentences BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS left_out_jid ON left_out (jid);
CREATE INDEX IF NOT EXISTS left_out_since ON left_out (since);
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


def end_if_damaged(exc):
    """
    End the process when the database is damaged: the next one keeps what can be read.
    """
    if type(exc) is sqlite3.DatabaseError:  # pylint: disable=unidiomatic-typecheck
        raise SystemExit("The job handler's queue is damaged") from exc


def private(folder):
    """
    Make a folder that only the user of this process may open, or see to it that one that
    is there is such a folder.

    :param str folder: the folder, whose parents are made too
    :raises SystemExit: if it belongs to somebody else, or is a link
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except FileExistsError:
        # a file, or a link that leads nowhere
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SystemExit(
            f"Move {folder} away: it is no folder of the user that the master runs as,"
            " and the job handler keeps its files there"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _narrow(path):
    """
    Take from others the rights to a file, and make it if it isn't there.

    :raises SystemExit: if it is a link, or can't be opened
    """
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except (PermissionError, IsADirectoryError):
        pass
    except OSError:
        if not os.path.islink(path):
            raise
    else:
        try:
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
        return
    raise SystemExit(
        f"Move {path} away: it is no file of the user that the master runs as, and the"
        " job handler keeps the arguments of jobs in such files"
    )


class Database:
    """
    :param str folder: where the database is, which is made if it isn't there
    :param callable clock: returns seconds since the epoch, for what is kept a while
    """

    def __init__(self, folder, clock=time.time):
        self.clock = clock
        private(folder)
        self.path = os.path.join(folder, NAME)
        try:
            self._open()
        except Exception as exc:  # pylint: disable=broad-except
            if not salt.job_handler.salvage.is_damage(exc):
                raise
            self._renew(exc)

    def read(self):
        """
        Read everything once: what is whole for SQLite may make no sense all the same.
        """
        raise NotImplementedError

    def _open(self):
        # only the master's user reads arguments of jobs; sqlite gives its further files
        # the mode of the first, but not those that are there already
        _narrow(self.path)
        folder = os.path.dirname(self.path)
        for name in os.listdir(folder):
            if name.startswith(f"{NAME}-") or name.startswith(f"{NAME}.broken-"):
                _narrow(os.path.join(folder, name))
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
        self.read()

    def _renew(self, damage):
        """
        Start anew when the database is damaged, with what can be read of it.
        """
        self.db.close()
        aside = self._aside()
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.replace(self.path + suffix, aside + suffix)
        self._open()
        try:
            kept = salt.job_handler.salvage.copy(aside, self.db)
            self.read()
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

    def _aside(self):
        """
        Return a new name for a damaged database, and remove all but the newest of those
        that are there: they hold the arguments of jobs.
        """
        folder = os.path.dirname(self.path)
        old = re.compile(re.escape(f"{NAME}.broken-") + r"(\d+)(-wal|-shm)?")
        found = {}
        for name in os.listdir(folder):
            match = old.fullmatch(name)
            if match:
                found.setdefault(int(match.group(1)), []).append(name)
        for one in sorted(found)[: -(DAMAGED_KEPT - 1)]:
            for name in found[one]:
                os.unlink(os.path.join(folder, name))
        # clocks are set back, and two may be damaged within a second
        number = max([int(self.clock()), *(one + 1 for one in found)])
        return f"{self.path}.broken-{number}"

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

    @contextlib.contextmanager
    def writing(self):
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

    def answer(self, key, answer, ids):
        """
        Remember what was answered to a publish request.

        :param str key: its idempotency key
        :param bytes ids: the ids of the job's minions, which are the same ones as those
            of many other jobs
        """
        digest = hashlib.blake2b(ids, digest_size=16).digest()
        self.db.execute("INSERT OR IGNORE INTO targets VALUES (?, ?)", (digest, ids))
        self.db.execute(
            "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)",
            (
                key,
                self.clock(),
                digest,
                salt.payload.dumps(answer, use_bin_type=True),
            ),
        )

    def answered(self, key):
        """
        Return what was answered to a publish request, or None.
        """
        row = self.db.execute(
            "SELECT answer, ids FROM requests JOIN targets USING (digest)"
            " WHERE request = ?",
            (key,),
        ).fetchone()
        if row is None:
            return None
        return {**salt.payload.loads(row[0]), "minions": salt.payload.loads(row[1])}

    def clean(self, keep=86400):
        """
        Drop what nobody needs any more. Call this now and then.

        :param float keep: for how many seconds it is known who was left out of a job
        """
        self.db.execute("DELETE FROM left_out WHERE since < ?", (self.clock() - keep,))
        self.db.execute(
            "DELETE FROM requests WHERE answered < ?",
            (self.clock() - REQUEST_SECONDS,),
        )
        self.db.execute(
            "DELETE FROM targets WHERE digest NOT IN"
            " (SELECT digest FROM jobs UNION SELECT digest FROM requests)"
        )
