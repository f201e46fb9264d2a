"""
What the job handler says of the jobs that wait in its queue, on a master that has one.

It is asked by its runner, as people ask it, so that nothing of it is needed here.
"""

import functools

from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL

import salt.loader
from salt.exceptions import CommandExecutionError


def source(context):
    return Queue(context.opts)


class Queue:
    """What the job handler says; None if nobody answers.

    :ivar bool enabled: whether there is a job handler
    :ivar Missing nothing: what stands for an answer that is not there
    """

    def __init__(self, opts):
        self.opts = opts
        self.enabled = bool(opts.get("rate_limiting")) and (
            "job_handler.list" in self._runner
        )
        self.nothing = MISSING_NODATA if self.enabled else MISSING_UNAVAIL
        self._silent = False

    @functools.cached_property
    def _runner(self):
        return salt.loader.runner(self.opts, whitelist=["job_handler"])

    def ask(self, function, *args, **kwargs):
        """Return what a function of the job handler's runner returns, or None."""
        if self._silent or not self.enabled:
            return None
        try:
            return self._runner[f"job_handler.{function}"](*args, **kwargs)
        except CommandExecutionError as exc:
            # what is refused is about one request; waiting for nobody is enough once
            while exc is not None and not isinstance(exc, OSError):
                exc = exc.__cause__
            self._silent = exc is not None
            return None

    @functools.cached_property
    def waiting(self):
        """For each job that waits, what is known of it."""
        found = self.ask("list", limit=None)
        if found is None:
            return None
        ret = {}
        for line in found:
            # a batch waits with several publications under one job id
            first = ret.setdefault(line["jid"], dict(line, waiting=0, sent=0))
            first["waiting"] += line["waiting"]
            first["sent"] += line["sent"]
        return ret
