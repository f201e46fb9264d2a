"""
What callers, people and programs get to know of the job handler.
"""

import collections
import functools
import itertools
import os
import time

import salt.job_handler.config
import salt.job_handler.policy
import salt.job_handler.queue
import salt.utils.metrics
from salt.job_handler import date

#: Above this share of a limit people are warned.
_NEARLY = 0.9

_COUNTED = (
    "submitted",
    "dispatched",
    "waves",
    "excluded",
    "discarded",
    "cancelled",
    "rejected",
    "aborted",
    "criteria_failures",
)


def _count(number, what):
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class Report:
    """
    :param dict section: the settings
    :param Queue queue: what waits
    :param Store store: what has ended
    :param callable clock: returns seconds
    """

    def __init__(self, section, queue, store, clock):
        self.section = section
        self.queue = queue
        self.store = store
        self.clock = clock
        self.started = time.time()
        #: set by the process: how often callers get to know that their job waits
        self.interval = lambda: 4
        # when the last jobs left the queue
        self._left = []
        # (when, {number of a job: in how many seconds it starts})
        self._estimated = float("-inf"), {}
        self._results = self._waits = self._unavailable = None
        # {fail_mode: unanswered publish requests that were exported}
        self._exported = collections.Counter()

    # ------------------------------------------------------------------
    # To callers
    # ------------------------------------------------------------------

    def state(self, job):
        """
        Return what to add to the answer to a publish request; nothing, if the job went
        out to all of its minions.
        """
        if not job.count and not job.left_out:
            return {}
        ret = self.progress(job)
        ret["state"] = "queued" if job.count else "dispatched"
        ret["ticket"] = job.ticket
        if job.left_out:
            ret["excluded"] = job.left_out
        return ret

    def progress(self, job):
        """
        Return how far a job is.
        """
        ret = {
            "publication": job.seq,
            "waiting": job.count,
            "sent": job.sent,
            "waited": round(self.clock() - job.queued, 1),
            "lease": max(60, 3 * self.interval()),
        }
        if job.count:
            ret["reason"] = self.reason(job)
        return ret

    def reason(self, job):
        """
        Return why a job waits: what stops the whole queue, what the criteria module
        says, or that it is not its turn yet.
        """
        queue = self.queue
        if queue.rules.paused_until is not None:
            until = date(queue.rules.paused_until)
            return (
                f"the queue is paused until {until}" if until else "the queue is paused"
            )
        if job.held:
            return "an administrator holds it"
        if job.reason:
            return job.reason
        if queue.held_until is not None:
            return "the master could not publish a moment ago"
        return "other jobs are before it"

    # ------------------------------------------------------------------
    # To people
    # ------------------------------------------------------------------

    def status(self, now):
        """
        Return the figures of the job handler and of its criteria module.
        """
        queue, leases, rules = self.queue, self.queue.leases, self.queue.rules
        until = rules.paused_until
        oldest = min((job.queued for job in queue), default=now)
        return {
            "criteria": self.section["criteria"],
            "settings": salt.job_handler.config.public(self.section),
            "pid": os.getpid(),
            "running_since": self.started,
            "queued": len(queue),
            "queued_bytes": queue.bytes,
            "max_queue_size": self.section["max_queue_size"],
            "oldest": now - oldest,
            "paused": until is not None,
            # JSON has no infinity
            "paused_until": None if until == float("inf") else until,
            # but that of all jobs
            "pauses": [rule.settings for rule in rules.rules if rule.given],
            "held": queue.held_until is not None,
            "failing": queue.failing,
            **{name: queue.counters[name] for name in _COUNTED},
            "capacity": {
                "used": leases.occupied,
                "leases": len(leases),
                **queue.criteria.stats(now),
            },
            "silent_minions": len(leases.silent),
            "checking_minions": leases.checking,
        }

    def words(self, now):
        """
        Return the same in sentences; ``to do`` is a list of them.
        """
        figures = self.status(now)
        capacity, limit = figures["capacity"], figures["capacity"].get("limit")
        used = f"{capacity['used']:g} slots occupied"
        if limit is not None:
            used = f"{capacity['used']:g} of {limit:g} slots occupied"
        if capacity.get("full_minions"):
            used += f", {_count(capacity['full_minions'], 'minion')} at their limit"
        queue = f"empty, with room for {figures['max_queue_size']:,}"
        if figures["queued"]:
            queue = "{} of {:,}, the oldest since {} ({:.0f} s)".format(
                _count(figures["queued"], "job"),
                figures["max_queue_size"],
                date(now - figures["oldest"]),
                figures["oldest"],
            )
        return {
            "to do": self._advice(figures) or ["Nothing: the queue is at work."],
            "queue": queue,
            "capacity": used,
            "minions": "{} silent, {} asked what they run".format(
                figures["silent_minions"], figures["checking_minions"]
            ),
            "so far": (
                "{} published in {}, {} left out; {} given up, {} cancelled,"
                " {} refused".format(
                    _count(figures["dispatched"], "job"),
                    _count(figures["waves"], "wave"),
                    _count(figures["excluded"], "minion"),
                    _count(figures["discarded"], "job"),
                    figures["cancelled"],
                    figures["rejected"],
                )
            ),
            "criteria": figures["criteria"],
            "running since": date(figures["running_since"]),
        }

    def _advice(self, figures):
        ret = []
        if figures["paused"]:
            until = date(figures["paused_until"])
            ret.append(
                "The queue is paused{}: salt-run job_handler.resume lets it go on.".format(
                    f" until {until}" if until else ""
                )
            )
        for rule in figures["pauses"]:
            reason = salt.job_handler.policy.Rule(rule).reason
            ret.append(
                f"Jobs wait, as {reason}: salt-run job_handler.resume lets them go on."
            )
        if figures["failing"]:
            ret.append(
                "The criteria module fails, and fail_mode decides: see the master's log."
            )
        if figures["held"]:
            ret.append("Wait a moment: the master could not publish.")
        if figures["queued"] > _NEARLY * figures["max_queue_size"]:
            ret.append(
                "The queue is nearly full: cancel jobs of salt-run job_handler.list, or"
                " raise max_queue_size."
            )
        if figures["queued_bytes"] > _NEARLY * self.section["max_queue_bytes"]:
            ret.append(
                "The jobs that wait take nearly all they may: cancel some, or raise"
                " max_queue_bytes."
            )
        if figures["silent_minions"]:
            ret.append(
                "Silent minions get no jobs until something comes from them: see whether"
                " they run."
            )
        return ret

    def jobs(self, now, limit=None, jid=None):
        """
        Return the jobs that wait, in their order, those of the highest priority first;
        with a job id only those that have it.
        """
        if jid is not None and not self.queue.of_jid(jid):
            # batches ask often, and mostly for jobs that run
            return []
        starts = self._starts(now)
        jobs = itertools.islice(enumerate(self.queue, 1), limit)
        return [
            self._line(job, now, place, starts)
            for place, job in jobs
            if jid in (None, job.jid)
        ]

    def _starts(self, now):
        """
        Return when the jobs that wait start, at most a second old.
        """
        if self.queue.rules.paused_until is not None:
            return {}
        then, starts = self._estimated
        if not 0 <= now - then < 1:
            starts = self.queue.estimate.starts(
                self.queue.criteria.stats(now).get("limit"), now
            )
            self._estimated = now, starts
        return starts

    def _line(self, job, now, place, starts):
        seconds = starts.get(job.seq)
        return {
            "jid": job.jid,
            "fun": job.fun,
            "user": job.user,
            "priority": job.priority,
            "position": place,
            "waiting": job.count,
            "sent": job.sent,
            "waited": round(now - job.queued, 1),
            "starts_in": None if seconds is None else round(seconds, 1),
            "gives_up_in": round(job.deadline - now, 1),
            "reason": self.reason(job),
        }

    def leases(self, now, minion=None):
        """
        Return which minions have a lease for which job, the oldest first.
        """
        rows = sorted(self.queue.leases.rows(minion), key=lambda row: row[2].since)
        return [
            {
                "minion": name,
                "jid": jid,
                "slots": lease.cost,
                "seconds": round(now - lease.since, 1),
                "asked": asked,
            }
            for jid, name, lease, asked in rows
        ]

    def show(self, jid, now):
        """
        Return what is known of a job.
        """
        waiting = [
            {**line, "tgt": self.store.load_of(job.seq).get("tgt")}
            for line, job in zip(
                self.jobs(now, jid=jid), [job for job in self.queue if job.jid == jid]
            )
        ]
        running = sorted(self.queue.leases.jobs.get(jid, ()))
        ended = [row for row in self.history(None) if row["jid"] == jid]
        state = "queued" if waiting else "dispatched" if running else "not here"
        if ended and not (waiting or running):
            state = ended[0]["state"]
        return {
            "jid": jid,
            "waiting": waiting,
            "running_on": running,
            "left_out": self.store.left_out(jid),
            "state": state,
        }

    def history(self, limit):
        """
        Return the jobs that were cancelled or discarded, the latest first.
        """
        return [
            {"jid": jid, "user": user, "state": state, "reason": reason, "at": date(at)}
            for jid, user, state, reason, at in self.store.history(limit or 10**9)
        ]

    # ------------------------------------------------------------------
    # Metrics. Nothing is labelled by minion, job id or user
    # ------------------------------------------------------------------

    def register(self, opts):
        """
        Set the instruments up.

        :param dict opts: the master's options
        """
        section = opts.get("metrics") or {}
        if (section.get("exporter") or "").lower() == "prometheus":
            # another process has the port of the master
            listener = section.get("prometheus") or {}
            port = listener.get("job_handler_port") or (
                int(listener.get("port") or 9464) + 1
            )
            section = {**section, "prometheus": {**listener, "port": port}}
            salt.utils.metrics.configure(
                {**opts, "metrics": section, "__role": "master"}
            )
        self._results = salt.utils.metrics.counter(
            "salt.job_handler.jobs", description="Jobs that left the queue, by result."
        )
        self._waits = salt.utils.metrics.histogram(
            "salt.job_handler.wait",
            description="Time from a job's acceptance to its last wave.",
            unit="ms",
        )
        self._unavailable = salt.utils.metrics.counter(
            "salt.job_handler.unavailable",
            description="Publish requests that the job handler did not answer.",
        )

        def stats(now):
            # the module may be another one by then
            return self.queue.criteria.stats(now)

        for name, value, description in (
            ("depth", lambda now: len(self.queue), "Jobs that wait."),
            (
                "oldest",
                lambda now: self.status(now)["oldest"],
                "Seconds that the oldest job has waited.",
            ),
            (
                "used",
                lambda now: self.queue.leases.occupied,
                "Slots that are occupied.",
            ),
            ("limit", lambda now: stats(now).get("limit"), "The master's limit."),
            (
                "full_minions",
                lambda now: stats(now).get("full_minions"),
                "Minions at their own limit.",
            ),
        ):
            salt.utils.metrics.observable_gauge(
                f"salt.job_handler.{name}",
                functools.partial(self._observe, value),
                description=description,
            )

    def _observe(self, value, _options):
        # pylint: disable=import-outside-toplevel
        from opentelemetry.metrics import Observation

        number = value(self.clock())
        return [] if number is None else [Observation(number)]

    def count_unavailable(self):
        """
        Count the publish requests that went unanswered. Workers write them down, as only
        one process has the port of an exporter.
        """
        counts = collections.Counter(self.store.get_meta("unavailable", {}))
        for mode, number in (counts - self._exported).items():
            self._unavailable.add(number, attributes={"result": mode})
        self._exported = counts

    def count(self, result, job, now):
        """
        Count a job that leaves the queue.

        :param str result: ``dispatched``, or why it is not published
        """
        self._left = [*self._left[-31:], now]
        if self._results is not None:
            self._results.add(1, attributes={"result": result})
            self._waits.record((now - job.queued) * 1000)

    def retry_after(self):
        """
        Return in how many seconds there should be a place in the queue.
        """
        if len(self._left) < 2:
            return 10
        seconds = (self.clock() - self._left[0]) / len(self._left)
        return int(min(60, max(1, seconds * 2)))
