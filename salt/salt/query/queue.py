"""
What the job handler says of the jobs that wait in its queue, if it is turned on.
"""

import functools

import salt.job_handler
import salt.job_handler.ipc


class Queue:
    """
    :param dict opts: the master's options

    :ivar bool enabled: whether there is a job handler
    """

    def __init__(self, opts):
        self.opts = opts
        self.enabled = salt.job_handler.enabled(opts)
        self._silent = False

    def _ask(self, **request):
        if self._silent:
            return None
        try:
            return salt.job_handler.ipc.ask_sync(self.opts, request)
        except salt.job_handler.ipc.JobHandlerUnavailable as exc:
            # waiting for it once is enough; what it refuses is about one request
            self._silent = isinstance(exc.__cause__, OSError)
            return None

    @functools.cached_property
    def waiting(self):
        """
        For each job that waits, what is known of it; None if nobody answers.
        """
        found = self._ask(cmd="list", limit=None) if self.enabled else None
        if found is None:
            return None
        ret = {}
        for line in found["jobs"]:
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
        return self._ask(cmd="status") if self.enabled else None

    def running_on(self, jid):
        """
        Return the minions that run a job, or None if nobody answers.
        """
        found = self._ask(cmd="show", jid=jid) if self.enabled else None
        return None if found is None else found["running_on"]
