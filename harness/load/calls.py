"""Calls to a Salt master, as its users make them: over salt-api, and with Salt's own `salt` command.

An answer counts as complete only if every targeted minion is in it and succeeded. Salt answers HTTP 200 to a job that
half of the fleet never returned, so the status alone would report a collapsed master as a healthy one.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import requests

from harness.errors import HarnessError
from harness.processes.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.scenarios.clients import Clients

LOGIN_S = 60.0
# characters of an error that are kept
LONGEST = 200
_NO_RETURN = "Minion did not return"
_JID = re.compile(r"(?:jid|job ID): (\d{20})")
# options of `salt` for the target types; a glob is what it takes without one
_TARGET_OPTIONS = {
    "list": "-L", "pcre": "-E", "grain": "-G", "grain_pcre": "-P", "pillar": "-I", "pillar_pcre": "-J",
    "compound": "-C", "nodegroup": "-N", "ipcidr": "-S",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What came back: how many minions answered, the jobs' ids, the size in bytes, and what went wrong, if anything."""

    answered: int = 0
    jids: tuple[str, ...] = ()
    length: int = 0
    error: str = ""

    def gap(self, expected: int) -> str:
        """Return what the answer lacks of `expected` minions, "" if nothing: a fleet that grew answers with more."""
        if self.answered >= expected:
            return ""
        return f"{self.answered} of {expected} minions answered"


class Caller(Protocol):
    """Makes calls of one kind."""

    def call(self, clients: Clients, expected: int) -> Answer:
        """Make one call of `clients`, whose target holds `expected` minions; failures are in the answer."""


class ApiCaller:
    """Calls salt-api (rest_cherrypy) with a token; one login serves all, as in a service that uses Salt.

    Each call has a connection of its own: independent clients share none.
    """

    def __init__(self, url: str, token: str) -> None:
        """Use salt-api at `url` with the token of a login."""
        self._url = url
        self._headers = {"X-Auth-Token": token, "Accept": "application/json"}

    @staticmethod
    def token(url: str, user: str, password: str, eauth: str) -> str:
        """Return the token of a fresh login. Raises HarnessError if salt-api refuses or doesn't answer."""
        credentials = {"username": user, "password": password, "eauth": eauth}
        deadline = Deadline(LOGIN_S)
        while True:
            try:
                response = requests.post(f"{url.rstrip('/')}/login", json=credentials, timeout=LOGIN_S)
                response.raise_for_status()
                return str(response.json()["return"][0]["token"])
            except (requests.RequestException, LookupError, ValueError) as error:
                if isinstance(error, requests.Timeout) and not deadline.passed():
                    continue
                raise HarnessError(f"The clients could not log in to salt-api at {url}: {error}.") from error

    def call(self, clients: Clients, expected: int) -> Answer:
        """Post one lowstate and count the minions in the answer."""
        del expected
        try:
            response = requests.post(
                self._url, json=[lowstate(clients)], headers=self._headers, timeout=clients.give_up_s
            )
            length = len(response.content)
            if response.status_code != requests.codes.ok:
                return Answer(length=length, error=f"HTTP {response.status_code} {response.reason}")
            return read_api(response.json(), length)
        except requests.Timeout:
            return Answer(error=f"no answer within {clients.give_up_s:g} s")
        except (requests.RequestException, ValueError) as error:
            return Answer(error=f"{type(error).__name__}: {error}")


class CliCaller:
    """Runs Salt's own `salt`, each call a process."""

    def __init__(self, command: Iterable[str], environment: dict[str, str]) -> None:
        """Start `command` with `environment`; both come from the bed."""
        self._command = tuple(command)
        self._environment = environment

    def call(self, clients: Clients, expected: int) -> Answer:
        """Run one command and count the minions in its output."""
        argv = [*self._command, *arguments(clients)]
        try:
            done = subprocess.run(
                argv, env=self._environment, capture_output=True, text=True, timeout=clients.give_up_s, check=False
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"no answer within {clients.give_up_s:g} s")
        except OSError as error:
            return Answer(error=f"{argv[0]} could not be started: {error}")
        answer = read_cli(done.stdout, expected if clients.mode == "async" else None)
        # with some answers there the shortfall says most; without any, Salt's last words do, even with exit code 0
        if expected and not answer.answered:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip() and line[0] != "{"]
            problem = f"exit code {done.returncode}: {lines[-1][:LONGEST] if lines else 'no minion answered'}"
            return Answer(0, answer.jids, answer.length, problem)
        if done.returncode and not answer.gap(expected):
            return Answer(answer.answered, answer.jids, answer.length, f"exit code {done.returncode}")
        return answer


def lowstate(clients: Clients) -> dict[str, object]:
    """Return the request that salt-api gets for a call of `clients`."""
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
    if clients.mode == "sync":
        # adds the job's id to each minion's answer; without it nobody could tell which job a slow answer belongs to
        low["full_return"] = True
    return low


def arguments(clients: Clients) -> list[str]:
    """Return the arguments of `salt` for a call of `clients`, so that it prints what `read_cli` reads."""
    options = ["--async"] if clients.mode == "async" else ["--out=json", "--out-indent=-1", "--show-jid"]
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


def read_api(body: object, length: int) -> Answer:
    """Return the answer in the decoded JSON of salt-api, for `local` with full returns and for `local_async`."""
    try:
        returned = body["return"][0]  # type: ignore[index]
        if "jid" in returned and "minions" in returned:
            return Answer(len(returned["minions"]), (str(returned["jid"]),), length)
        full = [value for value in returned.values() if isinstance(value, dict) and "jid" in value]
        jids = {str(value["jid"]) for value in full}
    except (LookupError, TypeError, AttributeError):
        return Answer(length=length, error=f"salt-api answered something else: {str(body)[:100]}")
    failed = sum(bool(value.get("retcode")) for value in full)
    error = f"{failed} of {len(full)} minions that answered failed" if failed else ""
    return Answer(len(full) - failed, tuple(sorted(jids)), length, error)


def read_cli(output: str, accepted: int | None = None) -> Answer:
    """Return the answer in the output of `salt`; `accepted` is the answer's size if a job id alone is complete."""
    answered = 0
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                values = json.loads(line)
            except ValueError:
                continue
            answered += sum(not str(value).startswith(_NO_RETURN) for value in values.values())
    jids = tuple(dict.fromkeys(_JID.findall(output)))
    if accepted is not None and jids:
        answered = accepted
    return Answer(answered, jids, len(output))
