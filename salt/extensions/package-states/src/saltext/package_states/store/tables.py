"""The tables of package states in PostgreSQL, see :mod:`saltext.package_states.store.schema`.

:depends: psycopg2
"""

import contextlib
import datetime
import json
import re
from typing import NamedTuple

import saltext.package_states.store.connection as connections
import saltext.package_states.store.schema as schema
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.model import item, names


class Revision(NamedTuple):
    number: int  # its number; 0 is the empty state that no one saved yet
    # the revision that its author saw, or that a rollback brought back, or None
    parent: int
    # who saved it, why, and when
    author: str
    comment: str
    created: str
    items: tuple  # the entries


class State(NamedTuple):
    """A state, and whether it is the own one of the minion with this name"""

    id: int  # that of the table
    name: str  # its name
    own: bool  # whether it is the state of the minion with this name


class Save(NamedTuple):
    author: str
    comment: str = ""  # why
    seen: int = None  # the revision that the author saw, None not to check
    dry_run: bool = False  # save nothing, and return what would change


EMPTY = Revision(0, None, "", "", "", ())
#: The kind of change whose target is the name that a state had before
RENAMED = "name"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:\Z|[ T][0-9]{2}:[0-9]{2})")
_TOMORROW = "+ interval '1 day'"
_REVISION = "number, parent, author, comment, created::text, items"
# what to do where the lock is not to be had
_BUSY = "somebody else has been saving for so long; see who, in pg_stat_activity, or try again"

# lock_timeout and statement_timeout
_WAITED = ("55P03", "57014")
# somebody else has it, the role may not write, the server only reads
_NO_LOCK = ("55P03", "42501", "25006")


@contextlib.contextmanager
def reading(opts):
    """Yield a connection for queries, each of which is a transaction"""
    params = connections.get_params(opts)
    with connections.told(), contextlib.closing(
        connections.Connection(**params)
    ) as connection:
        schema.check(connection)
        yield connection


@contextlib.contextmanager
def writing(opts, commit=True, after=None):
    """Yield a connection in a transaction, which is the only one that writes states

    Whoever writes holds a lock, until the files are written: two people must not save two halves of
    a conflict. ``after`` is called at the end of the transaction, if that did not fail, while still
    nobody else writes; without ``commit`` it is rolled back.
    """
    params = connections.get_params(opts)
    with connections.told(), contextlib.closing(
        connections.Connection(**params)
    ) as lock:
        # of a transaction of its own, so that it outlasts the other one
        _lock(lock)
        # closing it rolls back what was not committed
        with contextlib.closing(connections.Connection(**params)) as connection:
            schema.check(connection)
            connection.execute("BEGIN")
            connection.execute(schema.SAVING)
            yield connection
            if commit:
                connection.commit()
            else:
                connection.execute("ROLLBACK")
            if after:
                after()
                _still_locked(lock)


def _lock(connection):
    """Let nobody else save, or set up, until the connection is closed"""
    schema.check(connection)
    # the server must not end it while it waits for the files
    connection.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
    try:
        connection.execute(schema.LOCK)
    except connections.psycopg2.Error as exc:
        if exc.pgcode not in _WAITED:
            raise
        with connections.told(_BUSY):
            raise


def _still_locked(connection):
    """Check that nobody else can have saved while files were written"""
    try:
        with connections.told():
            connection.execute("SELECT 1")
    except PackageStateError:
        raise PackageStateError(
            "It is saved, but PostgreSQL went away while files were written, and somebody else"
            " may have saved since; run package_states.refresh."
        ) from None


@contextlib.contextmanager
def quiet(connection):
    """Yield whether nobody is saving, and let nobody save meanwhile, in a transaction; does not wait

    Whoever may not write has no lock, and a server that only reads has none to give.
    """
    connection.execute("BEGIN")
    try:
        connection.execute(schema.QUIET)
    except connections.psycopg2.Error as exc:
        if exc.pgcode not in _NO_LOCK:
            raise
        connection.execute("ROLLBACK")
        yield False
        return
    # an error ends the session, and with it the lock
    yield True
    connection.execute("COMMIT")


def ask(connection, query, *values):
    try:
        return connection.execute(query, values)
    except ValueError:
        # psycopg2 refuses what PostgreSQL can't store
        raise InvalidInput(
            "A NUL character and half a character can't be stored; leave them out and try"
            " again."
        ) from None


def states(connection):
    rows = ask(
        connection,
        'SELECT id, name, own FROM package_states.state ORDER BY name COLLATE "C"',
    )
    return [State(*row) for row in rows]


