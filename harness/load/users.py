"""The locustfile: clients of a Salt master, arriving by a schedule.

`python -m harness load` starts it as `locust --headless -f users.py` within the bed. Salt's own users are API clients
and people at a command line, so these are the two kinds. One locust user stands for one block of clients in the
scenario; it starts a greenlet for each request at the time when it is due and never waits for an answer before the
next: a closed loop would slow down with the master and hide its overload.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import gevent
from gevent.pool import Group
from locust import User, events, task

from harness.errors import HarnessError
from harness.load import plan as plans
from harness.load.calls import ApiCaller, CliCaller
from harness.samples import ClientSample, SampleFile
from harness.scenarios import schedule

if TYPE_CHECKING:
    from locust.env import Environment

    from harness.load.calls import Caller
    from harness.scenarios.scenario import Clients
    from harness.scenarios.schedule import Request

PLAN = plans.from_environment()
SCENARIO = PLAN.scenario
# between locust's start and the schedule's zero: every user has to be waiting by then
LEAD_S = 1.0


class Load:
    """What all users of this process share: the schedule's zero, the file of samples, the callers, users at work."""

    def __init__(self) -> None:
        """Open the file of samples."""
        self.zero = 0.0
        self.at_work = len(SCENARIO.clients)
        self.errors = 0
        self.failed = False
        self.samples = SampleFile(PLAN.samples / "requests.csv", ClientSample)
        self.callers: dict[str, Caller] = {"cli": CliCaller(PLAN.command, PLAN.command_environment)}

    def start(self) -> None:
        """Log in once for all API clients and set the schedule's zero."""
        if any(clients.kind == "api" for clients in SCENARIO.clients):
            self.callers["api"] = ApiCaller.login(PLAN.url, PLAN.user, PLAN.password, PLAN.eauth)
        self.zero = time.time() + LEAD_S
        plans.write_zero(PLAN.samples, self.zero)

    def record(self, sample: ClientSample) -> None:
        """Write a finished request."""
        self.samples.write(sample)
        self.errors += bool(sample.error)


LOAD = Load()


class ScheduledUser(User):  # type: ignore[misc]
    """Sends the requests of one block of clients when they are due."""

    abstract = True
    kind = ""
    waiting: tuple[Clients, ...] = ()

    def on_start(self) -> None:
        """Take the next block of clients of this kind."""
        self.clients, *rest = type(self).waiting
        type(self).waiting = tuple(rest)

    @task  # type: ignore[untyped-decorator]
    def arrive(self) -> None:
        """Send every request at its time, wait for the last answer, and stop; the last user stops locust."""
        at_work = Group()
        for request in () if LOAD.failed else schedule.requests_of(self.clients, SCENARIO.seed):
            gevent.sleep(max(0.0, LOAD.zero + request.due_s - time.time()))
            at_work.spawn(self._call, request)
        at_work.join()
        LOAD.at_work -= 1
        if not LOAD.at_work:
            gevent.spawn(self.environment.runner.quit)
        gevent.sleep(plans.FOREVER_S)

    def _call(self, request: Request) -> None:
        scheduled = LOAD.zero + request.due_s
        started = time.time()
        expected = PLAN.expected[self.clients.name]
        answer = LOAD.callers[self.kind].call(self.clients, expected)
        finished = time.time()
        error = answer.error or answer.gap(expected)
        LOAD.record(
            ClientSample(
                clients=self.clients.name,
                kind=self.clients.kind,
                function=self.clients.function,
                mode=self.clients.mode,
                number=request.number,
                scheduled=scheduled,
                started=started,
                finished=finished,
                jids=" ".join(answer.jids),
                expected=expected,
                answered=answer.answered,
                error=error,
            )
        )
        self.environment.events.request.fire(
            request_type=self.clients.kind,
            name=self.clients.name,
            response_time=(finished - scheduled) * 1000,
            response_length=answer.length,
            exception=RuntimeError(error) if error else None,
            context={},
        )


class ApiClients(ScheduledUser):
    """Clients of salt-api."""

    kind = "api"
    waiting = tuple(clients for clients in SCENARIO.clients if clients.kind == "api")
    fixed_count = len(waiting)
    abstract = not waiting


class CliClients(ScheduledUser):
    """People who call Salt's own `salt`, each a process."""

    kind = "cli"
    waiting = tuple(clients for clients in SCENARIO.clients if clients.kind == "cli")
    fixed_count = len(waiting)
    abstract = not waiting


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _start(**_: object) -> None:
    try:
        LOAD.start()
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        LOAD.failed = True


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def _exit_code(environment: Environment, **_: object) -> None:
    """Exit 0 if every answer was complete, 1 if not (thresholds judge that), 3 if clients could not begin."""
    LOAD.samples.close()
    environment.process_exit_code = 3 if LOAD.failed else int(LOAD.errors > 0)
