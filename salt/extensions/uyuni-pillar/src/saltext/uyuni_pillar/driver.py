"""
The driver of PostgreSQL: psycopg2, or psycopg 3 where only that is installed
"""

try:
    import psycopg2 as module
except ImportError:
    try:
        import psycopg as module
    except ImportError:
        # modules that need it say so
        module = None

# What __virtual__ says without one
MISSING = "needs psycopg2 or psycopg, and neither is installed."


def code(err):
    """
    Return the SQLSTATE of an error, None if the server has not reported it
    """
    return getattr(err, "pgcode", None) or getattr(err, "sqlstate", None)
