"""
A mapping that has rows of a table in ``data``.

.. versionadded:: 3009.0
"""


class Rows(dict):
    """
    What a runner returns whose ``data`` are rows, and not the states of a highstate

    The clients of runners look into ``data`` for states that have failed. Over the wire
    it is a mapping like any other.
    """
