"""
What the job handler says of the jobs that wait in its queue, on a master that has one.

It is asked by its runner, as people ask it, so that nothing of it is needed here; only which
functions do not wait is looked up where it looks.
"""

import functools

from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL

import salt.loader
from salt.exceptions import CommandExecutionError

try:
    from salt.job_handler import config, handover
except ImportError:
    # a Salt without the job handler
    config = handover = None


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

    def _ask(self, function, *args, **kwargs):
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
        """The figures of the job handler."""
        return self._ask("figures")

    def show(self, jid):
        """Return what is known of a job: which minions run it, which were left out, and
        what waits of it.
        """
        return self._ask("show", jid)

    def is_exempt(self, functions):
        """Return whether a job of these functions does not wait in the queue."""
        if not self.enabled or handover is None:
            return not self.enabled
        return handover.exempt(config.settings(self.opts), functions)

    def cancel(self, jid):
        """Take a job of ours out of the queue."""
        self._ask("cancel", jid)
