"""
The maintenance: which charges to check with the minions, and what to make of their
answers. A state machine without I/O.

A charge that is older than a threshold may have leaked: the return got lost, or the
minion has died. Its minion is asked for what it runs (``saltutil.running``). That does
not show jobs that wait in the minion's own queue, so each job that is missing there is
asked for by name (``saltutil.find_job``) before anything is given back. A minion that
is silent for two rounds is asked again from time to time, until it is heard of.
"""

import collections
import itertools

from salt.job_handler.vocabulary import UNKNOWN

#: Publish ``fun`` with ``arg`` to ``minions``, and tell :meth:`Rounds.asked` its job id.
Ask = collections.namedtuple("Ask", ("fun", "arg", "minions"))

#: Silent for so many rounds means gone.
SILENT_ROUNDS = 2

#: How many minions are asked is counted over so many seconds, and they are asked for so
#: many jobs at a time: the answers are returns, which the master has to serve like any
#: other.
ASK_SECONDS = 5
ASK_JOBS = 20

#: When jobs wait and nothing has come back for so many seconds, charges are checked that
#: are that old, and a minion that does not answer for so many seconds is late.
STILL_SECONDS = 5

#: So many answers of minions that they run a job are remembered beyond the charges.
RUNNING_KEPT = 100

RUNNING = "saltutil.running"
FIND_JOB = "saltutil.find_job"


class _Suspect:
    """
    A minion with old charges.
    """

    __slots__ = ("jids", "missing", "open", "asked", "late", "silent")

    def __init__(self, jids):
        #: job ids that are in doubt
        self.jids = jids
        #: those that the minion doesn't run, as it said
        self.missing = set()
        #: those of them that it has been asked for and has not answered
        self.open = set()
        #: when it was asked, None if it is to be asked
        self.asked = None
        #: which question was found to be late
        self.late = None
        self.silent = 0

    def drop(self, jid):
        """
        Nothing is in doubt about a job any more.
        """
        self.jids.discard(jid)
        self.missing.discard(jid)
        self.open.discard(jid)


class _Running:
    """
    What runs and takes long, as minions have said. What they have only got may be over
    soon.
    """

    def __init__(self, threshold):
        self.threshold = threshold
        # {(minion, job id): when it said so}
        self._said = {}

    def add(self, minion, jid, now):
        """
        A minion says that it runs a job.
        """
        self._said[minion, jid] = now

    def lately(self, minion, jid, now):
        """
        Return whether a minion has said so of late.
        """
        return now - self._said.get((minion, jid), float("-inf")) < self.threshold

    def forget(self, charges, now):
        """
        Forget what is old, if there is more of it than there are charges.
        """
        if len(self._said) > 2 * charges + RUNNING_KEPT:
            self._said = {
                charge: then
                for charge, then in self._said.items()
                if now - then < self.threshold
            }


