"""
See what waits in the job handler's queue, and why, and act on it.

.. versionadded:: 3008.6

The job handler has to be turned on, see :conf_master:`rate_limiting`. These functions
ask its process through a socket that only the master's user may open.
"""

import salt.exceptions
import salt.job_handler
import salt.job_handler.ipc


def _ask(cmd, **arguments):
    if not salt.job_handler.enabled(__opts__):
        raise salt.exceptions.CommandExecutionError(
            "The job handler is off: set rate_limiting in the master's configuration."
        )
    try:
        return salt.job_handler.ipc.ask_sync(__opts__, {"cmd": cmd, **arguments})
    except salt.job_handler.ipc.JobHandlerUnavailable as exc:
        raise salt.exceptions.CommandExecutionError(
            f"{exc}. If the master runs, see its log."
        ) from exc


def status():
    """
    Return the figures of the job handler: how many jobs wait and for how long, what has
    become of the others, what the capacity is and how much of it is used.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.status
    """
    return _ask("status")


def list_(limit=100):
    """
    Return the jobs that wait, in their order, with the reason of each.

    limit
        Return at most so many.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.list
        salt-run job_handler.list limit=10
    """
    return _ask("list", limit=limit)["jobs"]


def show(jid):
    """
    Return what is known of a job: why it waits and for how many minions, and which
    minions it is charged to.

    jid
        The job id.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.show 20261121093000000000
    """
    return _ask("show", jid=str(jid))


def charges(minion=None):
    """
    Return which minions count for which jobs, the oldest first: the points, for how many
    seconds, and whether the minion is asked whether it still runs the job.

    minion
        The id of a minion, or all.

    :return: a list of dictionaries with ``minion``, ``jid``, ``points``, ``seconds`` and
        ``in_doubt``. What only syndics know counts as the minion ``*``

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.charges web1
    """
    return _ask("charges", minion=minion)["charges"]


def cancel(jid):
    """
    Take a job out of the queue. Minions that have got it already go on with it.
    What may not have been sent when the master was killed is not sent again.

    jid
        The job id.

    :return: how many minions won't get it

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.cancel 20261121093000000000
    """
    return _ask("cancel", jid=str(jid))["cancelled"]


def pause():
    """
    Publish nothing out of the queue until :func:`resume`. Exempt functions are
    published as ever, and jobs are still taken in. The pause survives a restart.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.pause
    """
    return _ask("pause", paused=True)["paused"]


def resume():
    """
    End a pause.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.resume
    """
    return not _ask("pause", paused=False)["paused"]


def reconcile():
    """
    Check with the minions what they run, and give back what they don't. This happens by
    itself for jobs that have been running for long.

    :return: how many charges are checked

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.reconcile
    """
    return _ask("reconcile")["charges"]


__func_alias__ = {"list_": "list"}
