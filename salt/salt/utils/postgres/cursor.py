"""
A cursor whose queries are those of one use of a connection to PostgreSQL
"""

import re

import psycopg2.extensions

import salt.exceptions

# What a semicolon does not end a statement in
QUOTED = re.compile(
    r"'[^']*'|\"[^\"]*\"|--[^\n]*|/\*(?:(?!/\*|\*/).)*\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL
)

# A statement that returns rows, and that cannot end its transaction
STATEMENT = re.compile(
    r"[\s(]*(?:SELECT|WITH|VALUES|TABLE|INSERT|UPDATE|DELETE|MERGE|SHOW|CALL|EXPLAIN)\b",
    re.ASCII | re.IGNORECASE,
)

# What the server has no means to undo
LASTING = re.compile(
    r"\b(?:set_config|set|load|dblink\w*|\w*replication_slot)\b",
    re.ASCII | re.IGNORECASE,
)


class Cursor(psycopg2.extensions.cursor):
    """
    A cursor whose queries are those of one use of a connection

    owner
        Its :class:`~salt.utils.postgres.connection.Connection`.
    """

    # they would send something outside of the transaction
    callproc = copy_expert = copy_from = copy_to = executemany = None

    owner = None

    def execute(self, query, vars=None):  # pylint: disable=redefined-builtin
        """
        Execute a query and wait for its result, see PEP 249

        Raises CommandExecutionError unless the query is one statement that
        returns rows: any other could end the transaction.
        """
        if hasattr(query, "as_string"):
            query = query.as_string(self)
        elif isinstance(query, bytes):
            query = query.decode()
        plain = QUOTED.sub(" ", query)
        query, plain = query.rstrip(), plain.strip()
        if plain.endswith(";"):
            plain = plain[:-1]
        if (
            not STATEMENT.match(plain)
            or ";" in plain
            # where a text with a backslash ends is a setting of the session
            or (";" in query[:-1] and "\\" in query)
        ):
            raise salt.exceptions.CommandExecutionError(
                "a query must be one statement that returns rows, such as a SELECT:"
                " write a function for more statements"
            )
        with self.owner.asking(LASTING.search(query)) as first:
            return super().execute(first + query, vars)
