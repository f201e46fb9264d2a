"""
Criteria modules of the job handler: when may a job be published, and to which minions?

A criteria module lives in this package, below ``extension_modules`` in the folder
``job_criteria``, or in one of :conf_master:`job_criteria_dirs`. It holds one function,
``criteria(settings, leases)``, which returns an instance of :class:`Criteria`.

.. versionadded:: 3009.0
"""

import collections

#: After so many seconds a wave no longer waits for minions that are still busy.
WAVE_SECONDS = 5

#: What a criteria module decides. The job is published to ``minions``, and waits if that
#: is None, with ``reason``. ``excluded`` maps each minion that does not get the job to the
#: reason. If it waits and is ``parked``, the jobs behind it are looked at meanwhile.
Decision = collections.namedtuple(
    "Decision", ("minions", "excluded", "reason", "parked")
)


#: The largest number that a setting may be.
MOST = 10**12


def is_number(value):
    """Return whether a setting is a number above zero, and at most :data:`MOST`."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 < value <= MOST


def is_count(value):
    """Return whether a setting is a whole number from 1 to :data:`MOST`."""
    return is_number(value) and isinstance(value, int)


def is_text(value):
    """
    Return whether a setting is a text of at most 1000 characters: Python keeps many globs.
    """
    return isinstance(value, str) and len(value) <= 1000


def given(settings):
    """Return the settings that are given: one that is None has its default."""
    return {name: value for name, value in settings.items() if value is not None}


def text(value):
    """
    Return a value as a text that each database and each event can carry: a criteria module
    may give any reason.
    """
    if isinstance(value, str) and value.isprintable():
        return value
    if value is None:
        return ""
    # neither half of a surrogate pair, which msgpack refuses, nor NUL, as PostgreSQL does
    return str(value).encode("utf-8", "replace").decode().replace("\0", "?")


def errors(settings, kinds, of=""):
    """Yield a sentence for each setting that is wrong.

    :param dict settings: those that are None have their default
    :param dict kinds: for each name a function that says whether a value is right, and
        what to write instead of another one
    :param str of: of what these are the settings
    """
    for name, (accepts, instead) in kinds.items():
        value = settings.get(name)
        if value is not None and not accepts(value):
            yield f"{name}{of} is {value!r:.100}: {instead}"


def unknown(settings, names, of=""):
    """Yield a sentence for each setting that there is not."""
    for name in sorted(set(settings) - set(names), key=str):
        yield f"{name}{of} is unknown: there are {', '.join(sorted(names))}."


def publish(minions, excluded=None):
    """Return the decision to publish to these minions. The others stay in the queue.

    :param dict excluded: the minions that do not get the job, each with the reason
    """
    return Decision(minions, excluded or {}, "", False)


def requeue(reason):
    """Return the decision that the job stays the first one in the queue."""
    return Decision(None, {}, reason, False)


def park(reason):
    """Return the decision that the job waits, and the jobs behind it are looked at."""
    return Decision(None, {}, reason, True)


class Criteria:
    """
    What the job handler asks. A criteria module overrides :meth:`decide`, and of the other
    methods those that it needs.

    All methods but :meth:`collect` are called in one thread, and must not wait for
    anything. If :meth:`decide` raises an exception, ``fail_mode`` says what becomes of the
    job. If another one does, or returns what can't be used, that of this class stands in.

    :ivar dict settings: the section :conf_master:`rate_limiting`
    :ivar leases: who runs what, see :class:`salt.job_handler.leases.Leases`. The job
        handler changes it, a criteria module only reads it
    """

    #: The names of the settings that this module understands
    options = ()

    def __init__(self, settings, leases):
        self.settings = settings
        self.leases = leases

    @classmethod
    def validate(cls, settings):
        """
        Return a list of sentences, one for each thing that is wrong with the settings.
        """
        return []

    def decide(self, job, now):
        """Decide what becomes of a job, which is the next one.

        :param job: a :class:`salt.job_handler.queue.Job`
        :param float now: seconds
        :return: what :func:`publish`, :func:`requeue` or :func:`park` returns
        """
        raise NotImplementedError

    def released(self, jid, minion, now):
        """A minion has returned a job, and does not occupy its slots any more."""

    def started(self, minion, now):
        """A minion has connected to the master."""

    def cost(self, job):
        """Return how many slots a job occupies on each minion."""
        return 1

    def flow(self, job):
        """
        Return to which flow a job belongs, a hashable value. Flows take turns, and the
        jobs of one leave in their order. By default each user has a flow.
        """
        return job.user

    def weight(self, job):
        """Return by how much the flow of a job is preferred to others."""
        return 1

    def beside(self, job, now):
        """Return whether a job may go while the next one waits for room."""
        return False

    def collect(self, opts):
        """
        Gather what may have to be waited for, such as grains. Called in a thread of its
        own, about once a minute.

        :return: anything but None, which :meth:`learn` gets
        """
        return None

    def learn(self, collected, now):
        """Take over what :meth:`collect` has returned."""

    def snapshot(self):
        """
        Return what has to survive a restart besides the leases, in values that msgpack
        can carry.
        """
        return {}

    def restore(self, snapshot, now):
        """Take over a snapshot. The leases have been restored already."""

    def stats(self, now):
        """Return figures for people and for metrics: ``limit`` is None for no limit."""
        return {"limit": None, "full_minions": 0}
