"""
The figures of the job handler in words, for people who want to know whether there is
anything to do.
"""

import time

#: Above this part of a limit people are told of it.
_NEARLY = 0.9


def date(seconds):
    """
    Return a date and time in UTC, or an empty text for a time that never comes.

    :param seconds: seconds since the epoch, or None
    """
    if seconds is None or seconds == float("inf"):
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _count(number, what):
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def status(figures, now):
    """
    Return the figures of a job handler in words.

    :param dict figures: see :meth:`salt.job_handler.report.Report.status`
    :param float now: seconds since the epoch
    :return: a dictionary of sentences; ``to do`` is a list of them
    """
    return {
        "to do": _advice(figures) or ["Nothing: the queue is at work."],
        "queue": _queue(figures, now),
        "capacity": _capacity(figures["capacity"]),
        "minions": "{} silent, {} asked what they run".format(
            figures["silent_minions"], figures["checking_minions"]
        ),
        "so far": _past(figures),
        "criteria": figures["criteria"],
        "running since": date(figures["running_since"]),
    }


def _advice(figures):
    ret = []
    if figures["paused"]:
        until = date(figures["paused_until"])
        ret.append(
            "The queue is paused{}: salt-run job_handler.resume lets it go on.".format(
                f" until {until}" if until else ""
            )
        )
    if figures["failing"]:
        ret.append(
            "The criteria module fails, and fail_mode decides: see the master's log."
        )
    if figures["held"]:
        ret.append(
            "Wait a moment: the master was restarted, or could not publish, and jobs"
            " wait for minions."
        )
    settings = figures["settings"]
    if figures["queued"] > _NEARLY * figures["max_queue_size"]:
        ret.append(
            "The queue is nearly full: cancel jobs of salt-run job_handler.list, or raise"
            " max_queue_size."
        )
    if figures["queued_bytes"] > _NEARLY * settings["max_queue_bytes"]:
        ret.append(
            "The jobs that wait take nearly all they may: cancel some, or raise"
            " max_queue_bytes."
        )
    if figures["silent_minions"]:
        ret.append(
            "Silent minions get no jobs until they are heard of: see whether they run."
        )
    return ret


def _queue(figures, now):
    if not figures["queued"]:
        return f"empty, with room for {figures['max_queue_size']:,}"
    return "{} of {:,}, the oldest since {} ({:.0f} s)".format(
        _count(figures["queued"], "job"),
        figures["max_queue_size"],
        date(now - figures["oldest"]),
        figures["oldest"],
    )


def _capacity(capacity):
    limit = capacity.get("limit")
    ret = f"{capacity['used']:g} points used"
    if limit is not None:
        ret = f"{capacity['used']:g} of {limit:g} points used"
    if capacity.get("silent"):
        ret += f", and {capacity['silent']:g} by minions that do not answer"
    if capacity.get("full_minions"):
        ret += f", {_count(capacity['full_minions'], 'minion')} full"
    return ret


def _past(figures):
    return (
        "{} published in {}, {} left out; {} given up, {} cancelled, {} refused".format(
            _count(figures["dispatched"], "job"),
            _count(figures["waves"], "wave"),
            _count(figures["excluded"], "minion"),
            _count(figures["discarded"], "job"),
            figures["cancelled"],
            figures["rejected"],
        )
    )
