"""
Engine that refreshes minions when their pillars in PostgreSQL change
=====================================================================

It listens to the channel of ``sql/pillar_changes.sql`` in the database of the option
``postgres``, asks which minions a change affects, and lets these run
``saltutil.refresh_pillar``, a few at a time.

.. code-block:: yaml

    engines:
      - pillar_changes:
          debounce: 1
          batch: 20
          check: 60

debounce
    Seconds for which changes are collected before it asks for them

batch
    How many minions refresh their pillars at once. The next ones follow when half of them
    have returned, or after five seconds, so the pace is that of the master.

check
    Seconds after which it asks in any case, as a notification may be lost

It asks for everything that was committed since the last answer. Where the database cannot
know what that was, as after a restore, all minions are refreshed. A minion is refreshed
again until it has returned, and its pillar has no error of the database. Minions whose
keys this master has not accepted are left out. What waits, and up to where changes are
known, is kept in the master's cache.

:depends: psycopg2
"""

import heapq
import logging
import time

from saltext.uyuni_pillar.connection import MISSING, connect, psycopg2

import salt.cache
import salt.client
import salt.exceptions
import salt.utils.event
import salt.utils.minions

log = logging.getLogger(__name__)

LISTEN = "LISTEN suse_salt_pillar"
CHANGES = "SELECT snapshot, minions FROM suse_salt_pillar_changes(%s)"
# So many rows at most
PRUNE = "SELECT suse_salt_pillar_prune(100000)"

# Seconds until it connects again after an error, the first time and at most
RETRY = (1, 60)

# After so many seconds without an answer the server is taken for gone
ANSWER = 60

# Seconds after which it connects anew: the name of the server may be that of another one
LIFETIME = 600

# Seconds until a minion that has not returned is refreshed again, at first and after so
# many times
AGAIN = (20, 300)
AGAIN_OFTEN = 45

# Seconds after an outage at which pillars with errors are looked for: workers do not ask
# again at once, and a minion may wait for its pillar
OUTAGE = (0, 40, 120)

# For so many seconds a minion that was sent a refresh counts as one that refreshes
AT_WORK = 5

# Seconds until a refresh that could not be sent is sent again
UNSENT = 1

# Seconds between two looks at the events of minions, while some refresh and while they
# only wait
EVENTS = (0.2, 1)
EVENTS_MOST = 10000

# The bank of the cache for what outlives the master
BANK = "pillar_changes"

# The errors of a pillar that a refresh may mend
ERRORS = ("ext_pillar postgres", "ext_pillar uyuni", "pillar table of Uyuni")


def __virtual__():
    if psycopg2 is None:
        return False, f"The pillar_changes engine {MISSING}"
    return True


class Waiting:
    """
    What is to be asked for and which minions are to be refreshed; without I/O or a clock
    """

    def __init__(self, debounce, batch, check):
        self.debounce = debounce
        self.batch = batch
        self.check = check
        # up to where changes are known, as the database says it
        self.snapshot = None
        # by minion: when it is to be refreshed, the refreshes that it was sent since its
        # last change, and until when one that refreshes is waited for
        self.due, self.jobs, self.at_work = {}, {}, {}
        # at once: changes may have come before it listened
        self.ask_at = 0
        self.outage_at = []

    def changed(self, minions, now):
        """
        Let minions wait for a refresh that begins after this
        """
        for name in minions:
            self.due[name] = now
            self.jobs[name] = set()

    def take(self, now):
        """
        Return the minions to refresh now
        """
        self.at_work = {name: end for name, end in self.at_work.items() if end > now}
        room = self.batch - len(self.at_work)
        if 2 * room < self.batch:
            return []
        due = [name for name, at in self.due.items() if at <= now]
        # one that never returns keeps nobody waiting
        return heapq.nsmallest(room, due, key=lambda name: len(self.jobs[name]))

    def sent(self, minions, job, now):
        """
        Minions were sent a refresh, or could not be sent one: then the job is None
        """
        for name in minions:
            if job is None:
                self.due[name] = now + UNSENT
                continue
            self.at_work[name] = now + AT_WORK
            self.due[name] = now + AGAIN[len(self.jobs[name]) >= AGAIN_OFTEN]
            self.jobs[name].add(job)

    def idle(self, now):
        """
        Return for how many seconds there is nothing to do
        """
        due = [self.ask_at, *self.outage_at[:1]]
        if self.due:
            due.append(now + EVENTS[not self.at_work])
            due += [] if self.at_work else [min(self.due.values())]
        return max(0, min(due) - now)


