"""The locustfile: clients of a Salt master, arriving by a schedule.

`harness.load.clients` starts it as `locust --headless -f users.py`, as one process or as a master with workers. Salt's
own users are API clients and people at a command line, who ask minions or the master's runners. A greenlet for each
block of clients starts one for each request at the time when it is due, and never waits for an answer before the next:
a closed loop would slow down with the master and hide its overload. Of several workers each sends its part of the same
schedule, told by the requests' numbers, so that every request is sent once whatever the number of workers. Each process
logs in by itself: everybody who joins locust's master reads its messages, so no token is in one.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import gevent
from gevent.pool import Group
from locust import User, events, runners, task
from locust.runners import MasterRunner, WorkerRunner

from harness.load import plan as plans
from harness.load.calls import ApiCaller, CliCaller
from harness.load.sessions import LoginError, Sessions
from harness.processes import deadline
from harness.samples import ClientSample, LoginSample, SampleFile
from harness.scenarios.clients import API, CLI, OVER_API, RUNNER, RUNNERS, SALT_RUN, requests_of

if TYPE_CHECKING:
    from locust.env import Environment
    from locust.rpc import Message

    from harness.scenarios.clients import Clients, Request

PLAN = plans.from_environment()
SCENARIO = PLAN.scenario
# seconds between the last log-in and the start of the schedule, in which every worker gets ready, on a quiet machine
LEAD_S = 1.0
# by default locust drops a worker after three silent seconds, which happens on a busy machine; a worker that has ended
# is noticed by the process that started it
runners.HEARTBEAT_LIVENESS = 300
READY, BEGIN, DONE = "saltbed_ready", "saltbed_begin", "saltbed_done"


class Load:
    """What the clients of this process share: log-ins, callers, the files of samples, the failures."""

    def __init__(self, environment: Environment) -> None:
        """Open the file of samples, unless this process only directs others."""
        self.environment = environment
        self.errors = 0
        self.failed = False
        self.workers_ready = 0
        self.workers_done = 0
        self.directs = isinstance(environment.runner, MasterRunner)
        self.samples = None if self.directs else SampleFile(PLAN.samples / PLAN.share.file("requests"), ClientSample)
        # made with the first log-in of the load
        self.logins: SampleFile | None = None
        # ids of the jobs that were answered: a list of jobs has to have them
        self.over: set[str] = set()
        api = PLAN.api
        self.sessions = Sessions(api.urls, api.user, api.password, api.eauth, SCENARIO.users, self.note)
        over_api = ApiCaller(self.sessions, self.over)
        typed = CliCaller(PLAN.commands, PLAN.command_environment, self.sessions.user, self.over)
        self.callers: dict[str, ApiCaller | CliCaller] = {API: over_api, RUNNER: over_api, CLI: typed, SALT_RUN: typed}

    def note(self, sample: LoginSample) -> None:
        """Write what became of a user's log-in."""
        if self.logins is None:
            self.logins = SampleFile(PLAN.samples / PLAN.share.file("logins"), LoginSample)
        self.logins.write(sample)

    def login(self) -> None:
        """Log the bed's own user in if there are clients of its, and say that this process is ready."""
        problem = ""
        try:
            if any(clients.kind in OVER_API and not clients.user for clients in SCENARIO.clients):
                self.sessions.begin()
        except LoginError as error:
            problem = str(error)
        if isinstance(self.environment.runner, WorkerRunner):
            self.environment.runner.send_message(READY, {"problem": problem})
        else:
            self.ready(problem)

    def ready(self, problem: str) -> None:
        """Note that a process that sends requests has logged in; the last one starts the clients of all."""
        self.workers_ready += 1
        if problem and not self.failed:
            sys.stderr.write(f"The clients could not log in to salt-api: {problem}.\n")
            self.failed = True
            gevent.spawn(self.environment.runner.quit)
        if self.failed or self.workers_ready != PLAN.share.workers:
            return
        zero = time.time() + deadline.patient(LEAD_S)
        plans.write_zero(PLAN.samples, zero)
        if self.directs:
            self.environment.runner.send_message(BEGIN, {"zero": zero})
        else:
            gevent.spawn(self.send, zero)

    def send(self, zero: float) -> None:
        """Send this process's part of the schedule, wait for the last answer, and say so."""
        blocks = Group()
        for user, url in self.places():
            blocks.spawn(self.start, user, url, zero)
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

    def places(self) -> list[tuple[str, str]]:
        """Return user and address of those who log in as the load begins, to send this process's requests."""
        found: set[tuple[str, str]] = set()
        for clients in SCENARIO.clients:
            if clients.kind in OVER_API:
                found.update(self.sessions.places(clients, (request.number for request in mine(clients))))
        return sorted(found)

    def start(self, user: str, url: str, zero: float) -> None:
        """Log a user in at the schedule's zero."""
        gevent.sleep(max(0.0, zero - time.time()))
        self.sessions.start(user, url)

    def arrive(self, clients: Clients, zero: float) -> None:
        """Send every request of a block at its time, and wait for the last answer."""
        at_work = Group()
        for request in mine(clients):
            gevent.sleep(max(0.0, zero + request.due_s - time.time()))
            at_work.spawn(self.call, clients, request, zero)
        at_work.join()

    def call(self, clients: Clients, request: Request, zero: float) -> None:
        """Make one request and write what became of it."""
        scheduled = zero + request.due_s
        started = time.time()
        expected = PLAN.expects(clients)
        answer = self.callers[clients.kind].call(clients, request.number, expected)
        finished = time.time()
        error = answer.error or answer.gap(expected.minions)
        if clients.kind not in RUNNERS and clients.mode == "sync":
            self.over.update(answer.jids)
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
                    expected=expected.minions,
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
        if self.workers_done == PLAN.share.workers:
            gevent.spawn(self.environment.runner.quit)


