"""Connections to the PostgreSQL that holds package states

Its parameters are those of the option ``postgres`` of the master, and over them those of
``postgres`` under ``package_states``, see :data:`DEFAULTS`.

:depends: psycopg2
"""

import contextlib

from saltext.package_states.errors import PackageStateError

try:
    import psycopg2
    import psycopg2.errorcodes

    HAS_PSYCOPG2 = True
except ImportError:
    HAS_PSYCOPG2 = False

# The options of the connection in the configuration, and their defaults. Those that
# are None are left to libpq.
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
    "statement_timeout": 60,
}

# After so many milliseconds without a sign of life the server is taken for gone
DEAD = 60000


def get_params(opts):
    configured = {
        **(opts.get("postgres") or {}),
        **((opts.get("package_states") or {}).get("postgres") or {}),
    }
    params = {name: configured.get(name, default) for name, default in DEFAULTS.items()}
    params["password"] = params.pop("pass")
    params["dbname"] = params.pop("db")
    params["fallback_application_name"] = "salt"
    return {name: value for name, value in params.items() if value is not None}


class Connection:
    """A connection in autocommit mode; a timeout of 0 is none, other parameters are libpq's"""

    def __init__(self, statement_timeout=0, **params):
        self._conn = psycopg2.connect(
            keepalives_idle=30, tcp_user_timeout=DEAD, **params
        )
        try:
            self._conn.autocommit = True
            self._cursor = self._conn.cursor()
            # whoever may create in the schema "public" could make an operator that fits
            # better than PostgreSQL's own, and would have it called
            self.execute("SET search_path = pg_catalog")
            if statement_timeout:
                # no parameter of the connection, which PgBouncer refuses
                self.execute(
                    "SELECT set_config('statement_timeout', %s, false)",
                    (f"{round(float(statement_timeout) * 1000)}ms",),
                )
        except BaseException:
            self.close()
            raise

    def execute(self, query, values=None):
        self._cursor.execute(query, values)
        # a row may have no columns
        return [] if self._cursor.description is None else self._cursor.fetchall()

    def commit(self):
        """Commit the transaction, or say that nobody knows what came of it"""
        try:
            self.execute("COMMIT")
        except psycopg2.Error as exc:
            if exc.pgcode and not self._conn.closed:
                raise
            raise PackageStateError(
                "PostgreSQL went away in the middle of the commit, so this may be saved or"
                " not; see what is there with package_states.show, save it again if it is"
                " missing, and run package_states.refresh."
            ) from None

    def close(self):
        self._conn.close()


# What to do where that is clear
NEXT = {
    "53100": "make room on the disk of its server, then try again",
    "25006": "it only reads, as a standby does: name one that writes in the option postgres",
    "57014": "it took longer than statement_timeout of the option postgres: try again",
}

# What to do when no server answered
AWAY = "see the option postgres in the configuration of the master, and that the server runs"


@contextlib.contextmanager
def told(what=None):
    """Raise what psycopg2 raises inside as one sentence that ends with what to do next"""
    if not HAS_PSYCOPG2:
        raise PackageStateError(
            "Package states need psycopg2; install it for the master."
        )
    try:
        yield
    except psycopg2.Error as exc:
        if exc.pgcode == psycopg2.errorcodes.RAISE_EXCEPTION:
            # a step of the tables, in a whole sentence
            raise PackageStateError(f"{exc.diag.message_primary}.") from None
        # the first line is the message, the others are the query
        text = str(exc).strip().partition("\n")[0]
        usual = NEXT.get(exc.pgcode, "see the option postgres, then try again")
        what = (what or usual) if exc.pgcode else AWAY
        raise PackageStateError(f"PostgreSQL says: {text}; {what}.") from None
