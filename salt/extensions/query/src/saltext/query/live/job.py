"""
The jobs that ask minions, and who has answered them.

A job is followed on the master's event bus: its returns, and what a job handler says of
it. So a minion that is silent can be told from one that the job has not gone to.
"""

import logging
import time

import saltext.query.live.progress
from saltext.query.errors import QueryRightsError, QueryStoreError

import salt.client
import salt.exceptions

log = logging.getLogger(__name__)

#: A Salt without a job handler has no such error.
_QUEUE_FULL = getattr(salt.exceptions, "JobQueueFullError", ())

#: How long to wait for one event, in seconds.
_STEP = 0.5

#: The most events of one job that are looked at.
_MAX_EVENTS = 1_000_000

#: So few minions, or a part of all, that have not answered for so many seconds are asked
#: whether they live while their answers are waited for.
_FEW = 20
_FEW_OF_ALL = 0.05
_MOMENT = 1.5

#: Seconds that are left for that besides those that a minion has to answer.
_RESERVE = 2

#: Why there is nothing of a minion that is not silent.
LATE = "It has not answered in time"

_NOT_SENT = "The master has not sent the job to it"


class Asker:
    """
    Asks minions, with all jobs together within a time.

    :param Context context: the context of the query
    :param float seconds: how long all of it may take
    :param float patience: after how many seconds without an answer those that are left
        count as silent
    :param callable clock: returns seconds
    """

    def __init__(self, context, seconds, patience, clock=time.monotonic):
        self.context = context
        self.patience = patience
        self.clock = clock
        self.until = clock() + seconds
        self.queue = context.source("queue")
        self._client = None

    def __enter__(self):
        try:
            self._client = salt.client.get_local_client(mopts=self.context.opts)
        except (salt.exceptions.SaltClientError, OSError) as exc:
            raise _down(exc) from exc
        asked = self.context.asked
        user = None if asked is None else asked.caller.job_user()
        if user is not None:
            # the key is the master's, the name is that of who asks
            self._client.salt_user = user
        return self

    def __exit__(self, *exc_info):
        self._client.destroy()

    def is_exempt(self, functions):
        """
        Return whether a job of these functions does not wait in a queue.
        """
        return self.queue.is_exempt(functions)

    def ask(self, minions, functions, again=()):
        """
        Ask minions to run functions in one job, and those that have not answered to run
        others in a second one.

        :param list again: functions that do not wait in a queue; without them there is
            no second job
        :return: the :class:`Answers` of each job
        :rtype: list
        :raises QueryRightsError: if the master does not let these functions be run
        :raises QueryStoreError: if the master does not answer
        """
        until = self.until
        if again and not self.is_exempt(functions):
            left = until - self.clock()
            until -= min(self.patience + _RESERVE, left / 2)
        first = self._begin(minions, functions, until)
        few = max(_FEW, len(minions) * _FEW_OF_ALL) if again else 0
        self._follow(first, until, few)
        if first.waits:
            self.queue.cancel(first.jid)
            first.give_up()
        jobs = [first]
        left = [minion for minion in minions if minion not in first.answers]
        if left and again:
            jobs.append(self._begin(left, again, self.until))
            self._follow(jobs[1], self.until)
            # what was slow may be there by now
            self._follow(first, self.until)
        for job in jobs:
            job.finish(self.clock() - job.news >= self.patience)
        return jobs

    def _begin(self, minions, functions, until):
        """
        Publish a job.
        """
        ret = Answers(minions, functions, self.clock())
        try:
            published = self._publish(minions, functions, until)
        except _QUEUE_FULL as exc:
            ret.leave_out(dict.fromkeys(minions, str(exc)))
            return ret
        if not published or published.get("jid") in (None, "", "0"):
            ret.leave_out(dict.fromkeys(minions, _NOT_SENT))
            return ret
        ret.published(published, self.clock())
        return ret

    def _publish(self, minions, functions, until):
        one = len(functions) == 1
        try:
            return self._client.run_job(
                minions,
                functions[0] if one else functions,
                [] if one else [[] for _ in functions],
                tgt_type="list",
                timeout=max(1, int(until - self.clock())),
                listen=True,
            )
        except (
            salt.exceptions.AuthenticationError,
            salt.exceptions.AuthorizationError,
        ) as exc:
            raise QueryRightsError(
                f"The master refuses to run {', '.join(functions)} for"
                f" {self._client.salt_user}: leave out the fields that ask minions, or look"
                f" at publisher_acl, publisher_acl_blacklist and sudo_acl ({exc})."
            ) from exc
        except (salt.exceptions.SaltException, OSError) as exc:
            if isinstance(exc, _QUEUE_FULL):
                raise
            raise _down(exc) from exc

    def _follow(self, answers, until, few=0):
        """
        Hear what becomes of a job until all have answered, time is up, or nothing has
        been heard for long enough.

        :param float few: when no more than so many have not answered, a moment is long
            enough
        """
        if answers.jid is None:
            return
        tag = f"salt/job/{answers.jid}/"
        for _ in range(_MAX_EVENTS):
            now = self.clock()
            soon = answers.missing and len(answers.missing) <= few
            patience = min(_MOMENT, self.patience) if soon else self.patience
            quiet = now - answers.news >= patience
            wait = min(_STEP, until - now, max(answers.news + patience - now, 0.05))
            if not answers.missing or wait <= 0 or (quiet and not answers.waits):
                # what has been heard already, while another job was followed
                wait = 0
            event = self._client.event.get_event(
                wait=wait,
                tag=tag,
                match_type="startswith",
                full=True,
                no_block=not wait,
            )
            if event is None and not wait:
                return
            if event is not None and event["tag"] == "salt/event/exit":
                # so the bus tells of Ctrl-C
                raise KeyboardInterrupt
            if event is not None and answers.hear(event["tag"][len(tag) :], event):
                answers.news = self.clock()


