"""What a call asks for: the lowstate that salt-api gets, and the arguments of Salt's commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.scenarios.clients import RUNNERS, SALT_RUN
from harness.scenarios.runners import asks_minions

if TYPE_CHECKING:
    from harness.scenarios.clients import Clients


# options of `salt` for the target types; a glob is what it takes without one
_TARGET_OPTIONS = {
    "list": "-L", "pcre": "-E", "grain": "-G", "grain_pcre": "-P", "pillar": "-I", "pillar_pcre": "-J",
    "compound": "-C", "nodegroup": "-N", "ipcidr": "-S",
}  # fmt: skip


_JSON = ("--out=json", "--out-indent=-1")


def lowstate(clients: Clients) -> dict[str, object]:
    """Return the request that salt-api gets for a call of `clients`."""
    if clients.kind in RUNNERS:
        return _runner_lowstate(clients)
    low: dict[str, object] = {
        "client": "local_async" if clients.mode == "async" else "local",
        "tgt": clients.tgt,
        "tgt_type": clients.tgt_type,
        "fun": clients.function,
        "timeout": clients.timeout_s,
    }
    if clients.args:
        low["arg"] = list(clients.args)
    if clients.kwarg:
        low["kwarg"] = clients.kwarg
    if clients.batch:
        # the events of the returns: without them a minion that timed out looks like one that answered nothing
        low |= {"client": "local_batch", "batch": clients.batch, "raw": True}
        if clients.batch_wait:
            low["batch_wait"] = clients.batch_wait
    elif clients.mode == "sync":
        # adds the job's id to each minion's answer; without it nobody could tell which job a slow answer belongs to
        low["full_return"] = True
    return low


def _runner_lowstate(clients: Clients) -> dict[str, object]:
    """Return the request that salt-api's runner client gets."""
    low: dict[str, object] = {"client": "runner", "fun": clients.function}
    if clients.args:
        low["arg"] = list(clients.args)
    if kwarg := _runner_kwarg(clients):
        low["kwarg"] = kwarg
    if clients.mode == "async":
        return low | {"client": "runner_async"}
    # the runner's last event, which says whether it succeeded; salt-api waits for it as long as the client does
    return low | {"full_return": True, "timeout": clients.give_up_s}


def _runner_kwarg(clients: Clients) -> dict[str, object]:
    """Return a runner's keyword arguments: those that ping get their target and its timeout in this way."""
    if not asks_minions(clients.function):
        return dict(clients.kwarg)
    target = {"tgt": clients.tgt, "tgt_type": clients.tgt_type, "timeout": clients.timeout_s}
    return {**clients.kwarg, **target}


def arguments(clients: Clients) -> list[str]:
    """Return the arguments of `salt` or `salt-run` for a call of `clients`, so that it prints what is read here."""
    if clients.kind == SALT_RUN:
        # the job id of an asynchronous runner is told in a warning only
        options = ["--async", "--log-level=warning"] if clients.mode == "async" else [*_JSON]
        keywords = [f"{key}={json.dumps(value)}" for key, value in _runner_kwarg(clients).items()]
        return [*options, clients.function, *map(str, clients.args), *keywords]
    options = ["--async"] if clients.mode == "async" else [*_JSON, "--show-jid"]
    if clients.batch:
        options += ["--batch-size", clients.batch]
        options += ["--batch-wait", str(clients.batch_wait)] if clients.batch_wait else []
    target = [_TARGET_OPTIONS[clients.tgt_type]] if clients.tgt_type in _TARGET_OPTIONS else []
    keywords = [f"{key}={json.dumps(value)}" for key, value in clients.kwarg.items()]
    return [
        *options,
        "-t",
        str(clients.timeout_s),
        *target,
        clients.tgt,
        clients.function,
        *map(str, clients.args),
        *keywords,
    ]
