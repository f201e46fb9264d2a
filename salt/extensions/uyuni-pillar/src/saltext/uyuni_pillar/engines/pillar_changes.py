"""
Engine that refreshes minions when their pillars in PostgreSQL change
=====================================================================

It listens to the channel of ``sql/pillar_changes.sql`` in the database of the option
``postgres``, asks which minions a change touches, and lets these run
``saltutil.refresh_pillar``: a few at once and one batch after the other, so that ten
thousand rows that change at the same time do not take the master's workers from those
who wait for them. Where the master has a job handler, it decides when each batch runs.

.. code-block:: yaml

    engines:
      - pillar_changes:
          debounce: 1
          batch: 20
          pause: 1
          check: 60

debounce
    Seconds for which changes are collected before it asks for them

batch
    How many minions refresh their pillars at once

pause
    Seconds between two batches

check
    Seconds after which it asks in any case

The notification is nothing but a bell. What is asked for is all that was committed
since the last answer, so one that was lost, as by a restart of the server, loses no
change. Where the database cannot know what that was, as after a fail-over that lost the
last transactions or after a restore, all minions are refreshed. Minions that wait, and up to where changes are known, are kept in the master's
``cachedir``; when it is started for the first time nobody is refreshed. Once an hour it
lets the database delete what it keeps of changes and is too old.

:depends: psycopg2, or psycopg 3.1 or later where only that is installed
"""

import logging
import os
import time

import saltext.uyuni_pillar.connection
import saltext.uyuni_pillar.driver as driver

import salt.client
import salt.exceptions
import salt.utils.atomicfile
import salt.utils.files
import salt.utils.json

log = logging.getLogger(__name__)

__virtualname__ = "pillar_changes"

LISTEN = "LISTEN suse_salt_pillar"
CHANGES = "SELECT snapshot, minions FROM suse_salt_pillar_changes(%s)"

# Rows at once, and how many seconds later the next ones are deleted: where there may be
# more, and where there are none
PRUNE = "SELECT suse_salt_pillar_prune(%s)"
PRUNE_MOST = 10000
PRUNE_AGAIN = (60, 3600)

# Seconds until it tries again after an error, the first time and at most
RETRY = (1, 60)

# After so many seconds without an answer the server is taken for gone
ANSWER = 60

# Seconds after which it connects anew: the name of the server may be that of another one
LIFETIME = 600


def __virtual__():
    if driver.module is None:
        return False, f"The pillar_changes engine {driver.MISSING}"
    return __virtualname__


class Waiting:
    """
    What is to be asked for and who is to be refreshed; no I/O, and the time in seconds
    is passed in

    snapshot
        Up to where changes are known, as the database says it. None before the first
        answer.

    minions
        Those that wait, in order.
    """

    def __init__(self, debounce, batch, pause, check):
        self.debounce = debounce
        self.batch = batch
        self.pause = pause
        self.check = check
        self.snapshot = None
        self.minions = {}
        # at once: changes may have come while nobody listened
        self.ask_at = 0
        self.refresh_at = 0
        self.prune_at = 0

    def heard(self, now):
        """
        The bell has rung
        """
        self.ask_at = min(self.ask_at, now + self.debounce)

    def answered(self, snapshot, minions, now):
        """
        The database has told what has changed
        """
        self.snapshot = snapshot
        self.minions.update(dict.fromkeys(minions))
        self.ask_at = now + self.check

    def take(self, now):
        """
        Return the minions to refresh now
        """
        if not self.minions or now < self.refresh_at:
            return []
        taken = list(self.minions)[: self.batch]
        for minion in taken:
            del self.minions[minion]
        self.refresh_at = now + self.pause
        return taken

    def failed(self, minions):
        """
        These could not be told to refresh
        """
        self.minions = {**dict.fromkeys(minions), **self.minions}

    def prune(self, now):
        """
        Return whether old changes are to be deleted now
        """
        if now < self.prune_at:
            return False
        # also after an error: changes are heard of without it
        self.prune_at = now + PRUNE_AGAIN[1]
        return True

    def pruned(self, rows, now):
        """
        So many rows were deleted
        """
        if rows >= PRUNE_MOST:
            self.prune_at = now + PRUNE_AGAIN[0]

    def idle(self, now):
        """
        Return for how many seconds there is nothing to do
        """
        due = min(self.ask_at, self.refresh_at) if self.minions else self.ask_at
        return max(0, due - now)


