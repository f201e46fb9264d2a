"""
Adapters of SQL ext_pillars without a database
"""

import contextlib

import salt.pillar.sql_base as sql_base


class FakeCursor:
    """
    Cursor that formats its queries as psycopg2 does, and answers each with the
    next of the prepared results
    """

    def __init__(self, results):
        self.results = list(results)
        self.queries = []
        self.rows = []
        self.description = None

    def execute(self, query, args=None):
        plain = args is None or "%" not in query
        self.queries.append(query if plain else query % args)
        names, self.rows = self.results.pop(0)
        self.description = [(name,) for name in names]

    def fetchall(self):
        return self.rows


class UnstyledPillar(sql_base.SqlBaseExtPillar):
    """
    Adapter from before there was a style
    """

    def __init__(self, opts=None):
        super().__init__()
        self.cursor = FakeCursor([(["pillar"], [])] * 5)
        self.opts = opts or {}
        self.connections = 0

    @classmethod
    def _db_name(cls):
        return "fake"

    @contextlib.contextmanager
    def _get_cursor(self):
        self.connections += 1
        yield self.cursor


class FormatPillar(UnstyledPillar):
    """
    Adapter of a driver whose placeholders are ``%s`` and ``%(name)s``
    """

    paramstyle = "pyformat"
