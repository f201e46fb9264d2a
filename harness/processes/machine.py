"""What the machine itself does while a run takes place, and how its two clocks go: `sample`.

The bed's own processes are in `processes.csv`. All other work of the machine is that of other programs, and makes a run
slower than the Salt that it measures.
"""

from __future__ import annotations

import os
import time
import warnings

import psutil

from harness.samples.rows import MachineSample


def sample(now: float) -> MachineSample:
    """Return the state of the machine at `now`, seconds since the epoch; its monotonic clock is read here."""
    times = psutil.cpu_times()
    with warnings.catch_warnings():
        # a container may hide how much was swapped; then nothing was
        warnings.simplefilter("ignore", RuntimeWarning)
        swapped = psutil.swap_memory().sout
    return MachineSample(
        time=now,
        monotonic=time.monotonic(),
        busy_s=times.user + times.nice + times.system + times.irq + times.softirq,
        stolen_s=times.steal,
        harness_s=time.process_time(),
        available_mb=psutil.virtual_memory().available // 2**20,
        swapped_mb=swapped // 2**20,
        load_average=os.getloadavg()[0],
    )
