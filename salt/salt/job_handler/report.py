"""
What callers, people and programs get to know of the job handler, and when a job that waits
will start.
"""

import bisect
import collections
import functools
import heapq
import itertools
import os
import time

import salt.job_criteria
import salt.utils.metrics
from salt.job_handler import date

_COUNTED = (
    "submitted",
    "dispatched",
    "waves",
    "excluded",
    "discarded",
    "cancelled",
    "rejected",
)

#: What the gauges show.
GAUGES = {
    "depth": "Jobs that wait.",
    "oldest": "Seconds that the oldest has waited.",
    "used": "Slots in use.",
    "limit": "The master's limit.",
    "full_minions": "Minions at their own limit.",
}

#: So many times are kept of each function, and so many functions.
TIMES = 200
FUNCTIONS = 500

#: The leases of a wave are expected to end in so many steps.
STEPS = 20

#: The queue is played forward until so many leases have begun or ended.
MOST = 20000


class Estimate:
    """
    When jobs start: the queue is played forward, with the times that their functions have
    taken recently. It knows nothing of jobs that come later, and of minions' own limits.

    :param Queue queue: what waits
    """

    def __init__(self, queue):
        self.queue = queue
        self.leases = queue.leases
        # {function: its last times}, the latest function at the end
        self._times = collections.OrderedDict()

    def returned(self, fun, seconds):
        """A minion took so many seconds for a job of a function."""
        times = self._times.get(fun)
        if times is None:
            times = self._times[fun] = collections.deque(maxlen=TIMES)
            if len(self._times) > FUNCTIONS:
                self._times.popitem(last=False)
        times.append(seconds)

    @staticmethod
    def _ends(times, count, age):
        """
        Yield ``(seconds, how many)``: when leases of a wave end that are so old. Of those
        that are older than any before that is not known.
        """
        left = times[bisect.bisect_left(times, age) :]
        steps = min(STEPS, count) if left else 0
        for step in range(steps):
            seconds = left[int((step + 0.5) * len(left) / steps)] - age
            yield seconds, (step + 1) * count // steps - step * count // steps

    def starts(self, limit, now):
        """
        Return ``{number of a job: in how many seconds it starts}``, without those of which
        that is not known.

        :param float limit: how many slots there are
        """
        known = {name: sorted(times) for name, times in self._times.items()}
        every = sorted(time for times in known.values() for time in times)
        if not limit or not every:
            return {}
        ends = []
        for leases in self.leases.jobs.values():
            for lease, count in collections.Counter(leases.values()).items():
                times = known.get(lease.fun) or every
                for seconds, some in self._ends(times, count, now - lease.since):
                    ends.append((now + seconds, some * lease.cost))
        heapq.heapify(ends)
        free, then, ret, left = limit - self.leases.occupied, now, {}, MOST
        for job in self.queue.order_of_turns(now):
            count, moved, times = job.count, job.moved, known.get(job.name) or every
            while count and left > 0:
                wave = max(0, min(count, int(free // job.cost)))
                if wave < min(count, limit // 4) or not wave:
                    patient = max(then, moved + salt.job_criteria.WAVE_SECONDS)
                    left -= 1
                    if ends and not (wave and ends[0][0] > patient):
                        when, slots = heapq.heappop(ends)
                        then, free = max(then, when), free + slots
                        continue
                    if not wave:
                        return ret
                    then = patient
                ret.setdefault(job.seq, then - now)
                count, moved, free = count - wave, then, free - wave * job.cost
                for seconds, some in self._ends(times, wave, 0):
                    heapq.heappush(ends, (then + seconds, some * job.cost))
                    left -= 1
        return ret


class Report:
    """What the queue and the store say, in words and figures."""

    def __init__(self, section, queue, store, clock):
        self.section = section
        self.queue = queue
        self.store = store
        self.clock = clock
        self.started = time.time()
        self.estimate = Estimate(queue)
        # (when, {number of a job: in how many seconds it starts})
        self._estimated = float("-inf"), {}
        #: what has become of jobs
        self.counters = collections.Counter()
        self._gauges = {}
        self._results = self._waits = self._unavailable = None

    def progress(self, job):
        """Return how far a job is, for its caller."""
        ret = {
            "publication": job.seq,
            "waiting": job.count,
            "sent": job.sent,
            "waited": round(self.clock() - job.queued, 1),
        }
        if job.count:
            ret["reason"] = self.reason(job)
        return ret

    def reason(self, job):
        """Return why a job waits."""
        if self.queue.rules.paused_until is not None:
            until = date(self.queue.rules.paused_until)
            return "the queue is paused" + (f" until {until}" if until else "")
        if job.held:
            return "an administrator holds it"
        if job.reason:
            return job.reason
        if self.queue.held_until is not None:
            return "the master could not publish a moment ago"
        return "other jobs are before it"

    def status(self, now):
        """Return the figures for ``salt-run job_handler.status``."""
        queue, leases, rules = self.queue, self.queue.leases, self.queue.rules
        until = rules.paused_until
        return {
            "criteria": self.section["criteria"],
            "pid": os.getpid(),
            "running_since": self.started,
            "queued": len(queue),
            "queued_bytes": sum(job.size for job in queue),
            "max_queue_size": self.section["max_queue_size"],
            "oldest": self._oldest(now),
            "paused": until is not None,
            # JSON has no infinity
            "paused_until": None if until == float("inf") else until,
            "pauses": [rule.settings for rule in rules.rules if rule.given],
            "held": queue.held_until is not None,
            "failing": queue.failing,
            **{name: self.counters[name] for name in _COUNTED},
            "capacity": {
                "used": leases.occupied,
                "leases": len(leases),
                **queue.criteria.stats(now),
            },
            "silent_minions": len(leases.silent),
        }

    def _oldest(self, now):
        return now - min((job.queued for job in self.queue), default=now)

    def jobs(self, now, limit=None, jid=None):
        """Return the jobs that wait, or those with a job id, in their order."""
        if jid is not None and not self.queue.of_jid(jid):
            # batches ask often, and mostly for jobs that run
            return []
        starts = self._starts(now)
        jobs = itertools.islice(enumerate(self.queue, 1), limit)
        return [
            self._line(job, now, place, starts.get(job.seq))
            for place, job in jobs
            if jid in (None, job.jid)
        ]

    def _starts(self, now):
        """Return when the jobs that wait start, at most a second old."""
        if self.queue.rules.paused_until is not None:
            return {}
        if not 0 <= now - self._estimated[0] < 1:
            limit = self.queue.criteria.stats(now).get("limit")
            starts = self.estimate.starts(limit, now)
            # from the end: it may take long
            self._estimated = self.clock(), starts
        return self._estimated[1]

    def _line(self, job, now, place, starts):
        ret = {
            **self.progress(job),
            "jid": job.jid,
            "fun": job.fun,
            "user": job.user,
            "priority": job.priority,
            "position": place,
            "starts_in": None if starts is None else round(starts, 1),
            "gives_up_in": round(job.deadline - now, 1),
        }
        del ret["publication"]
        return ret

    def show(self, jid, now):
        """Return what is known of a job."""
        waiting = self.jobs(now, jid=jid)
        for line, job in zip(waiting, [job for job in self.queue if job.jid == jid]):
            line["tgt"] = self.store.load_of(job.seq).get("tgt")
        running = sorted(self.queue.leases.jobs.get(jid, ()))
        ended = [row["state"] for row in self.history(None) if row["jid"] == jid]
        state = "queued" if waiting else "dispatched" if running else "not here"
        return {
            "jid": jid,
            "waiting": waiting,
            "running_on": running,
            "left_out": self.store.left_out(jid),
            "state": ended[0] if ended and not (waiting or running) else state,
        }

    def history(self, limit):
        """Return the jobs that were cancelled or discarded, the latest first."""
        return [
            {"jid": jid, "user": user, "state": state, "reason": reason, "at": date(at)}
            for jid, user, state, reason, at in self.store.history(limit or 10**9)
        ]

    def register(self, opts):
        """Set the metrics up. Nothing is labelled by minion, job id or user."""
        section = opts.get("metrics") or {}
        if (section.get("exporter") or "").lower() == "prometheus":
            # another process has the port of the master
            listener = dict(section.get("prometheus") or {})
            port = int(listener.get("port") or 9464) + 1
            listener["port"] = listener.get("job_handler_port") or port
            section = {**section, "prometheus": listener}
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
        for name, description in GAUGES.items():
            salt.utils.metrics.observable_gauge(
                f"salt.job_handler.{name}",
                functools.partial(self._observe, name),
                description=description,
            )

    def observe(self):
        """Note what the gauges show, as another thread reads them."""
        queue = self.queue
        stats = queue.criteria.stats(self.clock())
        self._gauges = {
            "depth": len(queue),
            "oldest": min((job.queued for job in queue), default=None),
            "used": queue.leases.occupied,
            "limit": stats.get("limit"),
            "full_minions": stats.get("full_minions"),
        }

    def _observe(self, name, _options):
        # pylint: disable=import-outside-toplevel
        from opentelemetry.metrics import Observation

        number = self._gauges.get(name)
        if name == "oldest" and self._gauges:
            # it grows also while the job handler hangs
            number = 0 if number is None else self.clock() - number
        return [] if number is None else [Observation(number)]

    def count_unavailable(self, mode):
        """Count a publish request without an answer: workers have no exporter."""
        if self._unavailable is not None:
            self._unavailable.add(1, attributes={"result": mode})

    def count(self, result, job, now):
        """Count a job that was dispatched, or why it was not."""
        kept = result in ("dispatched", "cancelled")
        self.counters[result if kept else "discarded"] += 1
        if self._results is not None:
            self._results.add(1, attributes={"result": result})
            self._waits.record((now - job.queued) * 1000)
