"""
A connection to the PostgreSQL of the option ``postgres``

It is opened for one use and closed after it. Salt's own kept connections are for many
small queries.

:depends: psycopg2
"""

try:
    import psycopg2
except ImportError:
    # modules that need it say so
    psycopg2 = None

# The options of the connection in the configuration, and their defaults. Those
# that are None are left to libpq.
DEFAULTS = {
    "host": "localhost",
    "user": "salt",
    "pass": "salt",
    "db": "salt",
    "port": 5432,
    "sslmode": None,
    "sslrootcert": None,
    "sslcert": None,
    "sslkey": None,
    "application_name": None,
    "connect_timeout": 10,
}

# After so many milliseconds without a sign of life the server is taken for gone
DEAD = 60000


def get_params(opts):
    """
    Return the parameters of a connection out of the option ``postgres``
    """
    configured = opts.get("postgres", {})
    params = {name: configured.get(name, default) for name, default in DEFAULTS.items()}
    params["password"] = params.pop("pass")
    params["dbname"] = params.pop("db")
    params["fallback_application_name"] = "salt"
    return {name: value for name, value in params.items() if value is not None}


class Connection:
    """
    A connection in autocommit mode, whose owner begins and ends transactions

    params
        Those of libpq.
    """

    def __init__(self, **params):
        self._conn = psycopg2.connect(
            keepalives_idle=30, tcp_user_timeout=DEAD, **params
        )
        self._conn.autocommit = True
        self._cursor = self._conn.cursor()

    def execute(self, query, values=None):
        """
        Execute a query and wait for its result
        """
        self._cursor.execute(query, values)

    def fetchall(self):
        """
        Return the rows of the last result
        """
        return self._cursor.fetchall()

    def close(self):
        """
        Close the connection, which rolls back what is not committed
        """
        self._conn.close()
