"""Calls to a Salt master, as its users make them: over salt-api, and with Salt's own `salt` command.

An answer counts as complete only if every targeted minion is in it and succeeded. Salt answers HTTP 200 to a job that
half of the fleet never returned, so the status alone would report a collapsed master as a healthy one.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import requests

from harness.load.reading import Answer, read_api, read_api_batch, read_runner, read_salt, read_salt_run
from harness.load.sessions import LoginError
from harness.scenarios.clients import RUNNERS, SALT_RUN, asks_minions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from harness.load.sessions import Sessions
    from harness.scenarios.clients import Clients, Expected


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


# why salt-api refuses with 401 although the user has logged in: the permissions of another user would be needed
_DENIED = re.compile(r"Authorization error|occurred for user")


class ApiCaller:
    """Calls salt-api (rest_cherrypy) with the token of whoever asks.

    Each call has a connection of its own: independent clients share none. A user whose log-in has expired logs in again
    and repeats the request.
    """

    def __init__(self, sessions: Sessions, over: Collection[str] = ()) -> None:
        """Use the log-ins of `sessions`; `over` are the ids of jobs that were answered, as others add to it."""
        self._sessions = sessions
        self._over = over

    def call(self, clients: Clients, number: int, expected: Expected) -> Answer:
        """Post one lowstate and count the minions in the answer."""
        over = tuple(self._over)
        try:
            session = self._sessions.of(clients, number)
            response = self._post(session.url, session.token, clients)
            if response.status_code == requests.codes.unauthorized and not _DENIED.search(response.text):
                session = self._sessions.again(session)
                response = self._post(session.url, session.token, clients)
            length = len(response.content)
            if response.status_code != requests.codes.ok:
                return Answer(length=length, error=f"HTTP {response.status_code} {response.reason}")
            if clients.kind in RUNNERS:
                return read_runner(response.json(), clients, expected, over, length)
            read = read_api_batch if clients.batch else read_api
            return read(response.json(), length)
        except LoginError as error:
            return Answer(error=str(error))
        except requests.Timeout:
            return Answer(error=f"no answer within {clients.give_up_s:g} s")
        except (requests.RequestException, ValueError) as error:
            return Answer(error=f"{type(error).__name__}: {error}")

    @staticmethod
    def _post(url: str, token: str, clients: Clients) -> requests.Response:
        headers = {"X-Auth-Token": token, "Accept": "application/json"}
        return requests.post(url, json=[lowstate(clients)], headers=headers, timeout=clients.give_up_s)


class CliCaller:
    """Runs Salt's own `salt` and `salt-run`, each call a process."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        environment: Mapping[str, str],
        user: Callable[[Clients, int], str] = lambda clients, _: clients.user,
        over: Collection[str] = (),
    ) -> None:
        """Start the command of a kind, by name, with `environment`; both come from the bed.

        `user` says who makes a call, "" for the bed's own user.
        """
        self._commands = {kind: tuple(command) for kind, command in commands.items()}
        self._environment = dict(environment)
        self._user = user
        self._over = over

    def call(self, clients: Clients, number: int, expected: Expected) -> Answer:
        """Run one command and count the minions in its output."""
        over = tuple(self._over)
        argv = [*self._commands[clients.kind], *arguments(clients)]
        environment = self._environment
        if user := self._user(clients, number):
            # by this variable Salt knows who became root with sudo: `publisher_acl` says what that user may do
            environment = {**environment, "SUDO_USER": user}
        try:
            done = subprocess.run(
                argv, env=environment, capture_output=True, text=True, timeout=clients.give_up_s, check=False
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"no answer within {clients.give_up_s:g} s")
        except OSError as error:
            return Answer(error=f"{argv[0]} could not be started: {error}")
        if clients.kind == SALT_RUN:
            return read_salt_run(clients, done, expected, over)
        return read_salt(clients, done, expected.minions)
