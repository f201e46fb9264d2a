"""
Connections to PostgreSQL that are kept, one for each process

.. versionadded:: 3009.0

Opening a connection takes much longer than a small query does, and a master
asks for the pillar of each of its minions. Modules cannot keep a connection
themselves, as nothing that the loader packs into them outlives a compile.

Each use of a connection is one transaction, and sees one state of the database.
What a user of a connection leaves in its session is reset before the next one
sends anything. A session that cannot be reset is not used again.

One that is not used for :data:`IDLE` seconds is closed, as others may need it.

:depends: psycopg2
"""

import contextlib
import os
import random
import re
import time

import psycopg2

from salt.utils.postgres import connection, watch
from salt.utils.postgres.params import get_params  # pylint: disable=unused-import

# A server that refuses a connection is not asked again for as long as its answer
# took, and for at most so many seconds
PAUSE = 30

# The seconds after which a connection that is not used is closed
IDLE = 2

# The seconds for which a new connection waits until other processes have closed
# theirs, and how the server says that there are too many: libpq has no SQLSTATE of it
PATIENCE = 5
TOO_MANY = re.compile("too many (connections|clients)|connection slots")

# The kept connections by process id and parameters. A connection that is in
# use is not in here, so threads never share one.
_kept = {}

# Until when a server is not asked again and why, by process id and parameters
_failed = {}


def _connect(key, options):
    """
    Return a new connection, or raise the error of a recent attempt
    """
    start = time.monotonic()
    until, reason = _failed.get(key, (start, ""))
    if start < until:
        raise psycopg2.OperationalError(f"{reason} (a moment ago)")
    while True:
        try:
            made = connection.Connection(**options)
        except psycopg2.OperationalError as err:
            end = time.monotonic()
            if not TOO_MANY.search(str(err)):
                _failed[key] = (end + min(end - start, PAUSE), str(err).strip())
                raise
            if end - start > PATIENCE:
                raise
            time.sleep(random.uniform(0.1, 0.3))
        else:
            _failed.pop(key, None)
            return made


def _take(key):
    """
    Return the kept connection, None if there is none that can be used
    """
    found = _kept.pop(key, None)
    if found is None:
        return None
    # False if it was idle for too long, and is closed
    if watch.WATCH.end(found) and found.usable():
        return found
    found.close()
    return None


@contextlib.contextmanager
def get_cursor(**options):
    """
    Yield a cursor of a connection to PostgreSQL, the one of this process if it
    is free

    The parameters are those of
    :class:`~salt.utils.postgres.connection.Connection`. Raises the errors of
    psycopg2.

    A kept connection that was closed meanwhile, as by a restart of the server,
    is replaced by a new one, once. A connection that breaks in a query is an
    error: the query may be the cause, and may have been executed.
    """
    pid = os.getpid()
    # a driver does not close what belongs to another process
    for known in (_kept, _failed):
        for key in [key for key in list(known) if key[0] != pid]:
            known.pop(key, None)
    key = (pid, tuple(sorted(options.items())))
    used = _take(key) or _connect(key, options)
    try:
        with used.begin() as cursor:
            try:
                yield cursor
            finally:
                if os.getpid() == pid:
                    used.end()
    finally:
        # not in a process that was forked meanwhile, nor if another thread
        # was faster
        if (
            not used.usable()
            or os.getpid() != pid
            or _kept.setdefault(key, used) is not used
        ):
            used.close()
        else:
            watch.WATCH.begin(used, IDLE, used.close)
