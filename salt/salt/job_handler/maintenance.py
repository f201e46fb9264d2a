"""
What is heard of minions, and what they are asked: charges are given back when minions
return, and checked when they don't.
"""

import logging

import salt.job_handler.gate
import salt.job_handler.job
import salt.job_handler.rounds
import salt.utils.jid
from salt.job_handler.vocabulary import QUESTION

log = logging.getLogger(__name__)


class Maintenance:
    """
    :param dict section: the settings of the job handler
    :param Dispatcher dispatcher: publishes, and knows the queue
    """

    def __init__(self, section, dispatcher):
        self.section = section
        self.dispatcher = dispatcher
        self.opts = dispatcher.opts
        self.clock = dispatcher.clock
        self.manager = dispatcher.manager
        self.criteria = dispatcher.manager.criteria
        self.rounds = salt.job_handler.rounds.Rounds(
            self.criteria,
            section["long_running"],
            section["reconcile_interval"],
            section["reconcile_rate"],
        )
        #: called with each minion that has started
        self.on_start = lambda minion: None
        self.rounds.syndics = bool(self.opts.get("order_masters"))
        # who may not have got a job can't know whether it runs there
        self.rounds.unsent = dispatcher.back

    # ------------------------------------------------------------------
    # What the bus says, see salt.job_handler.feed
    # ------------------------------------------------------------------

    def is_question(self, jid):
        """
        Return whether a job id is the one of a question.
        """
        return self.rounds.is_question(jid)

    def returned(self, jid, minion):
        """
        A minion has returned a job.
        """
        if jid in self.dispatcher.back:
            self.dispatcher.back[jid].add(minion)
        if self.manager.returned(jid, minion, self.clock()):
            self.dispatcher.wake()

    def answered(self, jid, minion, answer):
        """
        A minion has answered a question.
        """
        self.rounds.answered(jid, minion, answer, self.clock())
        self.dispatcher.wake()

    def started(self, minion):
        """
        A minion has started.
        """
        self.on_start(minion)
        if self.manager.started(minion, self.clock()):
            self.dispatcher.wake()
        self.rounds.forget(minion)

    def peer_published(self, jid, fun, minions):
        """
        Another master of the cluster has published a job. Its returns may come here.
        """
        known = jid in self.dispatcher.open_jids
        if known or salt.job_handler.gate.exempt(self.section, fun):
            return
        job = salt.job_handler.job.Job(None, jid, fun, len(minions), minions)
        self.criteria.charge(job, minions, self.clock())

    def missed(self):
        """
        Events may have been missed: check all charges that there are now.
        """
        self.rounds.doubt(self.clock())

    # ------------------------------------------------------------------
    # What is asked
    # ------------------------------------------------------------------

    async def ask(self, now):
        """
        Publish the questions that are due. They do not go through the queue, which may
        be full of what the answers set free.
        """
        if self.manager.held_until is not None:
            return
        for question in self.rounds.tick(now, self.manager.orders.waits(now)):
            jid = salt.utils.jid.gen_jid(self.opts)[:20] + QUESTION
            self.rounds.asked(jid, question, now)
            try:
                await self.dispatcher.bus.publish(self._load(jid, question))
            except Exception:  # pylint: disable=broad-except
                # nobody is silent who has not been asked
                log.exception("The minions could not be asked what they run")
                self.rounds.not_asked(jid, question)

    def _load(self, jid, question):
        load = {
            "fun": question.fun,
            "arg": question.arg,
            "tgt": question.minions,
            "tgt_type": "list",
            "jid": jid,
            "ret": "",
            "user": self.opts["user"],
            # a minion that runs as many jobs as it may would have this wait in its own
            # queue, and look as if it was dead
            "__ignore_process_count_max": True,
        }
        if "master_id" in self.opts:
            load["master_id"] = self.opts["master_id"]
        return load