class Master:
    """
    What the engine needs of its master
    """

    def __init__(self, opts):
        self.opts = opts
        self._events = None

    def load(self, waiting):
        """
        Continue where an earlier process was
        """
        try:
            found = salt.cache.factory(self.opts).fetch(BANK, self.opts["id"])
            waiting.snapshot = found.get("snapshot")
            waiting.changed(found.get("minions", ()), 0)
        except Exception as err:  # pylint: disable=broad-except
            log.error("The state of the engine cannot be read: %r; all refresh", err)
            # the database knows no such snapshot
            waiting.snapshot = ""

    def save(self, waiting):
        found = {"snapshot": waiting.snapshot, "minions": list(waiting.due)}
        salt.cache.factory(self.opts).store(BANK, self.opts["id"], found)

    def known(self):
        """
        Return the minions whose keys are accepted
        """
        checker = salt.utils.minions.CkMinions(self.opts)
        return set(checker.check_minions("*")["minions"])

    def refresh(self, minions):
        """
        Let minions refresh, receive events from now on, and return the id of the job
        """
        if self._events is None:
            self._events = salt.utils.event.get_master_event(
                self.opts, self.opts["sock_dir"], listen=True
            )
        # its connections to the master are not kept: a batch is seldom
        with salt.client.LocalClient(mopts=dict(self.opts)) as client:
            return client.cmd_async(
                minions,
                "saltutil.refresh_pillar",
                kwarg={"wait": True},
                tgt_type="list",
            )

    def has_errors(self, minion):
        """
        Return whether the last pillar of a minion lacks what is in the database
        """
        pillar = salt.cache.factory(self.opts).fetch("pillar", minion) or {}
        text = str(pillar.get("_errors", ""))
        return any(error in text for error in ERRORS)

    def events(self):
        """
        Return the tags and data of the events since the last call
        """
        found = []
        while self._events is not None and len(found) < EVENTS_MOST:
            event = self._events.get_event(wait=0.01, full=True, tag="salt/")
            if event is None:
                break
            found.append((event["tag"], event["data"]))
        return found

    def close(self):
        if self._events is not None:
            self._events.destroy()
            self._events = None


def _read_events(waiting, master, now):
    """
    Return whether a minion waits no more
    """
    count = len(waiting.due)
    for tag, data in master.events():
        parts = tag.split("/")
        name = data.get("id")
        if parts[1] == "job" and parts[3:4] == ["ret"]:
            if name not in waiting.due or data.get("jid") not in waiting.jobs[name]:
                continue
            waiting.at_work.pop(name, None)
            if data.get("return") is True and not master.has_errors(name):
                del waiting.due[name]
        elif parts[1] == "auth" or parts[-1] == "start":
            # it has to subscribe first
            if name in waiting.due:
                waiting.due[name] = min(waiting.due[name], now + 2)
    return len(waiting.due) != count


def _ask(connection, waiting, master, clock):
    """
    Ask the database for changes, and return whether there were any
    """
    before = waiting.snapshot
    connection.execute(CHANGES, (before,))
    ((snapshot, minions),) = connection.fetchall()
    waiting.snapshot, waiting.ask_at = snapshot, clock() + waiting.check
    if minions:
        known = master.known()
        changed = [minion for minion in minions if minion in known]
        log.info("The pillars of %s minions have changed", len(changed))
        waiting.changed(changed, clock())
    return snapshot != before


def step(connection, waiting, master, clock):
    """
    Wait for the next thing to do, and do it; the connection listens, and ``clock`` returns
    the time in seconds
    """
    if connection.notified(waiting.idle(clock())):
        waiting.ask_at = min(waiting.ask_at, clock() + waiting.debounce)
    is_changed = _read_events(waiting, master, clock())
    if clock() >= waiting.ask_at:
        is_changed = _ask(connection, waiting, master, clock) or is_changed
    if waiting.outage_at and clock() >= waiting.outage_at[0]:
        del waiting.outage_at[0]
        broken = [name for name in sorted(master.known()) if master.has_errors(name)]
        waiting.changed(broken, clock())
        is_changed = bool(broken) or is_changed
    if is_changed:
        # before a batch: one that a crash cuts off is sent again
        master.save(waiting)
    batch = waiting.take(clock())
    if batch:
        job = None
        try:
            job = master.refresh(batch)
        except salt.exceptions.SaltException as err:
            log.error("%s minions cannot be refreshed yet: %s", len(batch), err)
        # 0 if the master knows none of them
        waiting.sent(batch, job or None, clock())
    if not waiting.due:
        master.close()


def start(debounce=1, batch=20, check=60):
    """
    Listen to changes of pillars, and refresh the minions that they affect
    """
    waiting = Waiting(debounce, batch, check)
    master = Master(__opts__)
    master.load(waiting)
    retry = RETRY[0]
    is_outage = True
    while True:
        try:
            with connect(__opts__, ANSWER) as connection:
                connection.execute(LISTEN)
                connection.execute(PRUNE)
                # what came before it listened
                waiting.ask_at = 0
                start_at = time.monotonic()
                if is_outage:
                    waiting.outage_at = [start_at + seconds for seconds in OUTAGE]
                    is_outage = False
                end = start_at + LIFETIME
                while time.monotonic() < end:
                    step(connection, waiting, master, time.monotonic)
                    retry = RETRY[0]
            continue
        except psycopg2.Error as err:
            is_outage = True
            text = str(err).strip().partition("\n")[0]
            if err.pgcode in ("42883", "42501"):
                text = f"run sql/pillar_changes.sql and sql/pillar_role.sql: {text}"
            log.error(
                "Changes of pillars cannot be received: %s; trying again in %s seconds",
                text,
                retry,
            )
        time.sleep(retry)
        retry = min(retry * 2, RETRY[1])
