"""CPU time and memory of a bed's roles over a span of time, from samples of their processes.

Each process has a counter of CPU time that starts with it and stays when it ends; all counters add up to what the bed
used (see `harness.processes.monitor`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.samples.rows import ProcessSample

# what belongs to the bed, not to the master; every other role is a process of the master
OTHERS = frozenset({"api", "postgres", "fleet", "locust", "minion", "cli", "warden", "harness", "monitor", "orphan"})


def at(times: Sequence[float], values: Sequence[float], moment: float) -> float:
    """Return a cumulative counter's value at `moment`, interpolated between the samples around it.

    Before its first sample a process has used nothing; after its last one nothing more.
    """
    after = bisect_right(times, moment)
    if after == 0:
        return 0.0
    if after == len(times):
        return values[-1]
    before = after - 1
    share = (moment - times[before]) / (times[after] - times[before])
    return values[before] + share * (values[after] - values[before])


@dataclass
class Counter:
    """The CPU seconds of one process at its times of sampling, and the last role it had: Salt names processes late."""

    role: str
    times: list[float]
    values: list[float]

    def used(self, edges: Sequence[float]) -> list[float]:
        """Return the CPU seconds used between each two of `edges`."""
        return [high - low for low, high in pairwise(at(self.times, self.values, edge) for edge in edges)]


def counters(processes: Iterable[ProcessSample]) -> list[Counter]:
    """Return the counter of each process; one that falls belongs to another process with the id of an ended one."""
    done: list[Counter] = []
    current: dict[int, Counter] = {}
    for sample in processes:
        counter = current.get(sample.pid)
        if counter is None or sample.cpu_s < counter.values[-1]:
            counter = current[sample.pid] = Counter(sample.role, [], [])
            done.append(counter)
        counter.role = sample.role
        counter.times.append(sample.time)
        counter.values.append(sample.cpu_s)
    return done


def seconds(processes: Iterable[ProcessSample], start: float, end: float) -> dict[str, float]:
    """Return the CPU seconds that each role used from `start` to `end`."""
    used: dict[str, float] = defaultdict(float)
    for counter in counters(processes):
        used[counter.role] += sum(counter.used([start, end]))
    return dict(used)


def rates(processes: Iterable[ProcessSample], edges: Sequence[float]) -> dict[str, list[float]]:
    """Return how many cores each role kept busy between each two of `edges`, moments in order.

    What a process had used at its first sample, it used since the sampling before it.
    """
    samples = list(processes)
    ticks = sorted({sample.time for sample in samples})
    spans = [end - start for start, end in pairwise(edges)]
    busy: dict[str, list[float]] = {}
    for counter in counters(samples):
        first = bisect_left(ticks, counter.times[0])
        if first:
            counter.times.insert(0, ticks[first - 1])
            counter.values.insert(0, 0.0)
        of_role = busy.setdefault(counter.role, [0.0] * len(spans))
        for number, (used, span) in enumerate(zip(counter.used(edges), spans, strict=True)):
            of_role[number] += used / span
    return busy


def memory_mb(processes: Iterable[ProcessSample]) -> dict[str, list[tuple[float, float]]]:
    """Return the memory of each role over time, in MB: the sum over its processes at each time of sampling."""
    sums: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for sample in processes:
        sums[sample.role][sample.time] += sample.rss_kb / 1024
    return {role: sorted(values.items()) for role, values in sums.items()}
