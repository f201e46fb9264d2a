"""
The Salt Job Handler: decide when a job is published, instead of publishing it
the moment it is asked for.

Off by default, see :conf_master:`rate_limiting`. The layers, each of which imports only
those above it, and of its own only what stands before:

1. words: :mod:`~salt.job_handler.vocabulary`, :mod:`~salt.job_handler.job` (what travels
   between the parts), :mod:`~salt.job_handler.interval` (who are neighbours)
2. the state machine, without I/O and with the time passed in:
   :mod:`~salt.job_handler.parked` (whom others pass),
   :mod:`~salt.job_handler.queue`, :mod:`~salt.job_handler.places` (how much it takes),
   :mod:`~salt.job_handler.orders` (what administrators say),
   :mod:`~salt.job_handler.judge` (asks the criteria
   module), :mod:`~salt.job_handler.endings` (how jobs leave without being published),
   :mod:`~salt.job_handler.manager`, :mod:`~salt.job_handler.rounds` (which
   charges to check). :mod:`salt.job_criteria` holds what decides, and knows nothing of
   this package
3. what touches the world, one thing each: :mod:`~salt.job_handler.folders` (whose
   criteria modules are loaded), :mod:`~salt.job_handler.config`,
   :mod:`~salt.job_handler.target`, :mod:`~salt.job_handler.caller` (whether it still
   runs), :mod:`~salt.job_handler.left_out`,
   :mod:`~salt.job_handler.salvage`, :mod:`~salt.job_handler.database`,
   :mod:`~salt.job_handler.journal` (what survives a
   crash), :mod:`~salt.job_handler.claims`, :mod:`~salt.job_handler.ipc` (the private
   socket), :mod:`~salt.job_handler.bus`, :mod:`~salt.job_handler.feed`
4. the sides of the socket that are not the job handler's:
   :mod:`~salt.job_handler.gate` (the master's workers), :mod:`~salt.job_handler.client`
   (``LocalClient``), :mod:`~salt.job_handler.leftovers` (where it is off now),
   :mod:`~salt.job_handler.inquiry` (runners)
5. the trades of the job handler: :mod:`~salt.job_handler.figures`,
   :mod:`~salt.job_handler.metrics`,
   :mod:`~salt.job_handler.words`,
   :mod:`~salt.job_handler.report`, :mod:`~salt.job_handler.followers`,
   :mod:`~salt.job_handler.waves` (what has gone out), :mod:`~salt.job_handler.dispatch`,
   :mod:`~salt.job_handler.maintenance`, :mod:`~salt.job_handler.recovery`,
   :mod:`~salt.job_handler.submissions`, :mod:`~salt.job_handler.commands`
6. :mod:`~salt.job_handler.process`, which puts them together and keeps them going
"""

import logging
import uuid

from salt.job_handler.vocabulary import QUESTION

log = logging.getLogger(__name__)


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
    # pylint: disable=import-outside-toplevel
    if not enabled(opts):
        from salt.job_handler.leftovers import settle

        settle(opts)
        return
    from salt.job_handler.process import JobHandler

    log.info("Creating master job handler process")
    # with the same name for as long as this master lives, however often the process
    # manager starts the job handler again
    master = uuid.uuid4().hex
    process_manager.add_process(JobHandler, args=(opts, master), name="JobHandler")
