"""
What travels between the parts of the job handler.
"""


class Job:
    """
    One publication that was asked for.

    :ivar int seq: its number in the queue. A batch publishes many times under one
        job id, so the job id doesn't identify a publication
    :ivar str jid: the job id
    :ivar fun: the function, or the list of functions of a compound command
    :ivar str user: who asked for it
    :ivar int count: how many minions still wait for it
    :ivar minions: their ids, sorted; None as long as nobody asked, see
        :meth:`salt.job_handler.manager.QueueManager.advance`
    :ivar bool sync: whether somebody waits for the answers
    :ivar float deadline: when the caller's time is up, or None
    :ivar float queued: when it was accepted
    :ivar bool forced: publish at once, and charge it
    :ivar bool fixed: the target must not be rewritten: on a master of masters, and where
        minions manage resources
    :ivar ref: where its minions are kept
    :ivar list caller: the process that waits for the answers, see
        :mod:`salt.job_handler.caller`, or None if that can't be told
    :ivar str ticket: tells its caller which events are the job handler's: a minion can
        fire any event on the bus of the master
    """

    __slots__ = (
        "seq",
        "jid",
        "fun",
        "user",
        "count",
        "minions",
        "sync",
        "deadline",
        "queued",
        "forced",
        "fixed",
        "sent",
        "waves",
        "moved",
        "reason",
        "flow",
        "priority",
        "held",
        "parked",
        "ref",
        "ticket",
        "bytes",
        "left_out",
        "told",
        "upto",
        "beaten",
        "caller",
    )

    def __init__(
        self,
        seq,
        jid,
        fun,
        count,
        minions=None,
        user="",
        sync=False,
        deadline=None,
        queued=0.0,
        forced=False,
        fixed=False,
        ref=None,
        ticket="",
        caller=None,
    ):
        self.seq = seq
        self.jid = jid
        self.fun = fun
        self.count = count
        self.minions = minions
        self.user = user
        self.sync = sync
        self.deadline = deadline
        self.queued = queued
        self.forced = forced
        self.fixed = fixed
        self.ref = ref
        self.ticket = ticket
        self.caller = caller
        self.sent = self.waves = 0
        #: when the last wave went out, or when the job was queued
        self.moved = queued
        self.flow, self.reason = None, ""
        #: what minions get, as it is kept
        self.bytes = 0
        #: jobs of a higher priority go first; one that is held stays in the queue
        self.priority = 0
        self.held = False
        #: others pass it until something that was charged is given back
        self.parked = False
        #: the minions that won't get it, and why
        self.left_out = {}
        #: all minions with ids below this have had their turn, see
        #: :mod:`salt.job_handler.interval`; None if that is not known
        self.upto = None
        #: whether the caller knows that it waits, and when it was last told so
        self.told = False
        self.beaten = queued

    @property
    def functions(self):
        """
        The function or functions, always as a list.
        """
        return [self.fun] if isinstance(self.fun, str) else list(self.fun)

    @property
    def stays(self):
        """
        Whether others pass it.
        """
        return self.held or self.parked
