"""
The jobs that ask minions, and who has answered them.

A job is followed on the master's event bus: its returns, and what a job handler says of
it. So a minion that is silent can be told from one that the job has not gone to.
"""

import logging
import math
import re
import time

import saltext.query.live.progress
from saltext.query.errors import QueryRightsError, QueryStoreError

import salt.client
import salt.exceptions

log = logging.getLogger(__name__)

#: A Salt without a job handler has no such error.
_QUEUE_FULL = getattr(salt.exceptions, "JobQueueFullError", ())

#: How long to wait for one event, and how long it is not looked who is late, in seconds.
_STEP = 0.5

#: For so long it is looked, behind the events of others, for what has come already.
_REST = 0.05

#: A bus that has nothing so often, long before it should, is closed.
_TOO_EARLY = 3

#: The most events of one question that are looked at.
_MAX_EVENTS = 1_000_000

#: So many minions, or a part of all, that are late are asked whether they live while other
#: answers come: more might only be served slowly, and would be served more slowly then.
_FEW = 20
_FEW_OF_ALL = 0.05

#: When so few have not answered for so many seconds they are late.
_MOMENT = 1.5

#: So many seconds, besides those that a minion has to answer, are left to ask those for
#: whether they live whose turn does not come.
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
        self.seconds = seconds
        self.patience = patience
        self.clock = clock
        self.until = clock() + seconds
        self.queue = context.source("queue")
        self._client = None
        self._early = 0
        self._failed = None
        self._first = None

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
        Ask minions to run functions in one job, and those that are late to run others in
        further ones.

        :param list again: functions that do not wait in a queue; without them there are
            no further jobs
        :return: the :class:`Answers` of each job
        :rtype: list
        :raises QueryRightsError: if the master does not let these functions be run
        :raises QueryStoreError: if the master does not answer
        """
        self._first = functions
        first = self._begin(minions, functions)
        jobs = [first]
        try:
            self._follow(jobs, functions, again)
            # taking a job back may take a while, in which nothing is heard
            now = self.clock()
        finally:
            if first.waits:
                self.queue.cancel(first.jid)
        if self._failed is not None and not any(job.answers for job in jobs):
            raise self._failed
        for job in jobs:
            # a master that is gone makes nobody silent
            job.finish(self._failed is None and self._is_quiet(job, now))
            if again == functions and job.jid is not None:
                # the master has taken the same once more, so it is there
                job.silent |= first.silent.intersection(job.unasked)
        return jobs

    def _follow(self, jobs, functions, again):
        """
        Hear what becomes of a job until nothing is to be waited for any more, and add the
        jobs in which those that are late are asked again.
        """
        first = jobs[0]
        look = self.clock()
        for _ in range(_MAX_EVENTS):
            now = self.clock()
            if now >= look or not (first.missing or jobs[1:]):
                look = now + _STEP
                self._end_in_time(first, functions, again, now)
                late = self._late(jobs, now) if again and now < self.until else []
                if late:
                    jobs.append(self._begin_again(late, again))
                    # what came meanwhile is read before somebody is late again
                    look = self.clock() + _STEP
                    continue
            over = now >= self.until or self._is_over(jobs, now)
            # what has come already counts
            wait = _REST if over else max(_REST, min(_STEP, self.until - now))
            try:
                heard = self._hear(jobs, wait)
            except QueryStoreError as exc:
                # what has come already counts
                self._failed = exc
                break
            if not heard and over:
                break

    def _is_quiet(self, job, now):
        return now - job.news >= min(job.patience, self.patience)

    def _is_over(self, jobs, now):
        """
        Return whether no more answers are to be waited for: of those that have not
        answered the first job either, nor for long enough, nothing comes.
        """
        first, gone = jobs[0], set()
        if first.waits:
            return False
        for job in jobs[1:]:
            if job.missing and not self._is_quiet(job, now):
                return False
            gone |= job.missing
        if not first.missing or self._is_quiet(first, now):
            return True
        # asking the same once more gives nobody less time
        return first.missing <= gone and all(
            job.functions != first.functions for job in jobs[1:]
        )

    def _end_in_time(self, first, functions, again, now):
        """
        Give up those whose turn does not come in time, so that they can be asked again.
        """
        left = self.until - now
        if not first.waits or not again or self.is_exempt(functions):
            return
        if left > min(self.patience + _RESERVE, self.seconds / 2):
            return
        # at the pace so far all may have theirs in what is left
        spent = max(self.seconds - left, _STEP)
        missing = len(first.missing) - len(first.overdue(now - self.patience))
        if missing > len(first.answers) / spent * left:
            self.queue.cancel(first.jid)
            first.give_up()

    def _late(self, jobs, now):
        """
        Return the minions that are to be asked again now.
        """
        first = jobs[0]
        asked = {minion for job in jobs[1:] for minion in job.minions}
        few = max(_FEW, len(first.minions) * _FEW_OF_ALL)
        moment = min(_MOMENT, self.patience)
        still = self._is_quiet(first, now) or (
            not first.waits and len(first.missing) <= few and now - first.news >= moment
        )
        if still or not (first.missing or first.waits):
            late = first.missing.union(first.unasked)
        elif now - jobs[-1].begun >= self.patience:
            late = first.overdue(now - self.patience).union(first.unasked)
        else:
            return []
        late -= asked
        if len(late) > few and not (still or not first.missing):
            return []
        return [minion for minion in first.minions if minion in late]

    def _begin(self, minions, functions):
        """
        Publish a job.
        """
        ret = Answers(minions, functions, self.clock())
        try:
            published = self._publish(minions, functions)
        except _QUEUE_FULL as exc:
            ret.leave_out(dict.fromkeys(minions, str(exc)))
            return ret
        if not published or published.get("jid") in (None, "", "0"):
            ret.leave_out(dict.fromkeys(minions, _NOT_SENT))
            return ret
        ret.published(published, self.clock())
        return ret

    def _begin_again(self, minions, functions):
        """
        Publish a further job; what is known without it stays known.
        """
        try:
            ret = self._begin(minions, functions)
            if functions == self._first:
                # they had time, this only shows that the master is there
                ret.patience = _MOMENT
            return ret
        except QueryStoreError as exc:
            log.warning("Late minions could not be asked again: %s", exc)
            self._failed = exc
            ret = Answers(minions, functions, self.clock())
            ret.leave_out(dict.fromkeys(minions, _NOT_SENT))
            return ret

    def _publish(self, minions, functions):
        one = len(functions) == 1
        try:
            return self._client.run_job(
                minions,
                functions[0] if one else functions,
                [] if one else [[] for _ in functions],
                tgt_type="list",
                timeout=max(1, int(self.until - self.clock())),
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

    def _hear(self, jobs, wait):
        """
        Wait for an event of the jobs, and return whether there was one.

        :param float wait: for so many seconds
        """
        known = {job.jid: job for job in jobs if job.jid is not None}
        event, begun = None, self.clock()
        if known:
            event = self._client.event.get_event(
                wait=wait,
                tag="salt/job/(?:{})/".format("|".join(map(re.escape, known))),
                match_type="regex",
                full=True,
            )
        if event is None:
            if known:
                self._see_whether_closed(wait, self.clock() - begun)
            return False
        self._early = 0
        if event["tag"] == "salt/event/exit":
            # so the bus tells of Ctrl-C
            raise KeyboardInterrupt
        jid, _, kind = event["tag"][len("salt/job/") :].partition("/")
        known[jid].hear(kind, event, self.clock())
        return True

    def _see_whether_closed(self, wait, waited):
        """
        Tell a bus on which nothing happens from one that is closed: it would have nothing,
        at once, again and again, and all minions would seem to be silent.
        """
        if waited >= wait / 2:
            self._early = 0
            return
        self._early += 1
        if self._early >= _TOO_EARLY:
            raise QueryStoreError(
                "The master's event bus was closed while minions were asked: see whether"
                " salt-master runs, and ask again."
            )
        # its publisher may be starting again
        time.sleep(wait - waited)


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
    :ivar float begun: when it was published
    :ivar float news: when something was heard of it
    :ivar float patience: after how many seconds without news nothing comes any more, if
        that is less than the question has
    """

    def __init__(self, minions, functions, now):
        self.minions = minions
        self.functions = functions
        self.begun = self.news = now
        self.patience = math.inf
        self.jid = None
        self.answers = {}
        self.unasked = {}
        self.silent = set()
        self.missing = set(minions)
        self._progress = saltext.query.live.progress.Progress()
        self._given_up = False

    def published(self, published, now):
        """
        Take over the master's answer to the publish request.
        """
        self.begun = self.news = now
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
        return self._progress.waits and not self._given_up

    def leave_out(self, sentences):
        """
        Note that minions don't get the job.
        """
        for minion, sentence in sentences.items():
            if minion in self.missing:
                self.missing.discard(minion)
                self.unasked[minion] = sentence

    def hear(self, kind, event, now):
        """
        Take over an event.
        """
        data = event["data"]
        if kind.startswith("ret/"):
            if self._returned(kind[len("ret/") :], data):
                self.news = now
        elif self._progress.hear(kind, data, now):
            self.leave_out(self._progress.left_out)
            self.news = now

    def overdue(self, before):
        """
        Return those that have not answered, and have got the job before a time.
        """
        if self._progress.in_waves:
            return self.missing & self._progress.sent_before(before)
        whole = self._progress.whole and self.begun <= before
        return set(self.missing) if whole else set()

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
        self._given_up = True

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
