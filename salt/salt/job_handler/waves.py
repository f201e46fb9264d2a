"""
The waves that have gone out, and those that may not have: followed until all of their
minions have returned.
"""

import collections
import logging
import sqlite3

log = logging.getLogger(__name__)

#: A wave is on its way for so long. What publishes it may be killed with it, so it only
#: counts as sent after that, or when all of its minions have returned.
FLIGHT_SECONDS = 3


#: A wave that may not have been published: the number of its job, since when its minions
#: are charged, these, and what they get.
Unsent = collections.namedtuple("Unsent", ("seq", "since", "minions", "load"))


class Waves:
    """
    The part of a :class:`~salt.job_handler.dispatch.Dispatcher` that follows waves.

    :ivar set open_jids: job ids with waves in the journal, of which something may still
        be charged
    :ivar dict unsent: :class:`Unsent` by number, the waves that may not have been published
    :ivar dict back: the minions that have returned these, by job id
    """

    def __init__(self, manager, journal, clock, master):
        self.manager = manager
        self.journal = journal
        self.clock = clock
        self.master = master
        self.open_jids = set()
        self.unsent = {}
        self.back = {}
        # waves that are on their way: {wave: (job id, until when, whether it is charged)}
        self._flying = {}

    def again(self, wave):
        """
        Return the name of the submission of what was in a wave.
        """
        return f"again-{wave}-{self.master}"

    def fly(self, wave, jid):
        """
        A wave was published just now.
        """
        until = self.clock() + FLIGHT_SECONDS
        owed = self.manager.criteria.ledger.owes(jid)
        self._flying[wave] = (jid, until, owed)

    def note_returns(self):
        """
        Keep what has been given back, so that nobody is charged for it after a restart.
        """
        ledger = self.manager.criteria.ledger
        settled, ledger.settled = ledger.settled, []
        settled = [charge for charge in settled if charge[0] in self.open_jids]
        if settled:
            try:
                self.journal.returned(settled)
            except sqlite3.OperationalError:
                # if there is a restart first these minions are asked
                log.exception("What came back could not be written down")
                ledger.settled = settled

    def settle(self):
        """
        Forget the waves of which everything has come back.
        """
        now = self.clock()
        charged = self.manager.criteria.ledger.jobs()
        waiting = {job.jid for job in self.manager.queue}
        landed = [
            wave
            for wave, (jid, until, owed) in self._flying.items()
            if until <= now or (owed and jid not in charged)
        ]
        if landed:
            self.journal.sent(landed)
        for wave in landed:
            del self._flying[wave]
        waiting.update(self.back, (jid for jid, _, _ in self._flying.values()))
        done = [
            jid for jid in self.open_jids if jid not in charged and jid not in waiting
        ]
        if done:
            self.journal.settled(done)
            self.open_jids.difference_update(done)
