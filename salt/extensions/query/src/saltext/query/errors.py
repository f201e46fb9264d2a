"""What can be wrong with a query."""

import contextlib
import logging

from salt.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


class QueryError(CommandExecutionError):
    """The request is wrong, and nothing has been read. The message says what to change."""


class QueryRightsError(QueryError):
    """Who asks may not have what is asked for. The message says which right is missing."""


class QueryStoreError(CommandExecutionError):
    """The cache, the job store or the master fails. The message says what to look at."""


@contextlib.contextmanager
def of_site(module):
    """Return a context in which code runs that a site may have written.

    :param str module: what it is
    :raises QueryError: for whatever it raises
    """
    try:
        yield
    except CommandExecutionError:
        raise
    except Exception as exc:  # pylint: disable=broad-except
        log.debug("The %s failed", module, exc_info=True)
        raise QueryError(f"Correct the {module}: {type(exc).__name__}: {exc}.") from exc
