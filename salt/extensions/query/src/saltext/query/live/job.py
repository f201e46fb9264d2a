"""
One job that asks minions, and who has answered it.

The job is followed on the master's event bus: its returns, and what a job handler says of
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

    def ask(self, minions, functions):
        """
        Ask minions to run functions in one job.

        :rtype: Answers
        :raises QueryRightsError: if the master does not let these functions be run
        :raises QueryStoreError: if the master does not answer
        """
        ret = Answers(minions, functions)
        left = self.until - self.clock()
        # some of the time is left to ask what is exempt
        reserve = 0 if self.is_exempt(functions) else min(self.patience + 2, left / 2)
        until = self.clock() + max(left - reserve, 1)
        try:
            published = self._publish(minions, functions, until)
        except _QUEUE_FULL as exc:
            ret.leave_out(dict.fromkeys(minions, str(exc)))
            return ret
        if not published or published.get("jid") in (None, "", "0"):
            ret.leave_out(dict.fromkeys(minions, _NOT_SENT))
            return ret
        ret.published(published)
        quiet = self._follow(ret, until)
        if ret.waits:
            self.queue.cancel(ret.jid)
        ret.finish(quiet)
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

    def _follow(self, answers, until):
        """
        Hear what becomes of a job until all have answered or time is up, and return
        whether there was nothing to hear at the end.
        """
        tag = f"salt/job/{answers.jid}/"
        news = self.clock()
        for _ in range(_MAX_EVENTS):
            now = self.clock()
            quiet = now - news >= self.patience
            if not answers.missing or now >= until or (quiet and not answers.waits):
                return quiet
            left = min(_STEP, until - now, max(news + self.patience - now, 0.05))
            event = self._client.event.get_event(
                wait=left, tag=tag, match_type="startswith", full=True
            )
            if event is not None and answers.hear(event["tag"][len(tag) :], event):
                news = self.clock()
        return False


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
    """

    def __init__(self, minions, functions):
        self.minions = minions
        self.functions = functions
        self.jid = None
        self.answers = {}
        self.unasked = {}
        self.silent = set()
        self.missing = set(minions)
        self._progress = saltext.query.live.progress.Progress()

    def published(self, published):
        """
        Take over the master's answer to the publish request.
        """
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
        if minion not in self.missing or data.get("id") != minion:
            return False
        if "return" not in data:
            return False
        found = data["return"]
        if len(self.functions) == 1:
            found = {self.functions[0]: found}
        self.answers[minion] = found if isinstance(found, dict) else {}
        self.missing.discard(minion)
        return True

    def finish(self, quiet):
        """
        Tell those that are silent from those that the job has not gone to.

        :param bool quiet: whether those that have got it had time enough to answer
        """
        sent = self._progress.sent(self.missing)
        self.leave_out(dict.fromkeys(self.missing - sent, self._progress.reason))
        if quiet:
            self.silent = set(self.missing)
        else:
            self.leave_out(dict.fromkeys(list(self.missing), LATE))
