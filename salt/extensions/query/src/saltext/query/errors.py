"""
What can be wrong with a query.

* :class:`~salt.exceptions.CommandExecutionError`

  * :class:`QueryError`: the request is wrong; nothing has been read
  * :class:`QueryTooDearError`: answering it would take too long
"""

from salt.exceptions import CommandExecutionError


class QueryError(CommandExecutionError):
    """
    The request is wrong. The message says what to change.
    """


class QueryTooDearError(QueryError):
    """
    Answering the request would take too long. The message says what to change.
    """
