"""
The driver of PostgreSQL: psycopg2, or psycopg 3 where only that is installed
"""

# modules that need one say so where there is none
module = None

try:
    import psycopg2

    module = psycopg2
except ImportError:
    try:
        import psycopg

        module = psycopg
    except ImportError:
        pass

# What __virtual__ says without one
MISSING = "needs psycopg2 or psycopg, and neither is installed."


def code(err):
    """
    Return the SQLSTATE of an error, None if the server has not reported it
    """
    return getattr(err, "pgcode", None) or getattr(err, "sqlstate", None)
