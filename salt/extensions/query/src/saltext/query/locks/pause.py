"""The pause of the job handler."""


def locks(context):
    """Yield the pause of the job handler, if it is paused."""
    queue = context.source("queue")
    if queue.enabled and queue.status and queue.status.get("paused"):
        yield {
            "object": "job_handler",
            "mode": "exclusive",
            "pending": sorted(queue.waiting or ()),
            "pid": queue.status.get("pid"),
            "reason": "The job handler's queue is paused",
        }
