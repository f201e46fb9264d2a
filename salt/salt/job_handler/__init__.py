"""
The Salt Job Handler: decide when a job is published, instead of publishing it at once.

Off by default, see :conf_master:`rate_limiting`. ``ClearFuncs.publish`` in a worker of the
master gets a place in the queue for a job (:mod:`~salt.job_handler.handover`), which is a
row of the store (:mod:`~salt.job_handler.store`), before it gives out a job id. Then it
hands the job over to the process of the job handler (:mod:`~salt.job_handler.process`,
:mod:`~salt.job_handler.control`) instead of publishing it; what becomes of it is up to
``fail_mode`` if that process does not answer. The queue (:mod:`~salt.job_handler.queue`),
with its rules (:mod:`~salt.job_handler.policy`) and a criteria module
(:mod:`salt.job_criteria`), says which job goes to which minions next. These get a lease
each (:mod:`~salt.job_handler.leases`), and a wave is published to them
(:mod:`~salt.job_handler.dispatch`). A return ends a lease, and minions that do not return
are asked what they run (:mod:`~salt.job_handler.maintenance`). With PostgreSQL
(:mod:`~salt.job_handler.postgres`) all masters of a cluster have one queue. Callers wait
with :mod:`~salt.job_handler.client`, and people read :mod:`~salt.job_handler.report`.
"""

import logging
import time

log = logging.getLogger(__name__)

#: The end of the job ids of questions.
QUESTION = "_0"

#: The name of the error that refuses a job.
REFUSED = "JobQueueFullError"

#: What minions are asked.
QUESTIONS = ("saltutil.running", "saltutil.find_job")


def enabled(opts):
    """Return whether this master limits the rate of its jobs."""
    return bool(opts.get("rate_limiting"))


def is_question(load):
    """
    Return whether the job handler asks minions with a job what they run. The job cache
    knows no such job.

    :param dict load: a publication, or what a minion has returned
    """
    return load.get("fun") in QUESTIONS and str(load["jid"]).endswith(QUESTION)


def date(seconds):
    """Return a date and time in UTC, or an empty text for a time that never comes.

    :param seconds: seconds since the epoch, or None
    """
    if seconds is None or seconds == float("inf"):
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def add_process(opts, process_manager):
    """Let the master start the job handler, if it is turned on.

    :param ProcessManager process_manager: starts it, and starts it again when it ends
    """
    # pylint: disable=import-outside-toplevel
    if not enabled(opts):
        import salt.job_handler.queue
        import salt.job_handler.store

        reason = salt.job_handler.queue.SENTENCES[salt.job_handler.queue.OFF]
        salt.job_handler.store.when_off(opts, "end_all", reason)
        return
    import uuid

    from salt.job_handler.process import JobHandler

    log.info("Creating master job handler process")
    # with the same name for as long as this master runs, however often the process
    # manager starts the job handler again
    master = uuid.uuid4().hex
    process_manager.add_process(JobHandler, args=(opts, master), name="JobHandler")
