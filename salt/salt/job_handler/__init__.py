"""
The Salt Job Handler: decide when a job is published, instead of publishing it at once.

Off by default, see :conf_master:`rate_limiting`. What happens to a job, from its
request to its last return:

1. ``ClearFuncs.publish`` in a worker of the master has authorised the request. A job
   that a rule rejects is refused at once, if the job handler answers within a second;
   with ``fail_mode: closed`` any job is refused if it does not. The others get a place
   in the queue (:mod:`~salt.job_handler.handover`), which is a row with the state
   ``new`` in the store (:mod:`~salt.job_handler.store`). If the queue is full the
   request is refused, and leaves nothing behind: what is ``queued`` counts, by number
   and by bytes, a tenth is kept for root, and one user may have half. A second try with
   the request id of the client gets the job of the first, for at least 15 minutes; it is
   refused if the first one has no job id after ten seconds.
   Functions in ``exempt``, such as ``test.ping``, are published at once, without a row
   and whatever ``fail_mode`` says. A row that stays ``new`` is dropped after ten
   minutes.
2. The worker gives out the job id, writes the job into the job cache and into the row,
   which is ``queued`` from then on, and tells the process of the job handler
   (:mod:`~salt.job_handler.control`), for whose answer it waits a second. A slow one
   keeps the job. If it gives no sign of life, ``fail_mode`` decides: ``open`` means
   that the worker takes the job back and publishes it (``direct``; its minions get
   leases and it is ``running`` once the job handler is there), ``closed`` that it is
   refused. A job can be taken back only before a wave of it was written, and a wave is
   written only while the job is ``queued``, so one of the two publishes it.
   ``fail_mode`` also decides if somebody else holds the database, and whether jobs wait
   or go if the criteria module fails. What can't be written is refused, and so is what
   may have been written when the database was lost.
3. In the queue (:mod:`~salt.job_handler.queue`) the highest priority goes first: 0,
   unless root asks for more, a rule says so, or an administrator. Within it flows, such
   as users, take turns. Small jobs may pass one that waits for room, whatever its
   priority. The first rule that matches (:mod:`~salt.job_handler.policy`) accepts,
   rejects or pauses the job, limits how many slots such jobs have, or sets its cost and
   priority. If none decides alone, the criteria module (:mod:`salt.job_criteria`) says
   whether the job may go, and to which minions. These get a lease each
   (:mod:`~salt.job_handler.leases`). Those that it excludes never get the job: with
   ``capacity`` those at their limit, unless ``minion_full`` is ``wait``, and silent
   ones. Jobs that are forced, accepted, exempt, or whose target can't be divided, go to
   all.
4. A wave is written into the store and published to these minions
   (:mod:`~salt.job_handler.dispatch`). The worker, and so the caller, gets to know how
   far the job is, and the caller later by events (:mod:`~salt.job_handler.client`,
   :mod:`~salt.job_handler.report`). Minions that wait get the job in a later wave. When
   none waits any more, the job is ``running``, or ``done`` if all were excluded. It is
   ``cancelled`` if somebody cancels it, and ``discarded`` if it waits for longer than
   ``max_queue_age`` or the timeout of a caller that waits (not with ``sync_wait:
   extend``), if that caller, a process on this machine, has ended (not with
   PostgreSQL), or if rules that have changed reject it. What went out in earlier waves
   goes on. The parts of a batch are rows of their own under one job id; a priority
   holds for later parts too, and so does a cancel of the whole job.
5. Each return ends a lease, and makes room for the next wave, which with ``capacity``
   has a least size for as long as returns come (:mod:`~salt.job_handler.maintenance`).
   A minion that does not return within ``long_running``, or that starts, is asked what
   it runs, and earlier if jobs wait and no lease ends; its lease expires unless its
   answer names the job. One from which nothing comes is silent, and is left out of jobs
   until it returns, answers or starts. With the last lease the job is ``done``.

One process has the queue (:mod:`~salt.job_handler.process`); with ``store: postgresql``
that of one of the masters, whose sign of life is a row there; the others pass requests
on to it, and take over if it ends or hangs. Otherwise each master of a cluster has its
own queue, and counts what the others publish. If the process ends, the next one takes
over what is in the store, and asks all minions with leases what they run. A wave that may
not have been sent is sent again under its job id, unless it is old or for minions with
resources. After a restart of the master nothing that waits is published before minions
had time to connect (30 seconds, 3 with PostgreSQL), but for new jobs whose callers
wait.
"""

import logging
import time

log = logging.getLogger(__name__)

#: The end of the job ids of questions. Other job ids have the number of a process there.
QUESTION = "_0"


def enabled(opts):
    """
    Return whether this master limits the rate of its jobs.

    :param dict opts: the master's options
    """
    return bool(opts.get("rate_limiting"))


def is_question(jid):
    """
    Return whether a job id belongs to a question of the job handler, which asks minions
    what they run. Clients can't choose such a job id, and the job cache knows none.

    :param str jid: the job id
    """
    return str(jid).endswith(QUESTION)


def sentences(reasons):
    """
    Return what people read of the minions that did not get a job.

    :param dict reasons: why each of them did not
    """
    return {
        minion: f"Minion did not get the job. [{reason}]"
        for minion, reason in sorted(reasons.items())
    }


def date(seconds):
    """
    Return a date and time in UTC, or an empty text for a time that never comes.

    :param seconds: seconds since the epoch, or None
    """
    if seconds is None or seconds == float("inf"):
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def add_process(opts, process_manager):
    """
    Let the master start the job handler, if it is turned on.

    :param dict opts: the master's options
    :param ProcessManager process_manager: starts it, and starts it again when it ends
    """
    # pylint: disable=import-outside-toplevel
    if not enabled(opts):
        import salt.job_handler.queue
        import salt.job_handler.store

        salt.job_handler.store.end_all(
            opts, salt.job_handler.queue.SENTENCES[salt.job_handler.queue.OFF]
        )
        return
    import uuid

    from salt.job_handler.process import JobHandler

    log.info("Creating master job handler process")
    # with the same name for as long as this master runs, however often the process
    # manager starts the job handler again
    master = uuid.uuid4().hex
    process_manager.add_process(JobHandler, args=(opts, master), name="JobHandler")
