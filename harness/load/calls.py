"""Calls to a Salt master, as its users make them: over salt-api, and with Salt's own `salt` command.

An answer counts as complete only if every targeted minion is in it and succeeded. Salt answers HTTP 200 to a job that
half of the fleet never returned, so the status alone would report a collapsed master as a healthy one.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Protocol

import requests

from harness.load.answer import Answer
from harness.load.asking import arguments, lowstate
from harness.load.reading import read_api, read_api_batch, read_runner, read_salt, read_salt_run
from harness.load.sessions import LoginError
from harness.scenarios.clients import RUNNERS, SALT_RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from harness.load.sessions import Sessions
    from harness.scenarios.clients import Clients
    from harness.scenarios.expected import Expected

# why salt-api refuses with 401 although the user has logged in: the permissions of another user would be needed
_DENIED = re.compile(r"Authorization error|occurred for user")


class Caller(Protocol):
    """Makes calls of some kinds."""

    def call(self, clients: Clients, number: int, expected: Expected) -> Answer:
        """Make the call of this number of `clients`; failures are in the answer."""


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
