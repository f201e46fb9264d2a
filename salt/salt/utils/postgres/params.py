"""
The parameters of a connection to PostgreSQL, out of the options of a master
"""

import math
import os

import psycopg2
import psycopg2.extensions

import salt.exceptions
from salt.utils.postgres import connection

# What PostgreSQL takes for statement_timeout
LONGEST = 2147483

# The options that are no parameters of libpq
OWN = {"statement_timeout": 60, "lifetime": 600, "writes": "refuse"}

# Where the database is, unless a service of libpq says so
PLACE = {"host": "localhost", "port": 5432, "user": "salt", "dbname": "salt"}

# The names that Salt has for parameters of libpq
NAMES = {"pass": "password", "db": "dbname"}

# What is left if a network drops all packets
NETWORK = {"keepalives_idle": 10, "keepalives_interval": 10, "keepalives_count": 3}


def _seconds(name, value):
    """
    Return the value of an option that is a number of seconds
    """
    try:
        seconds = float(value or 0)
        if not isinstance(value, bool) and 0 <= seconds <= LONGEST:
            return seconds
    except (TypeError, ValueError):
        pass
    raise salt.exceptions.SaltConfigurationError(
        f"{name} of the option postgres is {value!r}: it must be a number of seconds,"
        f" 0 to {LONGEST}"
    )


def get_params(opts):
    """
    Return the parameters of a connection out of the option ``postgres``

    Raises SaltConfigurationError if one of them is wrong.
    """
    configured = {}
    for name, value in (opts.get("postgres") or {}).items():
        libpq = NAMES.get(name, name)
        configured[libpq] = value
        try:
            if name not in OWN:
                psycopg2.extensions.make_dsn(**{str(libpq): "1"})
        except psycopg2.ProgrammingError:
            raise salt.exceptions.SaltConfigurationError(
                f"{name} is no key of the option postgres: use host, port, user, pass,"
                f" db, {', '.join(OWN)}, or a parameter of libpq"
            ) from None
    params = dict(NETWORK)
    if psycopg2.extensions.libpq_version() >= 120000:
        params["tcp_user_timeout"] = 30000
    if "service" not in configured and "PGSERVICE" not in os.environ:
        params.update(PLACE)
        if not (
            "passfile" in configured
            or "PGPASSFILE" in os.environ
            or "PGPASSWORD" in os.environ
        ):
            params["password"] = "salt"
    params.update(OWN, connect_timeout=10, fallback_application_name="salt")
    params.update(configured)
    for name in ("connect_timeout", "statement_timeout", "lifetime"):
        params[name] = _seconds(name, params[name])
    # libpq takes integers
    params["connect_timeout"] = math.ceil(params["connect_timeout"])
    if params["writes"] not in connection.BEGIN:
        raise salt.exceptions.SaltConfigurationError(
            f"writes of the option postgres is {params['writes']!r}: it must be one of"
            f" {', '.join(connection.BEGIN)}"
        )
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in params.items()
        if value is not None
    }