def find(connection, name):
    rows = ask(
        connection,
        "SELECT id, name, own FROM package_states.state WHERE name = %s",
        names.state(name),
    )
    return State(*rows[0]) if rows else None


def state(connection, name):
    """Return a state, or raise that there is none"""
    found = find(connection, name)
    if found is None:
        new = renamed(connection, name)
        make = f"see package_states.show, or make it with package_states.set {name}"
        hint = f"it is {new} now" if new else make
        raise PackageStateError(f"There is no package state {name}; {hint}.")
    return found


def renamed(connection, name):
    """Return the name that the state has now which had this one before, None if there is none"""
    rows = ask(
        connection,
        "SELECT s.name FROM package_states.assignment_change AS c"
        " JOIN package_states.state AS s ON s.id = c.state_id"
        f" WHERE c.kind = '{RENAMED}' AND c.target = %s ORDER BY c.id DESC",
        name,
    )
    return rows[0][0] if rows else None


def create(connection, name, own):
    rows = ask(
        connection,
        "INSERT INTO package_states.state (name, own) VALUES (%s, %s) RETURNING id, name, own",
        names.state(name),
        own,
    )
    return State(*rows[0])


def rename(connection, where, name, how):
    if find(connection, name):
        raise PackageStateError(f"The package state {name} exists; take another name.")
    ask(
        connection,
        "UPDATE package_states.state SET name = %s WHERE id = %s",
        name,
        where.id,
    )
    note(connection, where.id, RENAMED, where.name, None, how)


def _revision(row):
    return Revision(*row[:5], _items(row[5]))


def _items(rows):
    return item.ordered(map(item.from_dict, rows or ()))


def newest(connection, ids):
    """Return the newest revision of states by id, :data:`EMPTY` where there is none"""
    ids = list(ids)
    rows = ask(
        connection,
        f"SELECT DISTINCT ON (state_id) state_id, {_REVISION} FROM package_states.revision"
        " WHERE state_id = ANY(%s) ORDER BY state_id, number DESC",
        ids,
    )
    found = {row[0]: _revision(row[1:]) for row in rows}
    return {number: found.get(number, EMPTY) for number in ids}


def revision(connection, where, number=None):
    """Return one revision of a state, by default the newest one, or raise that there is none"""
    if number is None:
        return newest(connection, [where.id])[where.id]
    if str(number) == "0":
        return EMPTY
    rows = ask(
        connection,
        f"SELECT {_REVISION} FROM package_states.revision"
        " WHERE state_id = %s AND number::text = %s",
        where.id,
        str(number),
    )
    if not rows:
        raise PackageStateError(
            f"{where.name} has no such revision; see package_states.history {where.name}."
        )
    return _revision(rows[0])


def day(day):
    """Return what is a day or a time, or raise that it is none"""
    try:
        datetime.datetime.fromisoformat(day)
        # what else Python takes, such as 20261124, would be the begin of the day
        good = bool(_DAY.match(day))
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(
            f"{names.shown(day)} is no day; write it like 2026-11-24 or '2026-11-24 12:00'."
        )
    return day.replace("T", " ")


def revision_at(connection, where, when):
    """Return the revision that was the newest one at the end of a day, or at a time"""
    when = day(when)
    rows = ask(
        connection,
        "SELECT max(number) FROM package_states.revision WHERE state_id = %s"
        f" AND created < %s::timestamptz {'' if when[10:] else _TOMORROW}",
        where.id,
        when,
    )
    if rows[0][0] is None:
        raise PackageStateError(
            f"{where.name} had no revision by {when}; see package_states.history {where.name}, or"
            " give revision=0, which asks for nothing."
        )
    return revision(connection, where, rows[0][0])


def check(connection, where, seen):
    """Return the newest revision of a state, or raise that it is not the one that somebody saw"""
    current = revision(connection, where)
    if seen is not None and str(seen) != str(current.number):
        revision(connection, where, seen)
        raise PackageStateError(
            f"{where.name} is at revision {current.number} of {current.author or 'nobody'}, and you"
            f" saw {seen}; look at package_states.show {where.name} against={seen}, then"
            f" give {current.number} in place of {seen}."
        )
    return current


def save(connection, where, current, items, how, parent=None):
    number = current.number + 1
    rows = ask(
        connection,
        "INSERT INTO package_states.revision"
        " (state_id, number, contents, parent, author, comment, items)"
        f" VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb) RETURNING {_REVISION}",
        where.id,
        number,
        number,
        parent or current.number or None,
        names.author(how.author),
        names.text(how.comment, "comment"),
        item.dump(items),
    )
    return _revision(rows[0])


