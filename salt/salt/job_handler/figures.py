"""
The figures of a queue manager, for people and for metrics.
"""

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


def of(manager, now):
    """
    Return the figures of a queue manager.

    :param QueueManager manager: whose they are
    :param float now: seconds since the epoch
    """
    head = manager.queue.head()
    until = manager.orders.paused_until
    return {
        "queued": len(manager.queue),
        "queued_bytes": manager.queue.bytes,
        "reserved": len(manager.places),
        "max_queue_size": manager.max_queue_size,
        "oldest": now - head.queued if head else 0,
        "paused": manager.orders.paused,
        # JSON has no infinity
        "paused_until": None if until == float("inf") else until,
        "held": manager.held_until is not None,
        "failing": manager.judge.failing_until is not None,
        **{name: manager.counters[name] for name in _COUNTED},
    }
