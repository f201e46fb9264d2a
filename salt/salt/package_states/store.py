"""
The tables of package states in PostgreSQL.

The tables come with the schema ``sql/package_states.sql`` and refer to those of
Uyuni. The connection is that of the option ``postgres``, see
:mod:`salt.pillar.postgres`.

:depends: psycopg2
"""

import contextlib
import json
from typing import NamedTuple

import salt.package_states.item as item
import salt.package_states.names as names
import salt.utils.postgres
from salt.package_states.errors import (
    InvalidInput,
    NotThere,
    Outdated,
    PackageStateError,
)

try:
    import psycopg2

    HAS_PSYCOPG2 = True
except ImportError:
    HAS_PSYCOPG2 = False

# Whoever writes holds this lock: a conflict of two states must not be saved by
# two people at once, each of whom saw none. It is held until the files are written,
# which would else be older than the states.
LOCK = 0x706B677374

# What a state can be assigned to: the column, the table, and how it is named
TARGETS = {
    "minion": (
        "server_id",
        "SELECT server_id FROM suseMinionInfo WHERE minion_id = %s",
    ),
    "group": (
        "group_id",
        "SELECT id FROM rhnServerGroup WHERE name = %s OR id::text = %s",
    ),
    "organization": (
        "org_id",
        "SELECT id FROM web_customer WHERE name = %s OR id::text = %s",
    ),
    "grains": ("grain_match", None),
}


class Revision(NamedTuple):
    """
    One revision of a state

    number
        Its number; 0 is the empty state that no one saved yet.

    contents
        The first revision with the same entries.

    parent
        The revision that its author saw, or that a rollback brought back, or None.

    author, comment, created
        Who saved it, why, and when.

    items
        The entries.
    """

    number: int
    contents: int
    parent: int
    author: str
    comment: str
    created: str
    items: tuple


class State(NamedTuple):
    """
    A state

    id
        That of the table.

    name
        Its name.

    own
        Whether it is the state of the minion with this name.
    """

    id: int
    name: str
    own: bool


EMPTY = Revision(0, 0, None, "", "", "", ())
_REVISION = "number, contents, parent, author, comment, created::text, items"


@contextlib.contextmanager
def reading(opts):
    """
    Yield a connection for queries, the kept one of this process

    :param dict opts: the options of the master
    :raises PackageStateError: says what PostgreSQL says
    """
    with _told():
        params = salt.utils.postgres.get_params(opts)
        with salt.utils.postgres.get_connection(**params) as connection:
            yield connection


@contextlib.contextmanager
def writing(opts, commit=True, after=None):
    """
    Yield a connection in a transaction, which is the only one that writes states

    :param dict opts: the options of the master
    :param bool commit: False to roll back at the end
    :param after: a function that is called without arguments after the end of the
        transaction, while still nobody else writes; not if the transaction fails
    :raises PackageStateError: says what PostgreSQL says
    """
    with _told():
        connection = salt.utils.postgres.Connection(
            **salt.utils.postgres.get_params(opts)
        )
        try:
            # before the transaction begins, so that it outlasts that
            connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT" if commit else "ROLLBACK")
            if after:
                after()
        finally:
            # rolls back what was not committed, and releases the lock
            connection.close()


@contextlib.contextmanager
def _told():
    if not HAS_PSYCOPG2:
        raise PackageStateError(
            "Package states need psycopg2; install it for the master."
        )
    try:
        yield
    except psycopg2.Error as exc:
        # the first line is the message, the others are the query
        text = str(exc).strip().partition("\n")[0]
        raise PackageStateError(
            f"PostgreSQL says: {text}; see the option postgres and"
            " sql/package_states.sql, then try again."
        ) from exc


def _has_nul(value):
    if isinstance(value, (list, tuple)):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def ask(connection, query, *values):
    """
    Return the rows of a query

    :param connection: see :func:`reading`
    :param str query: with a ``%s`` for each value
    :param values: the values
    :raises InvalidInput: if one holds a NUL character, which PostgreSQL can't store
    """
    if _has_nul(values):
        raise InvalidInput(
            "A NUL character can't be stored; leave it out and try again."
        )
    connection.execute(query, values)
    return connection.fetchall()


def states(connection):
    """
    Return all states in the order of their names
    """
    rows = ask(
        connection,
        'SELECT id, name, own FROM susePackageState ORDER BY name COLLATE "C"',
    )
    return [State(*row) for row in rows]


def state(connection, name):
    """
    Return a state

    :raises NotThere: if there is none of this name
    """
    rows = ask(
        connection,
        "SELECT id, name, own FROM susePackageState WHERE name = %s",
        names.state(name),
    )
    if not rows:
        raise NotThere(
            f"There is no package state {name}; see package_states.list, or make it with"
            " package_states.create."
        )
    return State(*rows[0])


def known(connection, name):
    """
    Return whether a state of this name exists
    """
    return bool(
        ask(
            connection,
            "SELECT 1 FROM susePackageState WHERE name = %s",
            names.state(name),
        )
    )


def create(connection, name, own):
    """
    Make a state and return it

    :param str name: its name
    :param bool own: whether it is the state of a minion
    """
    if known(connection, name):
        raise PackageStateError(
            f"The package state {name} exists; set its packages, or take another name."
        )
    rows = ask(
        connection,
        "INSERT INTO susePackageState (name, own) VALUES (%s, %s) RETURNING id, name, own",
        name,
        own,
    )
    return State(*rows[0])


def _revision(row):
    return Revision(*row[:6], item.ordered(item.from_dict(entry) for entry in row[6]))


