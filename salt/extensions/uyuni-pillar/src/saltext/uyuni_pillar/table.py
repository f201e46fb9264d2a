"""
The tables of Uyuni that hold pillars

:depends: psycopg2, or psycopg 3.1 or later where only that is installed
"""

import contextlib
import json

import saltext.uyuni_pillar.connection
import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.driver as driver

import salt.exceptions

# How many rows one statement carries
BATCH = 500

# The seconds that an import waits for others who write into the table
LOCK_TIMEOUT = 10

# The SQLSTATE of having waited for so long
LOCK_NOT_AVAILABLE = "55P03"

# The SQLSTATE of a role that may not do it
NO_RIGHT = "42501"

# The columns of a row's owner, by level
COLUMNS = (None, "org_id", "group_id", "server_id")

# A key that equal owners have in common, as NULL is equal to nothing
OWNER = (
    "COALESCE({0}.server_id, -1), COALESCE({0}.group_id, -1),"
    " COALESCE({0}.org_id, -1), {0}.category"
)
SAME_OWNER = f"({OWNER.format('kept')}) = ({OWNER.format('imported')})"

# As text, as 1 and 1.0 are equal in jsonb
CHANGED = "NOT imported.fallback AND kept.pillar::text <> imported.pillar::text"

COLUMN_TYPES = """
    number INTEGER, server_id NUMERIC, group_id NUMERIC, org_id NUMERIC,
    category VARCHAR, pillar JSONB, fallback BOOLEAN
"""
CREATE = f"CREATE TEMPORARY TABLE imported ({COLUMN_TYPES}) ON COMMIT DROP"
FILL = f"""
    INSERT INTO imported
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS row ({COLUMN_TYPES})
"""
# Reading goes on
LOCK = (
    f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s';"
    " LOCK TABLE suseSaltPillars IN SHARE ROW EXCLUSIVE MODE"
)
STATES = f"""
    SELECT imported.number,
        CASE WHEN kept.id IS NULL THEN 'added' WHEN {CHANGED} THEN 'changed'
        ELSE 'unchanged' END AS state
    FROM imported LEFT JOIN suseSaltPillars AS kept ON {SAME_OWNER}
    ORDER BY state DESC
"""
CHANGE = f"""
    UPDATE suseSaltPillars AS kept SET pillar = imported.pillar FROM imported
    WHERE {SAME_OWNER} AND {CHANGED}
"""
ADD = f"""
    INSERT INTO suseSaltPillars (server_id, group_id, org_id, category, pillar)
    SELECT server_id, group_id, org_id, category, pillar FROM imported
    WHERE NOT EXISTS (SELECT FROM suseSaltPillars AS kept WHERE {SAME_OWNER})
    ORDER BY number
"""
ORDER = "SELECT formula FROM suseSaltFormulaOrder ORDER BY position"


class Fleet:
    """
    The minions, groups and organizations in the tables of Uyuni

    servers
        The number of the server of each minion, by minion id.

    minions
        The numbers of the groups of each minion, by minion id.

    groups, organizations
        Their numbers.
    """

    def __init__(self, connection):
        self.servers = {}
        self.minions = {}
        memberships = {}
        for server, group in ask(
            connection, "SELECT server_id, server_group_id FROM rhnServerGroupMembers"
        ):
            memberships.setdefault(server, set()).add(int(group))
        for server, minion in ask(
            connection, "SELECT server_id, minion_id FROM suseMinionInfo"
        ):
            self.servers[minion] = int(server)
            self.minions[minion] = memberships.get(server, set())
        self.groups = _ids(connection, "SELECT id FROM rhnServerGroup")
        self.organizations = _ids(connection, "SELECT id FROM web_customer")


def ask(connection, query, values=None):
    """
    Return the rows of a query
    """
    connection.execute(query, values)
    return connection.fetchall()


def _ids(connection, query):
    return [int(value) for (value,) in ask(connection, query)]


def exists(connection, name):
    """
    Return whether there is a table of this name
    """
    return ask(connection, f"SELECT to_regclass('{name}')") != [(None,)]