def assignments(connection):
    """Return all assignments, rows of the id and name of a state, kind, target and priority"""
    return ask(
        connection,
        "SELECT a.state_id, s.name, a.kind, a.target, a.priority"
        " FROM package_states.assignment AS a"
        " JOIN package_states.state AS s ON s.id = a.state_id ORDER BY a.id",
    )


def assign(connection, where, kind, target, priority, how):
    ask(
        connection,
        "INSERT INTO package_states.assignment (state_id, kind, target, priority, author)"
        " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (state_id, kind, target)"
        " DO UPDATE SET priority = EXCLUDED.priority, author = EXCLUDED.author,"
        " created = now()",
        where.id,
        kind,
        target,
        priority,
        names.author(how.author),
    )
    note(connection, where.id, kind, target, priority, how)


def unassign(connection, where, kind, target, how):
    ask(
        connection,
        "DELETE FROM package_states.assignment"
        " WHERE state_id = %s AND kind = %s AND target = %s",
        where.id,
        kind,
        target,
    )
    note(connection, where.id, kind, target, None, how)


def note(connection, state_id, kind, target, priority, how):
    """Write down what became of an assignment, which has no priority if it was taken away"""
    ask(
        connection,
        "INSERT INTO package_states.assignment_change"
        " (state_id, kind, target, priority, author, comment)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        state_id,
        kind,
        target,
        priority,
        names.author(how.author),
        names.text(how.comment, "comment"),
    )


def targets(connection):
    """Return what states are or were assigned to: rows of the id of the state, kind and target"""
    return ask(
        connection,
        "SELECT DISTINCT state_id, kind, target FROM package_states.assignment_change"
        f" WHERE kind <> '{RENAMED}'",
    )


def changes(connection, ids, most=None):
    """Return what became of states and of their assignments, or the last of that, the oldest first: rows of
    the id of the state, number, parent, entries and entries before of a revision, kind, target and
    priority (None where it was taken away) of an assignment, author, comment and time
    """
    rows = ask(
        connection,
        "SELECT c.state_id, c.number, r.parent, r.items, b.items, kind, target, priority,"
        " c.author, c.comment, c.created::text FROM (SELECT * FROM (SELECT state_id, number,"
        " NULL AS kind, NULL AS target, NULL::int AS priority, author, comment, created"
        " FROM package_states.revision UNION ALL SELECT state_id, NULL, kind, target,"
        " priority, author, comment, created FROM package_states.assignment_change) AS u"
        " WHERE state_id = ANY(%s) ORDER BY created DESC, state_id DESC, number DESC"
        " LIMIT %s) AS c LEFT JOIN package_states.revision AS r"
        " ON r.state_id = c.state_id AND r.number = c.number"
        " LEFT JOIN package_states.revision AS b"
        " ON b.state_id = c.state_id AND b.number = c.number - 1"
        " ORDER BY c.created, c.state_id, c.number",
        list(ids),
        most,
    )
    return [(*row[:3], _items(row[3]), _items(row[4]), *row[5:]) for row in rows]


def keep(connection, minion, inventory):
    """Replace the stored packages of a minion"""
    ask(
        connection,
        "INSERT INTO package_states.package_list"
        " (minion_id, platform, digest, packages, security)"
        " VALUES (%s, %s, %s, %s::jsonb, %s::jsonb) ON CONFLICT (minion_id) DO UPDATE SET"
        " platform = EXCLUDED.platform, digest = EXCLUDED.digest,"
        " packages = EXCLUDED.packages, security = EXCLUDED.security, refreshed = now(),"
        " behind = NULL",
        minion,
        inventory["platform"],
        inventory["digest"],
        json.dumps(inventory["packages"]),
        json.dumps(inventory["security"]) if "security" in inventory else None,
    )


def packages(connection, ids, keys):
    """Return what minions of some ids sent of packages with the names of some keys, by id, without those that
    never sent any: one statement, and each list is read once
    """
    rows = ask(
        connection,
        "SELECT minion_id, (SELECT jsonb_object_agg(key, value) FROM jsonb_each(packages)"
        " WHERE split_part(key, ':', 1) = ANY(%s)) FROM package_states.package_list"
        " WHERE minion_id = ANY(%s)",
        sorted({key.partition(":")[0] for key in keys}),
        list(ids),
    )
    return {minion: there or {} for minion, there in rows}


def platforms(connection, ids=None):
    """Return the platform of minions that sent their packages, of some ids or all, by id"""
    query = "SELECT minion_id, platform FROM package_states.package_list"
    if ids is None:
        return dict(ask(connection, query))
    return dict(ask(connection, f"{query} WHERE minion_id = ANY(%s)", list(ids)))
