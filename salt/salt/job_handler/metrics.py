"""
The metrics of the job handler. Nothing is labelled by minion, job id or user.
"""

import salt.job_handler.figures
import salt.utils.metrics


class Metrics:
    """
    :param QueueManager manager: whose figures they are
    :param callable clock: returns seconds since the epoch
    """

    def __init__(self, manager, clock):
        self.manager = manager
        self.clock = clock
        self._results = None
        self._waits = None

    def register(self, opts):
        """
        Set the instruments up.

        :param dict opts: the master's options
        """
        _listen(opts)
        self._results = salt.utils.metrics.counter(
            "salt.job_handler.jobs", description="Jobs that left the queue, by result."
        )
        self._waits = salt.utils.metrics.histogram(
            "salt.job_handler.wait",
            description="Time from a job's acceptance to its last wave.",
            unit="ms",
        )
        for name, key, description in (
            ("depth", "queued", "Jobs that wait."),
            ("oldest", "oldest", "Seconds that the oldest job has waited."),
        ):
            self._gauge(name, key, description, self._manager_stats)
        for name, key, description in (
            ("used", "used", "Points that are charged to the master."),
            ("limit", "limit", "The master's capacity in points."),
            ("full_minions", "full_minions", "Minions at their own limit."),
        ):
            self._gauge(name, key, description, self._criteria_stats)

    def _manager_stats(self):
        return salt.job_handler.figures.of(self.manager, self.clock())

    def _criteria_stats(self):
        return self.manager.criteria.stats(self.clock())

    @staticmethod
    def _gauge(name, key, description, stats):
        def observe(options):
            # pylint: disable=import-outside-toplevel
            from opentelemetry.metrics import Observation

            value = stats().get(key)
            return [] if value is None else [Observation(value)]

        salt.utils.metrics.observable_gauge(
            f"salt.job_handler.{name}", observe, description=description
        )

    def dispatched(self, action, now):
        """
        Count a wave.
        """
        if action.last:
            self._results.add(1, attributes={"result": "dispatched"})
            self._waits.record((now - action.job.queued) * 1000)

    def discarded(self, action, now):
        """
        Count a job that won't be published.
        """
        self._results.add(1, attributes={"result": action.reason})
        self._waits.record((now - action.job.queued) * 1000)


def _listen(opts):
    """
    Open a listener for Prometheus of its own. That of the master is of another process,
    which has the port.
    """
    section = opts.get("metrics") or {}
    if (section.get("exporter") or "").lower() != "prometheus":
        return
    listener = section.get("prometheus") or {}
    port = listener.get("job_handler_port", int(listener.get("port", 9464)) + 1)
    section = {**section, "prometheus": {**listener, "port": port}}
    salt.utils.metrics.configure({**opts, "metrics": section, "__role": "master"})
