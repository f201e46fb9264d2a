"""
What can be wrong with a query.

* :class:`~salt.exceptions.CommandExecutionError`

  * :class:`QueryError`: the request is wrong; nothing has been read

    * :class:`QueryTooDearError`: answering it would take too long
    * :class:`QueryRightsError`: who asks may not have this

  * :class:`QueryStoreError`: what it takes to answer can't be read or reached
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


class QueryRightsError(QueryError):
    """
    Who asks may not have what is asked for. The message says which right is missing.
    """


class QueryStoreError(CommandExecutionError):
    """
    The cache, the job store or the master fails. The message says what to look at.
    """
