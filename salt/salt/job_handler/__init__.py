"""
The Salt Job Handler: decide when a job is published, instead of publishing it at once.

Off by default, see :conf_master:`rate_limiting`. What happens to a job, from its
request to its last return:

1. ``ClearFuncs.publish`` in a worker of the master has authorised the request. The worker
   gets a place in the queue (:mod:`~salt.job_handler.handover`), which is a row with the
   state ``new`` in the store (:mod:`~salt.job_handler.store`). A full queue refuses the
   request, and so does a rule that rejects the job: it leaves nothing behind. A tenth of
   the queue is kept for root, and one user may have half. A second try with the request
   id of the client gets the job of the first. Functions in ``exempt``, such as
   ``test.ping``, are published at once, without a row.
2. The worker gives out the job id, writes the job into the job cache and into the row,
   which is ``queued`` from then on, and tells the process of the job handler
   (:mod:`~salt.job_handler.control`). If that gives no sign of life within a second,
   ``fail_mode`` decides: with ``open`` the worker takes the job back and publishes it
   (``direct``), with ``closed`` the job is refused. It can be taken back only before a
   wave of it was written, and a wave is written only while the job is ``queued``, so one
   of the two publishes it. What can't be written down is refused.
3. In the queue (:mod:`~salt.job_handler.queue`) the highest priority goes first. Within it
   flows, such as users, take turns. Small jobs may pass one that waits for room. The first
   rule that matches (:mod:`~salt.job_handler.policy`) accepts, rejects or pauses the job,
   limits how many slots such jobs have, or sets its cost and priority. Otherwise the
   criteria module (:mod:`salt.job_criteria`) says whether the job may go, and to which
   minions. These get a lease each (:mod:`~salt.job_handler.leases`). Those that it excludes
   never get the job: with ``capacity`` those at their limit, unless ``minion_full`` is
   ``wait``, and silent ones.
4. A wave is written into the store and published to these minions
   (:mod:`~salt.job_handler.dispatch`). The caller reads in the answer of the worker, and in
   events, how far its job is (:mod:`~salt.job_handler.client`,
   :mod:`~salt.job_handler.report`). Minions that wait get the job in a later wave. When
   none waits any more, the job is ``running``. It is ``cancelled`` if somebody cancels it,
   and ``discarded`` if it waits for longer than ``max_queue_age`` or the timeout of a
   caller that waits (not with ``sync_wait: extend``), if that caller, a process on this
   machine, has ended (not with PostgreSQL), or if rules that have changed reject it. What
   went out in earlier waves goes on. The parts of a batch are rows of their own under one
   job id.
5. Each return ends a lease, and makes room for the next wave
   (:mod:`~salt.job_handler.maintenance`). A minion that does not return within
   ``long_running``, or that starts, is asked what it runs, and earlier if jobs wait and no
   lease ends; its lease expires unless its answer names the job. One from which nothing
   comes is silent, and is left out of jobs until it returns, answers or starts. With the
   last lease the job is ``done``.

One process has the queue (:mod:`~salt.job_handler.process`). With ``store: postgresql``
(:mod:`~salt.job_handler.postgres`) it is that of one of the masters; the others pass
requests on to it, and take over if it ends or hangs. Otherwise each master of a cluster
has its own queue, and counts what the others publish. After an end the next process takes
over what is in the store, and asks all minions with leases what they run. A wave that may
not have been sent is sent again under its job id, unless it is old or for minions with
resources. After a restart of the master nothing that waits is published before minions
had time to connect (30 seconds, 3 with PostgreSQL), but for new jobs whose callers wait.
"""

import logging
import time

log = logging.getLogger(__name__)

#: The end of the job ids of questions. Other job ids have the number of a process there,
#: but clients may choose any.
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
        salt.job_handler.store.turned_off(opts, reason)
        return
    import uuid

    from salt.job_handler.process import JobHandler

    log.info("Creating master job handler process")
    # with the same name for as long as this master runs, however often the process
    # manager starts the job handler again
    master = uuid.uuid4().hex
    process_manager.add_process(JobHandler, args=(opts, master), name="JobHandler")
