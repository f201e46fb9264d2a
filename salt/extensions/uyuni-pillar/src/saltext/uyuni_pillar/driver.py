"""
The driver of PostgreSQL: psycopg2, or psycopg 3.1 or later where only that is installed
"""

# modules that need one say so where there is none
module = None

try:
    import psycopg2

    module = psycopg2
except ImportError:
    try:
        import psycopg

        # one that is older has no cursor for several statements in a message
        if hasattr(psycopg, "ClientCursor"):
            module = psycopg
    except ImportError:
        pass

# What __virtual__ says without one
MISSING = "needs psycopg2, or psycopg 3.1 or later, and neither is installed."


def code(err):
    """
    Return the SQLSTATE of an error, None if the server has not reported it
    """
    return getattr(err, "pgcode", None) or getattr(err, "sqlstate", None)
