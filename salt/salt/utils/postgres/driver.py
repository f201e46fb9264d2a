"""
The driver of PostgreSQL: psycopg2, or psycopg 3 where only that is installed

.. versionadded:: 3009.0
"""

try:
    import salt.utils.postgres.psycopg2_driver as module
except ImportError:
    try:
        import salt.utils.postgres.psycopg_driver as module
    except ImportError:
        # modules that need it say so
        module = None

# The states of a transaction, which both have from libpq
ACTIVE, INTRANS = 1, 2
