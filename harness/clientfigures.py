"""The figures of a result that clients see: requests, waits, log-ins."""

from __future__ import annotations

from harness.figure import Figure, percentiles

_DUE = "from the moment a request was due by the schedule, not from when it could be sent, to its last byte"


_LATENCY = (
    f"{_DUE}; from the raw samples of all requests, failed ones included, which may be quick or slow to fail; of an "
    "asynchronous request to its job id"
)


_COMPLETE = f"{_DUE}; of the requests with a complete answer alone; of an asynchronous request to its job id"


_ACKNOWLEDGEMENT = (
    "from a minion's first attempt to send a return until the master acknowledged it; given-up returns are not in it, "
    "those of find_job are"
)


_LOGIN = (
    "from the request for a token to its arrival, or to the error; it is in the latency of a request that waits for it"
)

OF_CLIENTS = (
    Figure(
        "client_requests",
        "Client requests",
        "",
        "",
        "requests that were sent, each without waiting for earlier ones; how late they were is a figure of its own",
    ),
    Figure(
        "client_errors",
        "Client errors",
        "",
        "lower",
        "requests without a complete answer: an error, a timeout, or an answer that lacks some of the targeted "
        "minions; of an asynchronous request the answer is what the job cache holds of its job at the end",
    ),
    Figure(
        "longest_wait_s",
        "Longest wait",
        "s",
        "lower",
        "from the moment a request was due by the schedule to its answer, complete or not; of an asynchronous request, "
        "to the last of its job's returns that the master acknowledged",
    ),
    *percentiles("client_latency_s", "Client latency", _LATENCY),
    *percentiles("complete_latency_s", "Complete latency", _COMPLETE),
    Figure(
        "sent_late_s.max",
        "Sent late, at most",
        "s",
        "lower",
        "from the moment a request was due to when it was sent, of the latest: a busy machine holds the clients up; it "
        "is part of the latency",
    ),
    Figure(
        "sent_late_s.p95",
        "Sent late, 95 %",
        "s",
        "lower",
        "as the latest; given from 20 requests on",
    ),
    Figure(
        "sent_late_s.late",
        "Requests sent late",
        "",
        "lower",
        "requests that were sent more than 0.1 s after they were due",
    ),
    Figure(
        "logins",
        "Log-ins",
        "",
        "",
        "log-ins at salt-api in the load phase: of the scenario's users, and of the bed's own user when its token is "
        "over, as its first log-in is before the load",
    ),
    Figure(
        "login_errors",
        "Failed log-ins",
        "",
        "lower",
        "log-ins that were refused or not answered; the request behind one is a client error",
    ),
    *percentiles("login_s", "Log-in", _LOGIN),
    *percentiles("acknowledgement_s", "Acknowledgement", _ACKNOWLEDGEMENT),
)
