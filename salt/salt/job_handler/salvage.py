"""
What can still be read of a damaged database of the job handler.

SQLite reads a database page by page, and each page that is whole gives out its rows. So
every row is asked for by its number, from the lowest to the highest that are known.
"""

import hashlib
import logging
import sqlite3

import salt.exceptions
import salt.job_handler.left_out
import salt.payload

log = logging.getLogger(__name__)

#: The tables, in the order of what refers to what, with their keys.
TABLES = {
    "targets": "digest",
    "jobs": "seq",
    "loads": "seq",
    "waves": "id",
    "returns": None,
    "left_out": "id",
    "requests": "request",
    "snapshots": "name",
}

#: Columns that hold something packed.
_PACKED = ("info", "ids", "load", "answer", "value")

#: So many numbers of rows are tried at most.
MOST = 1000000

#: What SQLite says when the database can't be used and nothing is wrong with its content.
_WHOLE = ("locked", "full", "readonly", "unable to open", "I/O error")


def is_damage(exc):
    """
    Return whether an error on opening a database means that it is damaged.
    """
    if isinstance(exc, sqlite3.OperationalError):
        return not any(words in str(exc) for words in _WHOLE)
    return not isinstance(exc, (OSError, MemoryError))


def empty(db):
    """
    Delete everything.
    """
    for table in TABLES:
        db.execute(f"DELETE FROM {table}")


def damage(db):
    """
    Return what is wrong with a database, in the words of SQLite, or None.
    """
    try:
        rows = db.execute("PRAGMA quick_check(3)").fetchall()
    except sqlite3.DatabaseError as exc:
        return str(exc)
    return None if rows == [("ok",)] else "; ".join(row[0] for row in rows)


def copy(path, db):
    """
    Copy the rows that can be read.

    :param str path: a damaged database
    :param Connection db: one with the same tables, which are empty
    :return: how many jobs were copied
    """
    old = sqlite3.connect(path, isolation_level=None)
    try:
        old.execute("PRAGMA writable_schema = ON")
        for table in TABLES:
            _copy_table(old, db, table)
    finally:
        old.close()
    # of these it is not known any more what they are, or whom they go to
    db.execute(
        "DELETE FROM jobs WHERE digest NOT IN (SELECT digest FROM targets)"
        " OR seq NOT IN (SELECT seq FROM loads)"
    )
    return db.execute("SELECT count(*) FROM jobs").fetchone()[0]


def _copy_table(old, db, table):
    rows = {}
    for query in _queries(old, table):
        try:
            cursor = old.execute(query)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                if _makes_sense(table, dict(zip(names, row))):
                    rows[row[0] if TABLES[table] else row] = row
        except (sqlite3.DatabaseError, OverflowError):
            # what was read before counts
            log.debug("A page of the table %s is damaged", table)
    for row in rows.values():
        try:
            db.execute(
                "INSERT OR IGNORE INTO {} VALUES ({})".format(
                    table, ", ".join("?" * len(row))
                ),
                row,
            )
        except sqlite3.Error:
            log.debug("A row of the table %s is damaged", table)


def _makes_sense(table, row):
    """
    Return whether what is packed in a row can be unpacked.
    """
    try:
        for name in _PACKED:
            if row.get(name) is not None:
                salt.payload.loads(row[name])
        if table == "left_out":
            salt.job_handler.left_out.unpack(row["sentences"])
        if table == "targets":
            digest = hashlib.blake2b(row["ids"], digest_size=16).digest()
            return digest == row["digest"]
    except (salt.exceptions.SaltDeserializationError, ValueError, TypeError):
        return False
    return True


def _queries(old, table):
    """
    Yield queries that together reach each row on a page that is whole.
    """
    yield f"SELECT * FROM {table}"
    key = TABLES[table]
    if key is not None:
        yield f"SELECT * FROM {table} NOT INDEXED ORDER BY rowid DESC"
    if key in ("seq", "id"):
        first, last = _range(old, table)
        for number in range(first, min(last, first + MOST) + 1):
            yield f"SELECT * FROM {table} WHERE {key} = {number}"


def _range(old, table):
    """
    Return the lowest and the highest number that a row may have.
    """

    def ask(query):
        try:
            return old.execute(query).fetchone()[0]
        except sqlite3.DatabaseError:
            return None

    low = ask(f"SELECT min(rowid) FROM {table}")
    high = ask(f"SELECT max(rowid) FROM {table}")
    given = ask("SELECT max(seq) FROM sqlite_sequence")
    high = max((number for number in (high, given) if number is not None), default=0)
    return max(1, high - MOST) if low is None else low, high