class Rounds:
    """
    :param Criteria criteria: whose charges are checked
    :param float threshold: seconds after which a charge is in doubt, and after which a
        minion that was silent is asked again
    :param float interval: seconds that a minion has to answer
    :param int rate: how many minions are asked each second, as long as they don't answer
    """

    def __init__(self, criteria, threshold, interval, rate=100):
        self.criteria = criteria
        self.threshold = threshold
        self.interval = interval
        self.rate = rate
        self.doubt_before = None
        #: job ids that nobody is to be asked for yet
        self.unsent = ()
        #: whether there are keys of syndics, which answer nothing, so hold nothing
        self.syndics = False
        # how often something had been given back, and since when it is so often
        self._releases = (0, None)
        self._running = _Running(threshold)
        # when the minions that were silent were last asked
        self._probed = {}
        self._suspects = {}
        # job id of a question: (function, job id that it asks for, asked at)
        self._questions = {}

    def doubt(self, now):
        """
        Events may have been missed: check all charges that there are now.
        """
        self.doubt_before = now
        self.criteria.ledger.doubt()

    def __len__(self):
        return len(self._suspects)

    def tick(self, now, waiting=False):
        """
        Return the questions that are due. Call this about once a second.

        :param bool waiting: whether jobs wait for something to be given back
        """
        releases = self.criteria.ledger.releases
        if not waiting or releases != self._releases[0] or self._releases[1] is None:
            self._releases = (releases, now)
        self._hear_silence(now)
        self._find_suspects(now)
        self._running.forget(len(self.criteria.ledger), now)
        for jid, (_, _, asked) in list(self._questions.items()):
            if asked < now - 4 * self.interval:
                del self._questions[jid]
        # those who have answered the first question first: they are half settled
        return self._ask_jobs(now) + self._ask_running(now) + self._probe(now)

    def asked(self, jid, ask, now):
        """
        A question has been published under this job id.
        """
        self._questions[jid] = (ask.fun, ask.arg[0] if ask.arg else None, now)

    def not_asked(self, jid, ask):
        """
        A question could not be published: it is to be asked again.
        """
        del self._questions[jid]
        for minion in ask.minions:
            self._probed.pop(minion, None)
            if minion in self._suspects:
                self._suspects[minion].asked = None
                self._suspects[minion].open.clear()

    def is_question(self, jid):
        """
        Return whether a job id belongs to a question.
        """
        return jid in self._questions

    def answered(self, jid, minion, answer, now):
        """
        A minion has answered a question.
        """
        fun, wanted, _ = self._questions[jid]
        self.criteria.heard(minion)
        suspect = self._suspects.get(minion)
        if suspect is None:
            return
        suspect.silent = 0
        if fun == RUNNING:
            if not isinstance(answer, list):
                return
            running = {job.get("jid") for job in answer if isinstance(job, dict)}
            for jid_ in suspect.jids & running:
                self._settle(minion, suspect, jid_, True, now)
            suspect.missing = set(suspect.jids)
            # its jobs are asked for by name now
            suspect.asked = None
            if not suspect.jids:
                self._suspects.pop(minion, None)
        elif wanted in suspect.jids:
            self._settle(minion, suspect, wanted, bool(answer), now)
            if not suspect.open:
                # it has answered everything, and may be asked for the rest
                suspect.asked = None

    def forget(self, minion):
        """
        A minion has started anew: there is nothing to check.
        """
        self._suspects.pop(minion, None)

    def _settle(self, minion, suspect, jid, running, now):
        self.criteria.reconcile(minion, jid, running, now)
        if running and self.criteria.ledger.is_long(jid, minion):
            self._running.add(minion, jid, now)
        suspect.drop(jid)
        if not suspect.jids:
            self._suspects.pop(minion, None)

    def _hear_silence(self, now):
        """
        Note who has not answered in time.
        """
        late = []
        for minion, suspect in list(self._suspects.items()):
            if suspect.asked is None:
                continue
            passed = now - suspect.asked
            if passed >= STILL_SECONDS and suspect.late != suspect.asked:
                suspect.late = suspect.asked
                late.append(minion)
            if passed < self.interval:
                continue
            suspect.silent += 1
            suspect.asked = None
            suspect.open.clear()
            if suspect.silent >= SILENT_ROUNDS:
                del self._suspects[minion]
                self.criteria.on_silent(minion, now)
                if self.syndics:
                    self.criteria.ledger.release_minion(minion)
        missing = self.criteria.missing
        missing.late_now([minion for minion in late if minion in self._suspects])
        missing.late.intersection_update(self._suspects)

    def _find_suspects(self, now):
        """
        Add the minions with old charges and those that are to be asked whether they are
        there, and drop what has been settled meanwhile.
        """
        ledger, unsure = self.criteria.ledger, self.criteria.missing.unsure
        for minion, suspect in list(self._suspects.items()):
            for jid in [jid for jid in suspect.jids if (jid, minion) not in ledger]:
                suspect.drop(jid)
            if not suspect.jids and minion not in unsure:
                del self._suspects[minion]
        for minion, jids in self._old_charges(now).items():
            if minion == UNKNOWN:
                # behind a syndic there is nobody to ask
                for jid in jids:
                    ledger.release(jid, minion)
            else:
                suspect = self._suspects.setdefault(minion, _Suspect(set()))
                suspect.jids.update(jids)
        for minion in unsure:
            self._suspects.setdefault(minion, _Suspect(set()))

    def _old_charges(self, now):
        """
        Return ``{minion: [job id, ...]}`` of the charges that are to be checked.
        """
        before = now - self.threshold
        if self.doubt_before is not None:
            before = max(before, self.doubt_before)
            self.doubt_before = None
        old = self.criteria.stale(before)
        if now - self._releases[1] >= STILL_SECONDS:
            # nothing goes on, so it is asked early, but not again and again
            for minion, jids in self.criteria.stale(now - STILL_SECONDS).items():
                jids = [
                    jid for jid in jids if not self._running.lately(minion, jid, now)
                ]
                if jids and minion != UNKNOWN:
                    old.setdefault(minion, jids)
        if self.unsent:
            old = {
                minion: [jid for jid in jids if jid not in self.unsent]
                for minion, jids in old.items()
            }
        return {minion: jids for minion, jids in old.items() if jids}

    def _room(self, now):
        """
        Return how many minions may be asked now.
        """
        asked = [suspect.asked for suspect in self._suspects.values()]
        recent = sum(then is not None and now - then < ASK_SECONDS for then in asked)
        return self.rate * ASK_SECONDS - recent

    def _ask_running(self, now):
        minions, room = [], self._room(now)
        for minion, suspect in self._suspects.items():
            if len(minions) >= room:
                break
            if suspect.asked is None and not suspect.missing:
                suspect.asked = now
                minions.append(minion)
        return [Ask(RUNNING, [], sorted(minions))] if minions else []

    def _probe(self, now):
        """
        Ask those that were silent whether they are back.
        """
        silent = self.criteria.silent
        for minion in [minion for minion in self._probed if minion not in silent]:
            del self._probed[minion]
        due = [
            minion
            for minion, since in silent.items()
            if minion not in self._suspects
            and now - self._probed.get(minion, since) >= self.threshold
        ]
        recent = sum(1 for then in self._probed.values() if now - then < ASK_SECONDS)
        due = sorted(due[: max(0, self._room(now) - recent)])
        self._probed.update(dict.fromkeys(due, now))
        return [Ask(RUNNING, [], due)] if due else []

    def _ask_jobs(self, now):
        """
        Ask for the jobs that most minions miss: each is one question to all of these.
        What a minion misses besides, it is asked for when it has answered.
        """
        ready = (
            (minion, suspect)
            for minion, suspect in self._suspects.items()
            if suspect.asked is None and suspect.missing
        )
        ready = list(itertools.islice(ready, max(0, self._room(now))))
        missed = collections.Counter(
            jid for _, suspect in ready for jid in suspect.missing
        )
        wanted = {jid: [] for jid, _ in missed.most_common(ASK_JOBS)}
        for minion, suspect in ready:
            suspect.open = suspect.missing.intersection(wanted)
            if suspect.open:
                suspect.asked = now
            for jid in suspect.open:
                wanted[jid].append(minion)
        return [Ask(FIND_JOB, [jid], sorted(wanted[jid])) for jid in sorted(wanted)]
