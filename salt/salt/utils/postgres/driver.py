"""
The driver of PostgreSQL: psycopg2, or psycopg 3.1 or later where only that is
installed

.. versionadded:: 3009.0
"""

# modules that need one say so where there is none
module = None

try:
    from salt.utils.postgres import psycopg2_driver

    module = psycopg2_driver
except ImportError:
    try:
        from salt.utils.postgres import psycopg_driver

        module = psycopg_driver
    except ImportError:
        pass

# The states of a transaction, which both have from libpq
ACTIVE, INTRANS = 1, 2
