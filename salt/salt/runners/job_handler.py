"""
See what waits in the job handler's queue, and why, and act on it.

.. versionadded:: 3009.0

The job handler has to be turned on, see :conf_master:`rate_limiting`. These functions
ask its process through a socket that only root and the master's user are served at. They
work on the jobs of all users: no right covers only a user's own.
"""

import salt.exceptions
import salt.job_handler
import salt.job_handler.ipc
import salt.job_handler.orders


def __virtual__():
    # A minion that peer_run lets call a runner: the master adds "fun" and "doc" to its own
    # options. Those of salt-run have both as well, and "async"; those of Thorium "fun" and
    # "async". The master's configuration may have any of them, but does not set "__cli".
    if "fun" in __opts__ and not (
        "async" in __opts__
        and (__opts__.get("__cli") == "salt-run" or "doc" not in __opts__)
    ):
        return False, "Minions may not call this runner: use it on the master."
    return True


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
    Return in words how the job handler is: whether there is anything to do about it, how
    many jobs wait and since when, how much of the capacity is used, and what has become
    of the other jobs.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.status
    """
    return _ask("words")


def figures():
    """
    Return the same as :func:`status`, as figures for programs. Times are seconds since
    the epoch.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.figures --out=json
    """
    return _ask("status")


def list_(limit=100):
    """
    Return the jobs that wait, in their order, with the reason of each.

    limit
        Return at most so many, or all with ``None``.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.list
        salt-run job_handler.list limit=10
    """
    salt.job_handler.orders.check_limit(limit)
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
    minion = None if minion is None else str(minion)
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


def pause(seconds=3600):
    """
    Publish nothing out of the queue for a while. Exempt functions are published as ever,
    and jobs are still taken in. The pause survives a restart.

    seconds
        For so long, an hour by default, or until :func:`resume`. ``0`` has no end.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.pause
        salt-run job_handler.pause seconds=600
    """
    salt.job_handler.orders.check_pause(seconds)
    return _ask("pause", paused=True, seconds=seconds or None)["paused"]


def resume():
    """
    End a pause.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.resume
    """
    return not _ask("pause", paused=False)["paused"]


def hold(jid):
    """
    Keep a job in the queue until :func:`release`, while others pass. Its deadline stays
    as it is: a caller that waits for it gives up in time.

    jid
        The job id.

    :return: how many minions wait for it

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.hold 20261121093000000000
    """
    return _ask("order", jid=str(jid), held=True)["minions"]


def release(jid):
    """
    Let a job go that was held.

    jid
        The job id.

    :return: how many minions wait for it

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.release 20261121093000000000
    """
    return _ask("order", jid=str(jid), held=False)["minions"]


def prioritize(jid, priority=1):
    """
    Let a job go before all those of lower priority, whosever they are. Jobs have the
    priority 0.

    jid
        The job id.

    priority
        A whole number from -1000000 to 1000000; with one below 0 the job goes when no
        other waits.

    :return: how many minions wait for it

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.prioritize 20261121093000000000
        salt-run job_handler.prioritize 20261121093000000000 priority=-1
    """
    salt.job_handler.orders.check_priority(priority)
    return _ask("order", jid=str(jid), priority=priority)["minions"]


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
