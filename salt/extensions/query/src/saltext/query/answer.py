"""
The type of an answer.
"""

try:
    from salt.utils.rows import Rows
except ImportError:
    # a Salt without the topic query-api takes any answer with "data" for states
    class Rows(dict):
        """
        Rows of a table, which are no states.
        """


__all__ = ("Rows",)