def newest(connection, ids):
    """
    Return the newest revision of states, a dictionary by id; one without is :data:`EMPTY`

    :param ids: an iterable of the ids of states
    """
    ids = list(ids)
    rows = ask(
        connection,
        f"SELECT DISTINCT ON (state_id) state_id, {_REVISION} FROM susePackageStateRevision"
        " WHERE state_id = ANY(%s) ORDER BY state_id, number DESC",
        ids,
    )
    found = {row[0]: _revision(row[1:]) for row in rows}
    return {number: found.get(number, EMPTY) for number in ids}


def revision(connection, where, number):
    """
    Return one revision of a state

    :param State where: the state
    :param number: that of the revision, an int or its text
    :raises NotThere: if there is none of this number
    """
    if str(number) == "0":
        return EMPTY
    rows = []
    if str(number).isascii() and str(number).isdigit() and len(str(number)) < 10:
        rows = ask(
            connection,
            f"SELECT {_REVISION} FROM susePackageStateRevision WHERE state_id = %s AND number = %s",
            where.id,
            int(number),
        )
    if not rows:
        raise NotThere(
            f"{where.name} has no such revision; see package_states.history {where.name}."
        )
    return _revision(rows[0])


def history(connection, where):
    """
    Return all revisions of a state, the oldest first
    """
    rows = ask(
        connection,
        f"SELECT {_REVISION} FROM susePackageStateRevision WHERE state_id = %s ORDER BY number",
        where.id,
    )
    return [_revision(row) for row in rows]


def check(connection, where, seen):
    """
    Check that nobody saved a state since somebody looked at it

    :param State where: the state
    :param seen: the number of the revision that they saw, or None not to check
    :raises NotThere: if there is no revision of that number
    :raises Outdated: names who saved what
    """
    current = newest(connection, [where.id])[where.id]
    if seen is not None and str(seen) != str(current.number):
        revision(connection, where, seen)
        raise Outdated(
            f"{where.name} is at revision {current.number} of {current.author or 'nobody'}, and you"
            f" saw {seen}; look at package_states.diff {where.name} {seen} {current.number}, then"
            f" save again with revision={current.number}."
        )
    return current


def save(connection, where, current, items, author, comment, parent=None):
    """
    Add a revision to a state and return it

    :param State where: the state
    :param Revision current: its newest revision
    :param tuple items: the entries, in order
    :param str author: who saves it
    :param str comment: why
    :param int parent: the revision that a rollback brings back
    """
    text, number = item.dump(items), current.number + 1
    rows = ask(
        connection,
        "SELECT min(number) FROM susePackageStateRevision WHERE state_id = %s AND items = %s::jsonb",
        where.id,
        text,
    )
    rows = ask(
        connection,
        "INSERT INTO susePackageStateRevision"
        " (state_id, number, contents, parent, author, comment, items)"
        f" VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb) RETURNING {_REVISION}",
        where.id,
        number,
        rows[0][0] or number,
        parent or current.number or None,
        names.text(author, "author", 256),
        names.text(comment, "comment"),
        text,
    )
    return _revision(rows[0])


def target(connection, kind, name):
    """
    Return the column and the value of what a state is assigned to

    :param str kind: one of :data:`TARGETS`
    :param str name: that of the minion, group or organization, or a grain match
    :raises NotThere: if there is none
    """
    if not isinstance(kind, str) or kind not in TARGETS:
        raise NotThere(
            f"There is no {kind!r} to assign to; use one of {', '.join(TARGETS)}."
        )
    column, query = TARGETS[kind]
    name = names.text(name, kind)
    if query is None:
        if ":" not in name:
            raise NotThere(f"{name!r} is no grain match; write it like os:Debian.")
        return column, name
    rows = ask(connection, query, *[name] * query.count("%s"))
    if len(rows) != 1:
        raise NotThere(
            f"There {'is no' if not rows else 'is more than one'} {kind} {name!r}; use a name or id"
            " that is in the tables of Uyuni."
        )
    return column, rows[0][0]


def assign(connection, where, kind, name, priority, author):
    """
    Assign a state, or change the priority of its assignment
    """
    column, value = target(connection, kind, name)
    ask(
        connection,
        f"INSERT INTO susePackageStateAssignment (state_id, {column}, priority, author)"
        f" VALUES (%s, %s, %s, %s) ON CONFLICT (state_id, {column})"
        " DO UPDATE SET priority = EXCLUDED.priority, author = EXCLUDED.author, created = now()"
        " RETURNING id",
        where.id,
        value,
        priority,
        names.text(author, "author", 256),
    )


def unassign(connection, where, kind, name):
    """
    Take an assignment of a state away

    :raises NotThere: if it has none such
    """
    column, value = target(connection, kind, name)
    rows = ask(
        connection,
        f"DELETE FROM susePackageStateAssignment WHERE state_id = %s AND {column} = %s RETURNING id",
        where.id,
        value,
    )
    if not rows:
        raise NotThere(
            f"{where.name} is not assigned to {kind} {name}; see package_states.show."
        )


def keep(connection, server, inventory):
    """
    Replace the stored packages of a minion

    :param server: the id of the minion's server
    :param dict inventory: see :mod:`salt.package_states.refresh`
    """
    ask(
        connection,
        "INSERT INTO susePackageList (server_id, platform, digest, packages)"
        " VALUES (%s, %s, %s, %s::jsonb) ON CONFLICT (server_id) DO UPDATE SET"
        " platform = EXCLUDED.platform, digest = EXCLUDED.digest,"
        " packages = EXCLUDED.packages, refreshed = now() RETURNING server_id",
        server,
        inventory["platform"],
        inventory["digest"],
        json.dumps(inventory["packages"]),
    )