class State:
    """
    The file that outlives the master
    """

    def __init__(self, cachedir):
        self.path = os.path.join(cachedir, "pillar_changes", "state.json")

    def load(self, waiting):
        """
        Go on where an earlier process was
        """
        try:
            with salt.utils.files.fopen(self.path) as file:
                found = salt.utils.json.load(file)
            snapshot, minions = found["snapshot"], dict.fromkeys(found["minions"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError) as err:
            log.error(
                "%s cannot be read: %s; all minions refresh their pillars",
                self.path,
                err,
            )
            # the database knows no such snapshot
            waiting.snapshot = ""
            return
        waiting.snapshot, waiting.minions = snapshot, minions

    def save(self, waiting):
        """
        Write down what must not be forgotten
        """
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        found = {"snapshot": waiting.snapshot, "minions": list(waiting.minions)}
        with salt.utils.atomicfile.atomic_open(self.path, "w") as file:
            salt.utils.json.dump(found, file)


def step(connection, waiting, state, refresh, clock):
    """
    Wait for the next thing to do, and do it

    connection
        That of :class:`saltext.uyuni_pillar.connection.Connection`, listening.

    refresh
        Called with the minions of a batch.

    clock
        Returns the time in seconds.
    """
    if connection.heard(waiting.idle(clock())):
        waiting.heard(clock())
    if clock() >= waiting.ask_at:
        before = waiting.snapshot
        connection.execute(CHANGES, (before,))
        ((snapshot, minions),) = connection.fetchall()
        waiting.answered(snapshot, minions, clock())
        if minions:
            log.info("The pillars of %s minions have changed", len(minions))
        if snapshot != before:
            state.save(waiting)
    batch = waiting.take(clock())
    if batch:
        try:
            refresh(batch)
        except salt.exceptions.SaltException as err:
            log.error("%s minions cannot be refreshed yet: %s", len(batch), err)
            waiting.failed(batch)
        # not before: a batch that a crash cuts off is told again
        state.save(waiting)
    if waiting.prune(clock()):
        connection.execute(PRUNE, (PRUNE_MOST,))
        waiting.pruned(connection.fetchall()[0][0], clock())


def _refresh(batch):
    """
    Let minions refresh their pillars
    """
    # its connections to the master are not kept: a batch is seldom
    with salt.client.LocalClient(mopts=dict(__opts__)) as client:
        client.cmd_async(batch, "saltutil.refresh_pillar", tgt_type="list")


def start(debounce=1, batch=20, pause=1, check=60):
    """
    Listen to changes of pillars, and refresh the minions that they touch
    """
    waiting = Waiting(debounce, batch, pause, check)
    state = State(__opts__["cachedir"])
    state.load(waiting)
    retry = RETRY[0]
    while True:
        connection = None
        try:
            params = saltext.uyuni_pillar.connection.get_params(__opts__)
            connection = saltext.uyuni_pillar.connection.Connection(ANSWER, **params)
            connection.execute(LISTEN)
            # what came while nobody listened
            waiting.ask_at = 0
            end = time.monotonic() + LIFETIME
            while time.monotonic() < end:
                step(connection, waiting, state, _refresh, time.monotonic)
                retry = RETRY[0]
        except driver.module.Error as err:
            hint = ""
            if driver.code(err) in ("42883", "42501"):
                hint = ": run sql/pillar_changes.sql and sql/pillar_role.sql"
            log.error(
                "Changes of pillars cannot be heard of%s: %s; trying again in %s seconds",
                hint,
                str(err).strip().partition("\n")[0],
                retry,
            )
        else:
            continue
        finally:
            if connection is not None:
                connection.close()
        time.sleep(retry)
        retry = min(retry * 2, RETRY[1])
