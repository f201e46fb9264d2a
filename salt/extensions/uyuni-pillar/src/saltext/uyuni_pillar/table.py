"""
The tables of Uyuni that hold pillars

:depends: psycopg2
"""

import contextlib
import json
from collections import namedtuple

import saltext.uyuni_pillar.connection
from saltext.uyuni_pillar.connection import psycopg2

import salt.exceptions

# How many rows one statement carries
BATCH = 500

# The columns of a row's owner, by level
COLUMNS = (None, "org_id", "group_id", "server_id")
LEVELS = ("", "organization", "group", "minion")

# A key that equal owners have in common, as NULL is equal to nothing
OWNER = (
    "COALESCE({0}.server_id, -1), COALESCE({0}.group_id, -1),"
    " COALESCE({0}.org_id, -1), {0}.category"
)
SAME_OWNER = f"({OWNER.format('kept')}) = ({OWNER.format('imported')})"
COLUMN_TYPES = """
    number INTEGER, server_id NUMERIC, group_id NUMERIC, org_id NUMERIC,
    category VARCHAR, pillar JSONB, fallback BOOLEAN
"""
CREATE = f"CREATE TEMPORARY TABLE imported ({COLUMN_TYPES}) ON COMMIT DROP"
FILL = f"""
    INSERT INTO imported
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS row ({COLUMN_TYPES})
"""
# Reading goes on. Whoever else writes is waited for.
LOCK = """
    SET LOCAL lock_timeout = '10s';
    LOCK TABLE suseSaltPillars IN SHARE ROW EXCLUSIVE MODE;
    ANALYZE imported
"""
# As text, as 1 and 1.0 are equal in jsonb
CHANGE = f"""
    WITH changed AS (
        UPDATE suseSaltPillars AS kept SET pillar = imported.pillar FROM imported
        WHERE {SAME_OWNER} AND NOT imported.fallback
            AND kept.pillar::text <> imported.pillar::text
        RETURNING 1
    )
    SELECT count(*) FROM changed
"""
ADD = f"""
    WITH added AS (
        INSERT INTO suseSaltPillars (server_id, group_id, org_id, category, pillar)
        SELECT server_id, group_id, org_id, category, pillar FROM imported
        WHERE NOT EXISTS (SELECT FROM suseSaltPillars AS kept WHERE {SAME_OWNER})
        ORDER BY number
        RETURNING 1
    )
    SELECT count(*) FROM added
"""

# Numbers are NUMERIC in Uyuni's tables
MINIONS = """
    SELECT m.minion_id, m.server_id::BIGINT, s.org_id::BIGINT, ARRAY(
        SELECT g.server_group_id::BIGINT FROM rhnServerGroupMembers AS g
        WHERE g.server_id = m.server_id ORDER BY g.server_group_id
    )
    FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id
    ORDER BY m.minion_id
"""

# The numbers of a minion's server, organization and groups
Minion = namedtuple("Minion", ("server", "organization", "groups"))


class Fleet:
    """
    The minions, groups and organizations in the tables of Uyuni

    minions
        The :data:`Minion` by id.

    groups, organizations
        Their numbers.
    """

    def __init__(self, connection):
        self.minions = {row[0]: Minion(*row[1:]) for row in ask(connection, MINIONS)}
        self.groups = _ids(connection, "SELECT id FROM rhnServerGroup")
        self.organizations = _ids(connection, "SELECT id FROM web_customer")


def unknown(kind, names):
    """
    Return the error for minions, groups or organizations that the database does not know
    """
    # such a minion would get the rows of everyone
    return salt.exceptions.CommandExecutionError(
        f"The database knows no {kind} {', '.join(map(str, names))}: minions are spelled"
        " as in salt-key, groups and organizations are numbers"
    )


def ask(connection, query, values=None):
    """
    Return the rows of a query
    """
    connection.execute(query, values)
    return connection.fetchall()


def _ids(connection, query):
    return {int(value) for (value,) in ask(connection, query)}


@contextlib.contextmanager
def transaction(opts, isolation="REPEATABLE READ", commit=False):
    """
    Yield a connection in a transaction

    Nothing is half done: if this process dies, the server rolls back.

    opts
        With the option ``postgres``.

    isolation
        The level, as PostgreSQL names it. With that of the default all queries
        see the same.

    commit
        Whether to commit or to roll back at the end.

    Raises CommandExecutionError for all errors of the database.
    """
    params = saltext.uyuni_pillar.connection.get_params(opts)
    try:
        connection = saltext.uyuni_pillar.connection.Connection(**params)
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
            yield connection
            connection.execute("COMMIT" if commit else "ROLLBACK")
        finally:
            # rolls back whatever was not committed
            connection.close()
    except psycopg2.Error as err:
        # the first line is the message, the others are the query or hints
        text = str(err).strip().partition("\n")[0]
        raise salt.exceptions.CommandExecutionError(
            f"PostgreSQL: {text}; see the option postgres and the rights of its role,"
            " then try again"
        ) from err


def store(connection, fleet, rows):
    """
    Write rows, and return how many were changed and how many were added

    connection
        One in a transaction that sees what others have committed.

    fleet
        The :class:`Fleet` that the rows were made for.

    rows
        See :data:`saltext.uyuni_pillar.layout.Row`.
    """
    connection.execute(CREATE)
    for start in range(0, len(rows), BATCH):
        batch = [
            _record(fleet, number, row)
            for number, row in enumerate(rows[start : start + BATCH], start)
        ]
        connection.execute(FILL, (json.dumps(batch),))
    connection.execute(LOCK)
    return [ask(connection, query)[0][0] for query in (CHANGE, ADD)]


def _record(fleet, number, row):
    record = {
        "number": number,
        "category": row.category,
        "pillar": row.pillar,
        "fallback": row.fallback,
    }
    if row.level:
        owner = fleet.minions[row.owner].server if row.level == 3 else row.owner
        record[COLUMNS[row.level]] = owner
    return record