def _down(exc):
    return QueryStoreError(
        "The master does not take the question to minions: see whether salt-master runs,"
        f" or leave out the fields that ask them ({exc})."
    )


class Answers:
    """
    Who has answered a job, who is silent, and who has not been asked.

    :ivar str jid: the job
    :ivar dict answers: for each minion, what each function has returned
    :ivar dict unasked: for each minion that was not asked, a sentence that says why
    :ivar set silent: minions that have got the job and have not answered
    :ivar float news: when something was heard of it
    """

    def __init__(self, minions, functions, now):
        self.minions = minions
        self.functions = functions
        self.news = now
        self.jid = None
        self.answers = {}
        self.unasked = {}
        self.silent = set()
        self.missing = set(minions)
        self._progress = saltext.query.live.progress.Progress()

    def published(self, published, now):
        """
        Take over the master's answer to the publish request.
        """
        self.news = now
        self.jid = published["jid"]
        known = published.get("minions")
        if isinstance(known, list) and known:
            gone = self.missing.difference(known)
            self.leave_out(dict.fromkeys(gone, _NOT_SENT))
        self._progress.published(published)
        self.leave_out(self._progress.left_out)

    @property
    def waits(self):
        """
        Whether the job waits for some minions' turn.
        """
        return self._progress.waits

    def leave_out(self, sentences):
        """
        Note that minions don't get the job.
        """
        for minion, sentence in sentences.items():
            if minion in self.missing:
                self.missing.discard(minion)
                self.unasked[minion] = sentence

    def hear(self, kind, event):
        """
        Take over an event, and return whether it was news.
        """
        data = event["data"]
        if kind.startswith("ret/"):
            return self._returned(kind[len("ret/") :], data)
        if self._progress.hear(kind, data):
            self.leave_out(self._progress.left_out)
            return True
        return False

    def _returned(self, minion, data):
        # the turn of some comes after all, when they had been given up
        if minion not in self.missing and minion not in self.unasked:
            return False
        if data.get("id") != minion:
            return False
        if "return" not in data:
            return False
        found = data["return"]
        if len(self.functions) == 1:
            found = {self.functions[0]: found}
        self.answers[minion] = found if isinstance(found, dict) else {}
        self.missing.discard(minion)
        self.unasked.pop(minion, None)
        return True

    def give_up(self):
        """
        Wait for nobody's turn any more.
        """
        sent = self._progress.sent(self.missing)
        self.leave_out(dict.fromkeys(self.missing - sent, self._progress.reason))
        self._progress.waits = False

    def finish(self, quiet):
        """
        Tell those that are silent from those that the job has not gone to.

        :param bool quiet: whether those that have got it had time enough to answer
        """
        self.give_up()
        if quiet:
            self.silent = set(self.missing)
        else:
            self.leave_out(dict.fromkeys(list(self.missing), LATE))
