"""
See what waits in the job handler's queue, and why, and act on it.

.. versionadded:: 3009.0

The job handler has to be turned on, see :conf_master:`rate_limiting`. These functions
ask its process through a socket that only root and the master's user are served at. Root
sees and changes the jobs of all users. Other users, who need the right to call a function
here in :conf_master:`external_auth`, see and change only their own jobs.
"""

import fnmatch

import salt.exceptions
import salt.job_handler
import salt.job_handler.control


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
        return salt.job_handler.control.ask_sync(__opts__, {"cmd": cmd, **arguments})
    except salt.job_handler.control.JobHandlerUnavailable as exc:
        raise salt.exceptions.CommandExecutionError(
            f"{exc}. If the master runs, see its log."
        ) from exc


def _user():
    # the runner client sets it before each call
    return globals().get("__user__", "UNKNOWN")


def _sees_all():
    # what salt-run does itself, without eauth, needs root or the master's user anyway
    if __opts__.get("__cli") == "salt-run":
        return True
    operators = (__opts__.get("rate_limiting") or {}).get("operators") or ()
    if any(fnmatch.fnmatchcase(str(_user()), glob) for glob in operators):
        return True
    # the last two are the reactor and orchestrations, unless a user may have such a name
    accounts = (__opts__.get("external_auth") or {}).values()
    given = [str(user) for users in accounts for user in users]
    if _user() in ("root", __opts__["user"]):
        # a group may have a member with such a name
        given = ["*" if user[:1] == "^" or user[-1:] == "%" else user for user in given]
    elif _user() not in ("Reactor", "UNKNOWN"):
        return False
    return not any(fnmatch.fnmatchcase(_user(), user) for user in given)


def _first(cmd, limit):
    """Return the first jobs that a command lists, of those that the user may see."""
    if limit is not None:
        salt.job_handler.control.check_number("limit", limit)
    if _sees_all():
        return _ask(cmd, limit=limit)["jobs"]
    jobs = _ask(cmd, limit=None)["jobs"]
    return [job for job in jobs if job["user"] == _user()][:limit]


def _checked(jid):
    if _sees_all():
        return str(jid)
    # a client may choose the id of a job that another user has, and the job cache then
    # knows the last user only: it is asked about jobs that the job handler does not know
    owners = _ask("owners", jid=str(jid))["owners"]
    owners = owners or [__salt__["jobs.list_job"](jid).get("User")]
    if any(owner != _user() for owner in owners):
        raise salt.exceptions.CommandExecutionError(
            f"Job {jid} is none of yours: ask root, or look for yours with"
            " job_handler.list."
        )
    return str(jid)


def _rule(function, user, target):
    if target is not None and not _sees_all():
        # a regular expression may take very long, and a pillar tells of itself
        raise salt.exceptions.SaltInvocationError(
            "Only root, the master's user and operators pause jobs for a target."
        )
    given = {"function": function, "user": user, "target": target}
    return {key: str(value) for key, value in given.items() if value is not None}


def status():
    """
    Return how many jobs wait and for how many seconds, how much of the limit is used, and
    what has become of the other jobs. Other times are seconds since the epoch.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.status
    """
    return _ask("status")


def list_(limit=100):
    """
    Return the jobs that wait, in their order, with the reason of each: at most ``limit``,
    or all with ``None``.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.list limit=10
    """
    return _first("list", limit)


def show(jid):
    """Return why a job waits and for how many minions, and which minions run it.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.show 20261121093000000000
    """
    return _ask("show", jid=_checked(jid))


def history(limit=100):
    """
    Return the jobs that were cancelled, or discarded without having been published to all
    of their minions, the latest first, each with the reason: at most ``limit``.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.history
    """
    return _first("history", limit)


def cancel(jid):
    """
    Take a job out of the queue, and return how many minions won't get it. Minions that
    have got it already go on with it. What may not have been sent when the master was
    killed is not sent again.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.cancel 20261121093000000000
    """
    return _ask("cancel", jid=_checked(jid))["cancelled"]


def pause(seconds=3600, function=None, user=None, target=None):
    """
    Publish nothing out of the queue for a while, or no jobs of a function, of a user or
    for a target. Exempt functions are published as ever, and jobs are still taken in. A
    pause survives a restart.

    seconds
        For so long, an hour by default, or until :func:`resume`. ``0`` has no end.

    function, user
        Globs. Jobs that do not match go on.

    target
        A compound target. Jobs for none of its minions go on. It takes root, the master's
        user, or one of ``operators``.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.pause seconds=600
        salt-run job_handler.pause function='state.*' target='G@role:db'
    """
    salt.job_handler.control.check_number("seconds", seconds)
    rule = _rule(function, user, target)
    return _ask("pause", paused=True, seconds=seconds, rule=rule)["paused"]


def resume(function=None, user=None, target=None):
    """End a pause with the same arguments, or all pauses.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.resume
        salt-run job_handler.resume function='state.*' target='G@role:db'
    """
    rule = _rule(function, user, target)
    return not _ask("pause", paused=False, rule=rule)["paused"]


def hold(jid):
    """
    Keep a job in the queue until :func:`release`, while others pass, and return how many
    minions wait for it. A caller that waits for it gives up in time.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.hold 20261121093000000000
    """
    return _ask("order", jid=_checked(jid), held=True)["minions"]


def release(jid):
    """Let a job go that was held, and return how many minions wait for it.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.release 20261121093000000000
    """
    return _ask("order", jid=_checked(jid), held=False)["minions"]


def prioritize(jid, priority=1):
    """
    Let a job go before all those of lower priority, whosever they are, and return how many
    minions wait for it. Jobs have the priority 0.

    priority
        A whole number from -1000000 to 1000000; with one below 0 the job goes when no
        other waits. Above 0 it takes root, the master's user, or one of ``operators``.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.prioritize 20261121093000000000
        salt-run job_handler.prioritize 20261121093000000000 priority=-1
    """
    salt.job_handler.control.check_number("priority", priority)
    if priority > 0 and not _sees_all():
        raise salt.exceptions.SaltInvocationError(
            "Only root, the master's user and operators give a priority above 0: give 0,"
            " or less."
        )
    return _ask("order", jid=_checked(jid), priority=priority)["minions"]


def reconcile():
    """
    Ask all minions with jobs what they run, let the leases of other jobs expire, and return
    how many leases are checked. This happens by itself for jobs that take long.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.reconcile
    """
    return _ask("reconcile")["leases"]


def reload():
    """Read the section ``rate_limiting`` of the master's configuration again, without a
    restart. If anything in it is wrong, nothing changes.

    CLI Example:

    .. code-block:: bash

        salt-run job_handler.reload
    """
    errors = _ask("reload")["errors"]
    if errors:
        raise salt.exceptions.CommandExecutionError("\n".join(errors))
    return True


__func_alias__ = {"list_": "list"}
