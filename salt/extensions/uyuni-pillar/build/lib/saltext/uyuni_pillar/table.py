"""
The tables of Uyuni that hold pillars

:depends: psycopg2
"""

import contextlib
import json

from saltext.uyuni_pillar.connection import connect, psycopg2

import salt.exceptions

# How many rows one statement carries
BATCH = 500

# The columns of a row's owner, by level
COLUMNS = (None, "org_id", "group_id", "server_id")

# NULL is equal to nothing, and IS NOT DISTINCT FROM has no hash join
SAME_OWNER = """
    COALESCE(kept.server_id, -1) = COALESCE(imported.server_id, -1)
    AND COALESCE(kept.group_id, -1) = COALESCE(imported.group_id, -1)
    AND COALESCE(kept.org_id, -1) = COALESCE(imported.org_id, -1)
    AND kept.category = imported.category
"""
COLUMN_TYPES = """
    server_id NUMERIC, group_id NUMERIC, org_id NUMERIC, category VARCHAR, pillar JSONB,
    fallback BOOLEAN
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
        RETURNING 1
    )
    SELECT count(*) FROM added
"""

# Numbers are NUMERIC in Uyuni's tables
MINIONS = """
    SELECT m.minion_id, m.server_id::BIGINT, ARRAY(
        SELECT g.server_group_id::BIGINT FROM rhnServerGroupMembers AS g
        WHERE g.server_id = m.server_id
    )
    FROM suseMinionInfo AS m
"""


class Fleet:
    """
    The tables of Uyuni: the numbers of the server and the groups of each minion by its id,
    and the numbers of all groups and organizations
    """

    def __init__(self, connection):
        found = ask(connection, MINIONS)
        self.servers = {minion: server for minion, server, _ in found}
        self.minions = {minion: groups for minion, _, groups in found}
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
    Yield a connection in a transaction, in which all queries see the same by default, and
    that is rolled back in the end unless ``commit``. Raises CommandExecutionError for all
    errors of the database.
    """
    try:
        # closing it rolls back whatever was not committed
        with connect(opts) as connection:
            connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
            yield connection
            connection.execute("COMMIT" if commit else "ROLLBACK")
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
    """
    connection.execute(CREATE)
    for start in range(0, len(rows), BATCH):
        batch = [_record(fleet, row) for row in rows[start : start + BATCH]]
        connection.execute(FILL, (json.dumps(batch),))
    connection.execute(LOCK)
    return [ask(connection, query)[0][0] for query in (CHANGE, ADD)]


def _record(fleet, row):
    record = {name: getattr(row, name) for name in ("category", "pillar", "fallback")}
    if row.level:
        owner = fleet.servers[row.owner] if row.level == 3 else row.owner
        record[COLUMNS[row.level]] = owner
    return record
