"""The locustfile: clients of a Salt master, arriving by a schedule.

`harness.load.clients` starts it as `locust --headless -f users.py`, as one process or as a master with workers. Salt's
own users are API clients and people at a command line, so these are the two kinds. A greenlet for each block of
clients starts one for each request at the time when it is due, and never waits for an answer before the next: a closed
loop would slow down with the master and hide its overload. Of several workers each sends its part of the same
schedule, told by the requests' numbers, so that every request is sent once whatever the number of workers.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import gevent
from gevent.pool import Group
from locust import User, events, runners, task
from locust.runners import MasterRunner, WorkerRunner

from harness.errors import HarnessError
from harness.load import plan as plans
from harness.load.calls import ApiCaller, CliCaller
from harness.processes import pressure
from harness.samples import ClientSample, SampleFile
from harness.scenarios import schedule

if TYPE_CHECKING:
    from locust.env import Environment
    from locust.rpc import Message

    from harness.load.calls import Caller
    from harness.scenarios.clients import Clients
    from harness.scenarios.schedule import Request

PLAN = plans.from_environment()
SCENARIO = PLAN.scenario
# between the login and the schedule's zero, on a quiet machine: every worker has to be waiting by then
LEAD_S = 1.0
# locust gives up a worker that says nothing for three seconds, which a busy machine is enough for; one that has ended
# is noticed by whoever started it
runners.HEARTBEAT_LIVENESS = 300
BEGIN, DONE = "saltbed_begin", "saltbed_done"


class Load:
    """What the clients of this process share: the schedule's zero, the callers, the file of samples, the failures."""

    def __init__(self, environment: Environment) -> None:
        """Open the file of samples, unless this process only directs others."""
        self.environment = environment
        self.errors = 0
        self.failed = False
        self.workers_done = 0
        self.directs = isinstance(environment.runner, MasterRunner)
        self.samples = None if self.directs else SampleFile(PLAN.requests_file, ClientSample)
        self.callers: dict[str, Caller] = {"cli": CliCaller(PLAN.command, PLAN.command_environment)}

    def login(self) -> str:
        """Return the token of one login for all API clients, "" if there are none."""
        if not any(clients.kind == "api" for clients in SCENARIO.clients):
            return ""
        return ApiCaller.token(PLAN.url, PLAN.user, PLAN.password, PLAN.eauth)

    def begin(self) -> None:
        """Log in, set the schedule's zero, and start the clients here or in the workers."""
        try:
            token = self.login()
        except HarnessError as error:
            sys.stderr.write(f"{error}\n")
            self.failed = True
            gevent.spawn(self.environment.runner.quit)
            return
        zero = time.time() + pressure.patient(LEAD_S)
        plans.write_zero(PLAN.samples, zero)
        if self.directs:
            self.environment.runner.send_message(BEGIN, {"zero": zero, "token": token})
        else:
            gevent.spawn(self.send, zero, token)

    def send(self, zero: float, token: str) -> None:
        """Send this process's part of the schedule, wait for the last answer, and say so."""
        self.callers["api"] = ApiCaller(PLAN.url, token)
        blocks = Group()
        for clients in SCENARIO.clients:
            blocks.spawn(self.arrive, clients, zero)
        blocks.join()
        runner = self.environment.runner
        if isinstance(runner, WorkerRunner):
            # locust's own last report may come after its master has gone, so it goes along
            report: dict[str, object] = {}
            self.environment.events.report_to_master.fire(client_id=runner.client_id, data=report)
            runner.send_message(DONE, {"errors": self.errors, "report": report})
        else:
            runner.quit()

    def arrive(self, clients: Clients, zero: float) -> None:
        """Send every request of a block at its time, and wait for the last answer."""
        at_work = Group()
        for request in schedule.requests_of(clients, SCENARIO.seed):
            if request.number % PLAN.workers == PLAN.worker:
                gevent.sleep(max(0.0, zero + request.due_s - time.time()))
                at_work.spawn(self.call, clients, request, zero)
        at_work.join()

    def call(self, clients: Clients, request: Request, zero: float) -> None:
        """Make one request and write what became of it."""
        scheduled = zero + request.due_s
        started = time.time()
        expected = PLAN.expected[clients.name]
        answer = self.callers[clients.kind].call(clients, expected)
        finished = time.time()
        error = answer.error or answer.gap(expected)
        if self.samples:
            self.samples.write(
                ClientSample(
                    clients=clients.name,
                    kind=clients.kind,
                    function=clients.function,
                    mode=clients.mode,
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
        self.errors += bool(error)
        self.environment.events.request.fire(
            request_type=clients.kind,
            name=clients.name,
            response_time=(finished - scheduled) * 1000,
            response_length=answer.length,
            exception=RuntimeError(error) if error else None,
            context={},
        )

    def worker_done(self, worker: str, errors: int, report: dict[str, object]) -> None:
        """Note that a worker has all of its answers, and its statistics; the last one ends the load."""
        self.environment.events.worker_report.fire(client_id=worker, data=report)
        self.errors += errors
        self.workers_done += 1
        if self.workers_done == PLAN.workers:
            gevent.spawn(self.environment.runner.quit)


class Idle(User):  # type: ignore[misc]
    """Locust counts users; the clients are greenlets of their own, so its one user waits."""

    @task  # type: ignore[untyped-decorator]
    def wait(self) -> None:
        """Wait to be stopped."""
        gevent.sleep(plans.FOREVER_S)


@events.init.add_listener  # type: ignore[untyped-decorator]
def _init(environment: Environment, **_: object) -> None:
    load = Load(environment)
    environment.saltbed = load

    def on_begin(msg: Message, **_: object) -> None:
        gevent.spawn(load.send, msg.data["zero"], msg.data["token"])

    def on_done(msg: Message, **_: object) -> None:
        load.worker_done(msg.node_id, msg.data["errors"], msg.data["report"])

    if isinstance(environment.runner, WorkerRunner):
        environment.runner.register_message(BEGIN, on_begin)
    elif load.directs:
        environment.runner.register_message(DONE, on_done)


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _start(environment: Environment, **_: object) -> None:
    if not isinstance(environment.runner, WorkerRunner):
        environment.saltbed.begin()


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def _exit_code(environment: Environment, **_: object) -> None:
    """Exit 0 if every answer was complete, 1 if not (thresholds judge that), 3 if clients could not begin.

    What a worker's answers were, its master says.
    """
    load = environment.saltbed
    if load.samples:
        load.samples.close()
    errors = 0 if isinstance(environment.runner, WorkerRunner) else load.errors
    environment.process_exit_code = 3 if load.failed else int(errors > 0)
