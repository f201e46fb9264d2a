"""
Connections to PostgreSQL that are kept, one for each process

.. versionadded:: 3009.0

Opening a connection takes much longer than a small query does, and a master
asks for the pillar of each of its minions. Modules cannot keep a connection
themselves, as nothing that the loader packs into them outlives a compile.

Each use of a connection is one transaction, and sees one state of the database.
What a user of a connection leaves in its session is reset before the next one
sends anything: a query is quoted and parsed as the session is at that time.

:depends: psycopg2, or psycopg 3.1 or later where only that is installed
"""

import contextlib
import os
import time

from salt.utils.postgres import connection, driver, params

# A server that did not take a connection is not asked again for as long as
# this took, and at most for so many seconds
PAUSE = 30

# The kept connections by process id and parameters. A connection that is in
# use is not in here, so threads never share one.
_kept = {}

# Until when a server is not asked again and why, by process id and parameters
_failed = {}


def get_params(opts):
    """
    Return the parameters of a connection out of the option ``postgres``

    Raises SaltConfigurationError if one of Salt's own is not what it may be.
    """
    return params.get(opts)


def _connect(key, params):
    """
    Return a new connection, or raise the error of a try that was not long ago
    """
    start = time.monotonic()
    until, told = _failed.get(key, (start, ""))
    if start < until:
        raise driver.module.OperationalError(f"{told} (a moment ago)")
    try:
        made = connection.Connection(**params)
    except driver.module.OperationalError as err:
        end = time.monotonic()
        _failed[key] = (end + min(end - start, PAUSE), str(err).strip())
        raise
    _failed.pop(key, None)
    return made


@contextlib.contextmanager
def get_cursor(**params):
    """
    Yield a cursor of a connection to PostgreSQL, the one of this process if it
    is free

    The parameters are those of
    :class:`~salt.utils.postgres.connection.Connection`. Raises the errors of the
    driver.

    A kept connection that was closed meanwhile, as by a restart of the server,
    is replaced by a new one, once. A connection that breaks while a query is
    on its way is an error: the query may have been the reason, and may have
    been executed.
    """
    pid = os.getpid()
    # a driver does not close what belongs to another process
    for known in (_kept, _failed):
        for key in [key for key in list(known) if key[0] != pid]:
            known.pop(key, None)
    key = (pid, tuple(sorted(params.items())))
    found = _kept.pop(key, None)
    if found is not None and not found.usable():
        found.close()
        found = None
    if found is None:
        found = _connect(key, params)
    complete = False
    try:
        with found.begin() as cursor:
            try:
                yield cursor
                complete = True
            finally:
                if os.getpid() == pid:
                    found.end(complete)
    finally:
        # not in a process that was forked meanwhile, nor if another thread
        # was faster
        if (
            found.closed
            or os.getpid() != pid
            or _kept.setdefault(key, found) is not found
        ):
            found.close()
