"""
What the rest of the master may ask of the job handler about jobs. Without an answer there
is nothing to add to what the job cache knows.
"""

import logging

import salt.job_handler
import salt.job_handler.ipc
import salt.job_handler.leftovers

log = logging.getLogger(__name__)


def _ask(opts, **request):
    """
    Return the reply of the job handler, or an empty one.
    """
    if not salt.job_handler.enabled(opts):
        return {}
    try:
        return salt.job_handler.ipc.ask_sync(opts, request)
    except salt.job_handler.ipc.JobHandlerUnavailable as exc:
        log.warning("What waits in the master's queue is missing here: %s", exc)
        return {}


def queued(opts):
    """
    Return what is known of the jobs that wait, by their ids: ``Minions`` says for how
    many minions, ``Seconds`` for how long, ``Reason`` why.

    :param dict opts: the master's options
    """
    return _by_jid(_ask(opts, cmd="list").get("jobs", []))


def job(opts, jid):
    """
    Return ``Queued``, as :func:`queued` has it, if a job waits, and ``LeftOut``, the
    minions that did not get it, each with the sentence that says why, if there are any.

    :param dict opts: the master's options
    :param str jid: the job id
    """
    ret = {}
    reply = _ask(opts, cmd="show", jid=str(jid))
    left_out = reply.get("left_out")
    if not salt.job_handler.enabled(opts):
        left_out = salt.job_handler.leftovers.left_out(opts, str(jid))
    if reply.get("waiting"):
        ret["Queued"] = _by_jid(reply["waiting"])[str(jid)]
    if left_out:
        ret["LeftOut"] = {
            minion: f"Minion did not get the job. [{reason}]"
            for minion, reason in sorted(left_out.items())
        }
    return ret


def _by_jid(lines):
    ret = {}
    for line in lines:
        # a batch waits with several publications under one job id
        found = ret.setdefault(
            line["jid"],
            {"Minions": 0, "Seconds": line["waited"], "Reason": line["reason"]},
        )
        found["Minions"] += line["waiting"]
    return ret
