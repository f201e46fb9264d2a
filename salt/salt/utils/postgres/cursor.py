"""
A cursor whose queries are those of one use of a connection to PostgreSQL

.. versionadded:: 3009.0
"""

import contextlib
import re

# The kept memory of libpq grows to the largest value, and never shrinks. A
# connection that had one of so many characters is not kept.
LARGE = 1000000

# A statement that cannot end its transaction
PLAIN = re.compile(r"\s*(?:SELECT|WITH)\b[^;]*", re.ASCII | re.IGNORECASE)


class Asking:
    """
    What a cursor of either driver does besides

    owner
        The :class:`~salt.utils.postgres.connection.Connection` that it is of.
    """

    # what it adds to is the cursor of a driver
    # pylint: disable=no-member

    owner = None

    def execute(self, query, vars=None):  # pylint: disable=redefined-builtin
        """
        Execute a query and wait for its result, see PEP 249
        """
        if hasattr(query, "as_string"):
            query = query.as_string(self)
        elif isinstance(query, bytes):
            query = query.decode()
        with self.owner.asking(PLAIN.fullmatch(query)) as first:
            return super().execute(first + query, vars)

    def executemany(self, query, vars_list):
        """
        Execute a query for each of many values, see PEP 249
        """
        for values in vars_list:
            self.execute(query, values)

    @contextlib.contextmanager
    def _asking(self):
        """
        Wait for what is no text of a query
        """
        with self.owner.asking() as first:
            if first:
                super().execute(first)
            yield

    def fetchall(self):
        """
        Return the rows of the last result, see PEP 249
        """
        rows = super().fetchall()
        if not self.owner.is_large:
            self.owner.is_large = any(
                isinstance(value, str) and len(value) > LARGE
                for row in rows
                for value in row
            )
        return rows
