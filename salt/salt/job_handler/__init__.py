"""
The Salt Job Handler: decide when a job is published, instead of publishing it
the moment it is asked for.

Off by default, see :conf_master:`rate_limiting`. The parts, each of which knows
only those above it:

- :mod:`salt.job_handler.job` -- what travels between the parts
- :mod:`salt.job_handler.ledger` -- who has been charged what
- :mod:`salt.job_criteria` -- the modules that decide
- :mod:`salt.job_handler.queue` and :mod:`salt.job_handler.manager` -- the state
  machine. It does no I/O, and the time is passed in
- :mod:`salt.job_handler.rounds` -- which charges to check with the minions
- :mod:`salt.job_handler.store` -- what survives a crash
- :mod:`salt.job_handler.ipc` -- the private socket
- :mod:`salt.job_handler.process` -- the process that owns all of these
- :mod:`salt.job_handler.gate` -- the master's side of the socket
- :mod:`salt.job_handler.client` -- the side of ``LocalClient``
"""

import logging
import uuid

log = logging.getLogger(__name__)

#: The end of the job ids of questions. In other job ids the number of a process is there.
QUESTION = "_0"


def enabled(opts):
    """
    Return whether this master limits the rate of its jobs.

    :param dict opts: the master's options
    """
    return bool(opts.get("rate_limiting"))


def is_answer(opts, jid):
    """
    Return whether what a minion returns is an answer to the job handler, which asks
    minions what they run. The job cache knows nothing of such questions.

    :param dict opts: the master's options
    :param str jid: the job id
    """
    return enabled(opts) and str(jid).endswith(QUESTION)


def add_process(opts, process_manager):
    """
    Let the master start the job handler, if it is turned on.

    :param dict opts: the master's options
    :param ProcessManager process_manager: starts it, and starts it again when it ends
    """
    if not enabled(opts):
        return
    # pylint: disable-next=import-outside-toplevel
    from salt.job_handler.process import JobHandler

    log.info("Creating master job handler process")
    # with the same name for as long as this master lives, however often the process
    # manager starts the job handler again
    master = uuid.uuid4().hex
    process_manager.add_process(JobHandler, args=(opts, master), name="JobHandler")
