"""
The parameters of a connection to PostgreSQL, out of the options of a master

.. versionadded:: 3009.0
"""

import math
import os

import salt.exceptions
from salt.utils.postgres import connection, driver

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


def _seconds(name, value, greatest):
    """
    Return the value of an option that is a number of seconds
    """
    try:
        seconds = float(value or 0)
        if not isinstance(value, bool) and 0 <= seconds <= greatest:
            return seconds
    except (TypeError, ValueError):
        pass
    raise salt.exceptions.SaltConfigurationError(
        f"{name} of the option postgres is {value!r}: it must be a number of seconds,"
        f" 0 to {greatest}"
    )


def get(opts):
    """
    Return the parameters of a connection out of the option ``postgres``

    Raises SaltConfigurationError if one of Salt's own is not what it may be.
    """
    configured = {
        NAMES.get(name, name): value
        for name, value in (opts.get("postgres") or {}).items()
    }
    params = dict(NETWORK)
    if driver.module.libpq_version() >= 120000:
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
    for name, greatest in (
        ("connect_timeout", LONGEST),
        ("statement_timeout", LONGEST),
        ("lifetime", LONGEST),
    ):
        params[name] = _seconds(name, params[name], greatest)
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