def check(connection):
    """
    Raise CommandExecutionError if the database has the table of Uyuni alone, by its own
    name: the view that gives it the name of the RFC is missing
    """
    if not exists(connection, "suseSaltPillars") and exists(
        connection, "suseSaltPillar"
    ):
        raise salt.exceptions.CommandExecutionError(
            "This database has Uyuni's own table suseSaltPillar: run"
            " sql/pillar.sql in it, then try again"
        )


@contextlib.contextmanager
def transaction(opts, isolation="REPEATABLE READ", commit=True):
    """
    Yield a connection in a transaction, and commit it at the end

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
    except RecursionError as err:
        raise salt.exceptions.CommandExecutionError(
            f"PostgreSQL: a row of suseSaltPillars cannot be used, {document.DEEP}:"
            " correct it, then try again"
        ) from err
    except driver.module.Error as err:
        # the first line is the message, the others are the query or hints
        text = str(err).strip().partition("\n")[0]
        message = f"PostgreSQL: {text}; see the option postgres, then try again"
        if driver.code(err) == NO_RIGHT:
            message = (
                f"PostgreSQL: {text}: give that right to the role of the option"
                " postgres, then try again"
            )
        if driver.code(err) == LOCK_NOT_AVAILABLE:
            message = (
                "PostgreSQL: somebody else writes into suseSaltPillars, as another import"
                f" does, for more than {LOCK_TIMEOUT} seconds: try again when that is done"
            )
        raise salt.exceptions.CommandExecutionError(message) from err


def store(connection, fleet, rows, order, dry_run=False):
    """
    Write rows and the order of the formulas, and return what became of each row

    connection
        One in a transaction that sees what others have committed.

    fleet
        The :class:`Fleet` that the rows were made for.

    rows
        See :data:`saltext.uyuni_pillar.layout.Row`.

    order
        The formulas in order, None to leave that of the database.

    dry_run
        Only tell, and lock nothing.

    Returns a list of ``added``, ``changed`` and ``unchanged``.
    """
    connection.execute(CREATE)
    for start in range(0, len(rows), BATCH):
        batch = [
            _record(fleet, number, row)
            for number, row in enumerate(rows[start : start + BATCH], start)
        ]
        connection.execute(FILL, (json.dumps(batch),))
    connection.execute("ANALYZE imported")
    if not dry_run:
        connection.execute(LOCK)
    states = dict(ask(connection, STATES))
    if not dry_run:
        connection.execute(CHANGE)
        connection.execute(ADD)
    if order is not None:
        _store_order(connection, order, dry_run)
    return [states[number] for number in range(len(rows))]


def _record(fleet, number, row):
    record = {
        "number": number,
        "category": row.category,
        "pillar": row.pillar,
        "fallback": row.fallback,
    }
    if row.level:
        owner = fleet.servers[row.owner] if row.level == 3 else row.owner
        record[COLUMNS[row.level]] = owner
    return record


def _store_order(connection, order, dry_run):
    if not exists(connection, "suseSaltFormulaOrder"):
        raise salt.exceptions.CommandExecutionError(
            "The database has no table suseSaltFormulaOrder for formula_order.json:"
            " create it with the columns formula VARCHAR and position INTEGER"
        )
    if dry_run or read_order(connection) == order:
        return
    connection.execute("DELETE FROM suseSaltFormulaOrder")
    connection.execute(
        "INSERT INTO suseSaltFormulaOrder (formula, position)"
        " SELECT * FROM unnest(%s::varchar[], %s::integer[])",
        (order, list(range(len(order)))),
    )


def read_order(connection):
    """
    Return the formulas in order, None if there is no table of it
    """
    if not exists(connection, "suseSaltFormulaOrder"):
        return None
    return [formula for (formula,) in ask(connection, ORDER)]


def read_priorities(connection):
    """
    Return the priorities of groups that have one, by their numbers
    """
    if not exists(connection, "suseSaltPillarPriority"):
        return {}
    query = "SELECT group_id, priority FROM suseSaltPillarPriority"
    return {int(group): priority for group, priority in ask(connection, query)}