def mine(clients: Clients) -> list[Request]:
    """Return the requests of a block that this process sends."""
    every = requests_of(clients, SCENARIO.seed)
    return [request for request in every if request.number % PLAN.share.workers == PLAN.share.worker]


class Idle(User):  # type: ignore[misc]  # likewise
    """Locust counts users; the clients are greenlets of their own, so its one user waits."""

    @task  # type: ignore[untyped-decorator]  # locust has no types
    def wait(self) -> None:
        """Wait to be stopped."""
        gevent.sleep(plans.FOREVER_S)


@events.init.add_listener  # type: ignore[untyped-decorator]  # locust has no types
def _init(environment: Environment, **_: object) -> None:
    load = Load(environment)
    environment.saltbed = load

    def on_begin(msg: Message, **_: object) -> None:
        gevent.spawn(load.send, msg.data["zero"])

    def on_ready(msg: Message, **_: object) -> None:
        load.ready(msg.data["problem"])

    def on_done(msg: Message, **_: object) -> None:
        load.worker_done(msg.node_id, msg.data["errors"], msg.data["report"])

    if isinstance(environment.runner, WorkerRunner):
        environment.runner.register_message(BEGIN, on_begin)
    elif load.directs:
        environment.runner.register_message(READY, on_ready)
        environment.runner.register_message(DONE, on_done)


@events.test_start.add_listener  # type: ignore[untyped-decorator]  # locust has no types
def _start(environment: Environment, **_: object) -> None:
    # a worker has to take locust's messages meanwhile
    if not environment.saltbed.directs:
        gevent.spawn(environment.saltbed.login)


@events.quitting.add_listener  # type: ignore[untyped-decorator]  # locust has no types
def _exit_code(environment: Environment, **_: object) -> None:
    """Exit 0 if every answer was complete, 1 if not (thresholds judge that), 3 if clients could not begin.

    What a worker's answers were, its master says.
    """
    load = environment.saltbed
    if load.samples:
        load.samples.close()
    if load.logins:
        load.logins.close()
    errors = 0 if isinstance(environment.runner, WorkerRunner) else load.errors
    environment.process_exit_code = 3 if load.failed else int(errors > 0)
