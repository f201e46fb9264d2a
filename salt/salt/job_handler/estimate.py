"""
When a job that waits will start: the queue is played forward, with the times that the
functions have taken recently.

It is an estimate. It knows nothing of jobs that come later, and of minions' own limits.
"""

import bisect
import collections
import copy
import heapq

import salt.job_criteria

#: So many times are kept of each function, and so many functions.
TIMES = 200
FUNCTIONS = 500

#: The leases of a wave are expected to end in so many steps.
STEPS = 20

#: The queue is played forward for so many steps.
MOST = 5000


class Estimate:
    """
    :param Queue queue: what waits
    :param Leases leases: who runs what
    """

    def __init__(self, queue, leases):
        self.queue = queue
        self.leases = leases
        # {function: its last times}, the latest function at the end
        self._times = collections.OrderedDict()
        # {job id: function} of jobs with leases
        self._functions = {}

    def dispatched(self, jid, functions):
        """
        A wave of a job goes out.
        """
        self._functions[jid] = " ".join(functions)
        if len(self._functions) > 2 * len(self.leases.jobs) + 100:
            self._functions = {
                jid: fun
                for jid, fun in self._functions.items()
                if jid in self.leases.jobs
            }

    def returned(self, jid, seconds):
        """
        A minion took so many seconds for a job.
        """
        function = self._functions.get(jid)
        times = self._times.get(function)
        if times is None:
            times = self._times[function] = collections.deque(maxlen=TIMES)
            if len(self._times) > FUNCTIONS:
                self._times.popitem(last=False)
        times.append(seconds)

    def _sorted_times(self):
        """
        Return the times of each function, and under None those of all.
        """
        ret = {name: sorted(times) for name, times in self._times.items()}
        ret[None] = sorted(time for times in ret.values() for time in times)
        return ret

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
        all_times = self._sorted_times()
        if not limit or not all_times[None]:
            return {}
        frees = []
        for jid, leases in self.leases.jobs.items():
            times = all_times.get(self._functions.get(jid)) or all_times[None]
            waves = collections.Counter(leases.values())
            for lease, count in waves.items():
                for seconds, some in self._ends(times, count, now - lease.since):
                    heapq.heappush(frees, (now + seconds, some * lease.cost))
        return self._play(all_times, frees, limit, now)

    def _play(self, all_times, frees, limit, now):
        shares = copy.deepcopy(self.queue.shares)
        flows = {
            key: collections.deque(jobs.values())
            for key, jobs in self.queue.flows.items()
        }
        waits = {job.seq: [job.count, job.moved] for job in self.queue}
        free, then, ret = limit - self.leases.occupied, now, {}
        patience = salt.job_criteria.WAVE_SECONDS
        for _ in range(MOST):
            if not flows:
                break
            top = max(priority for priority, _ in flows)
            key = min(
                (key for key in flows if key[0] == top),
                key=lambda key: self.queue.served(flows[key][0], then, shares),
            )
            job = flows[key][0]
            count, moved = waits[job.seq]
            least = 1 if then - moved >= patience else min(count, limit // 4)
            wave = min(count, int(free // job.cost))
            if wave < max(1, least):
                if not frees:
                    break
                when, slots = heapq.heappop(frees)
                if wave and moved + patience < when:
                    # it does not wait for more any longer
                    heapq.heappush(frees, (when, slots))
                    when, slots = moved + patience, 0
                then, free = max(then, when), free + slots
                continue
            ret.setdefault(job.seq, then - now)
            free -= wave * job.cost
            shares.add(job.flow, wave * job.cost, then)
            waits[job.seq] = [count - wave, then]
            for seconds, some in self._ends(
                all_times.get(" ".join(job.functions)) or all_times[None], wave, 0
            ):
                heapq.heappush(frees, (then + seconds, some * job.cost))
            if wave == count:
                flows[key].popleft()
                if not flows[key]:
                    del flows[key]
        return ret
