"""
What the job handler says of the jobs that wait in its queue, on a master that has one.

It is asked by its runner, as people ask it, so that nothing of it is needed here.
"""

import functools

import salt.loader
from salt.exceptions import CommandExecutionError


def source(context):
    """
    Return what the job handler says.
    """
    return Queue(context.opts)


def _is_silent(exc):
    """
    Return whether nobody has answered: what is refused is about one request.
    """
    while exc is not None and not isinstance(exc, OSError):
        exc = exc.__cause__
    return exc is not None


class Queue:
    """
    :param dict opts: the master's options

    :ivar bool enabled: whether there is a job handler
    """

    def __init__(self, opts):
        self.opts = opts
        self.enabled = bool(opts.get("rate_limiting")) and (
            "job_handler.list" in self._runner
        )
        self._silent = False

    @functools.cached_property
    def _runner(self):
        return salt.loader.runner(self.opts, whitelist=["job_handler"])

    def _ask(self, function, *args, **kwargs):
        if self._silent or not self.enabled:
            return None
        try:
            return self._runner[f"job_handler.{function}"](*args, **kwargs)
        except CommandExecutionError as exc:
            # waiting for it once is enough
            self._silent = _is_silent(exc)
            return None

    @functools.cached_property
    def waiting(self):
        """
        For each job that waits, what is known of it; None if nobody answers.
        """
        found = self._ask("list", limit=None)
        if found is None:
            return None
        ret = {}
        for line in found:
            # a batch waits with several publications under one job id
            first = ret.setdefault(line["jid"], dict(line, waiting=0, sent=0))
            first["waiting"] += line["waiting"]
            first["sent"] += line["sent"]
        return ret

    @functools.cached_property
    def status(self):
        """
        The figures of the job handler; None if nobody answers.
        """
        return self._ask("figures")

    def running_on(self, jid):
        """
        Return the minions that run a job, or None if nobody answers.
        """
        found = self._ask("show", jid)
        return None if found is None else found["running_on"]
