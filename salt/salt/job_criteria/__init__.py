"""
Criteria modules of the job handler: when may a job be published, and to whom?

A criteria module lives in this package, below ``extension_modules`` in the folder
``job_criteria``, or in one of :conf_master:`job_criteria_dirs`. It holds one
function, ``criteria(settings)``, which returns an instance of :class:`Criteria`.

.. versionadded:: 3009.0
"""

import collections

from salt.job_criteria._ledger import Ledger
from salt.job_criteria._missing import Missing

#: The answer of a criteria module. ``minions`` are those to publish to now, which
#: have been charged, or None to put the job back as the first one. ``excluded``
#: maps each minion that won't get the job to the reason. ``reason`` says why the
#: job waits, ``parked`` whether others pass it meanwhile, and ``own`` whether only what
#: happens at its own minions can let it go.
Decision = collections.namedtuple(
    "Decision", ("minions", "excluded", "reason", "parked", "own"), defaults=(False,)
)


def publish(minions, excluded=None):
    """
    Return the decision to publish to these minions, whom the criteria has charged.
    """
    return Decision(minions, excluded or {}, "", False)


def requeue(reason):
    """
    Return the decision that the job goes back into the queue as the first one.
    """
    return Decision(None, {}, reason, False)


def park(reason, own=False):
    """
    Return the decision that the job waits, and others pass it, until something that was
    charged is given back.

    :param bool own: whether only what one of its own minions gives back is of interest
    """
    return Decision(None, {}, reason, True, own)


class Criteria:
    """
    What the job handler asks, and what it tells. A criteria module overrides
    :meth:`decide`, and whatever else it needs.

    All methods are called in one thread and must not wait for anything: a decision
    that takes longer than 100 ms does not count.

    :ivar dict settings: the section :conf_master:`rate_limiting`
    :ivar ledger: a :class:`Ledger` of what is charged
    :ivar dict silent: the minions that did not answer the maintenance, and since when.
        What is published to them may reach them when they are back, all at once
    :ivar missing: a :class:`Missing` of those that have not answered yet
    """

    #: The names of the settings that this module understands
    options = ()

    def __init__(self, settings):
        self.settings = settings
        self.ledger = Ledger()
        self.silent = {}
        self.missing = Missing(self.ledger, self.silent)

    @classmethod
    def validate(cls, settings):
        """
        Return a list of sentences, one for each thing that is wrong with the settings.
        """
        return []

    def flow(self, job):
        """
        Return the flow that a job belongs to, any hashable value. Within a flow the
        order is first in, first out. All jobs are in one flow by default.
        """
        return None

    def choose(self, heads, now):
        """
        Return which of the flows' first jobs goes next. The oldest one, by default.
        """
        return min(heads, key=lambda job: job.seq)

    def beside(self, job, now):
        """
        Return whether a job, which is not the next one, may be decided on all the same
        while the next one waits. That must not be delayed by it. Called often: no job may
        go, by default.
        """
        return False

    def cost(self, job):
        """
        Return the points that a job costs for each minion.
        """
        return 1

    def decide(self, job, now):
        """
        Decide what becomes of a job, which is the next one.

        :return: :func:`publish` with the minions to publish to
            now, after they have been charged, and those that won't get the job at
            all; whoever is in neither stays in the queue. Or
            :func:`requeue` or :func:`park` with the reason
        """
        raise NotImplementedError

    def charge(self, job, minions, now):
        """
        Charge a job to minions, whatever the limits are.
        """
        if self.silent:
            minions = [minion for minion in minions if minion not in self.silent]
        self.ledger.charge(job.jid, minions, self.cost(job), now)

    def abort(self, job, minions, now):
        """
        Take a decision back: the job was not published to these minions.
        """
        for minion in minions:
            self.ledger.release(job.jid, minion, settled=False)

    def on_return(self, jid, minion, now):
        """
        A minion has returned a job. The same return may come more than once.

        :return: whether that gave anything back
        """
        if self.silent or self.missing.late:
            self.heard(minion)
        return self.ledger.release(jid, minion)

    def heard(self, minion):
        """
        Something came from a minion.
        """
        if self.silent:
            self.silent.pop(minion, None)
        self.missing.heard(minion)

    def on_minion_start(self, minion, now):
        """
        A minion has started, so it runs nothing.

        :return: the ids of the jobs that it was charged for
        """
        self.heard(minion)
        return self.ledger.release_minion(minion)

    def on_silent(self, minion, now):
        """
        A minion has not answered the maintenance twice. It is asked again from time to
        time, until it is heard of.
        """
        self.silent.setdefault(minion, now)
        self.missing.gone(minion)
        return self.ledger.release_minion(minion)

    def stale(self, before):
        """
        Return ``{minion: [jid, ...]}`` of what was charged up to a time.
        """
        return self.ledger.stale(before)

    def reconcile(self, minion, jid, running, now):
        """
        The maintenance has learned whether a minion runs a job, or has it waiting in
        its own queue.
        """
        self.heard(minion)
        if running:
            self.ledger.renew(jid, minion, now)
        else:
            self.ledger.release(jid, minion)

    def collect(self, opts):
        """
        Gather what this module wants to know and may have to wait for, such as
        grains. Called in a thread of its own, about once a minute.

        :param dict opts: the master's options
        :return: anything but None, which :meth:`learn` gets
        """
        return None

    def learn(self, collected, now):
        """
        Take over what :meth:`collect` has found.
        """

    def snapshot(self):
        """
        Return what has to survive a restart besides the charges, which the job
        handler keeps. It has to consist of what msgpack can carry.
        """
        return {}

    def restore(self, snapshot, now):
        """
        Take over a snapshot. The charges have been restored already.
        """

    def stats(self, now):
        """
        Return figures for people and for metrics.
        """
        return {"used": self.ledger.used, "charges": len(self.ledger)}


#: The largest number that a setting may be: SQLite and msgpack can carry it, and times can
#: be added to it.
MOST = 10**12

#: What to write instead of what these two refuse
COUNT = f"write a whole number from 1 to {MOST}."
SECONDS = f"write seconds above 0, at most {MOST}."
NUMBER = f"write a number above 0, at most {MOST}."


def is_count(value):
    """
    Return whether a setting is a whole number from 1 to :data:`MOST`.
    """
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST


def is_number(value):
    """
    Return whether a setting is a number above zero, and at most :data:`MOST`.
    """
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 < value <= MOST
    )
