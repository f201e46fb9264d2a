"""The log-ins of clients at salt-api: users, their tokens, and the processes of salt-api that know these.

A token is a session in the memory of one process of salt-api, so whoever has logged in stays with that process, as a
balancer in front of several sees to. Users of a group take turns by the numbers of the requests; so do the processes.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import requests

from harness.processes.deadline import Deadline
from harness.samples import LoginSample
from harness.scenarios.clients import REQUEST, START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.scenarios.clients import Clients, Group

LOGIN_S = 60.0
# why a user logs in a second time: the token's time is over, or the process that knew it
EXPIRED = "expired"


class LoginError(requests.RequestException):
    """A log-in failed; the text says how."""


@dataclass(frozen=True)
class Session:
    """One log-in: `token` of `user` at the process of salt-api at `url`."""

    user: str
    url: str
    token: str


class Sessions:
    """The log-ins of one process of clients; greenlets and threads may share it.

    own: the bed's own user, who sends what no other does
    note: takes a sample of each log-in of the load
    """

    def __init__(
        self,
        urls: Sequence[str],
        own: str,
        password: str,
        eauth: str,
        groups: Mapping[str, Group],
        note: Callable[[LoginSample], None] = lambda _: None,
    ) -> None:
        """Log nobody in yet; all users have one password."""
        self._urls = tuple(urls)
        self._own = own
        self._credentials = {"password": password, "eauth": eauth}
        self._groups = groups
        self._note = note
        self._sessions: dict[tuple[str, str], Session] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._failures: dict[tuple[str, str], LoginError] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Log the bed's own user in at every process.

        Raises:
            LoginError: if one refuses or does not answer.
        """
        for url in self._urls:
            self._keep(self._patient_login(url))

    def _patient_login(self, url: str) -> Session:
        """Log the bed's own user in, however busy the machine is."""
        deadline = Deadline(LOGIN_S)
        while True:
            try:
                return self._login(self._own, url)
            except LoginError as error:
                if not isinstance(error.__cause__, requests.Timeout) or deadline.passed():
                    raise

    def places(self, clients: Clients, numbers: Iterable[int]) -> list[tuple[str, str]]:
        """Return user and address of those who log in when the load begins, to send requests of these numbers."""
        group = self._groups.get(clients.user)
        if group is None or group.login != START:
            return []
        return sorted({self._place(clients, number) for number in numbers})

    def start(self, user: str, url: str) -> None:
        """Log a user in as the load begins; a failure is a sample, and the user's first request tries again."""
        try:
            self._session(user, url, START)
        except requests.RequestException:
            return

    def of(self, clients: Clients, number: int) -> Session:
        """Return the session for a request, after a log-in if there is none yet; raise LoginError if it fails."""
        user, url = self._place(clients, number)
        group = self._groups.get(clients.user)
        if group is not None and group.login == REQUEST:
            return self._noted(user, url, REQUEST)
        return self._session(user, url, START)

    def again(self, old: Session) -> Session:
        """Log in again instead of `old`, unless somebody has done so meanwhile; raise LoginError if it fails."""
        return self._session(old.user, old.url, EXPIRED, old)

    def user(self, clients: Clients, number: int) -> str:
        """Return the user who sends a request, "" for the bed's own."""
        group = self._groups.get(clients.user)
        return group.user(number) if group else ""

    def _place(self, clients: Clients, number: int) -> tuple[str, str]:
        group = self._groups.get(clients.user)
        turn = number % group.count if group else number
        return self.user(clients, number) or self._own, self._urls[turn % len(self._urls)]

    def _session(self, user: str, url: str, why: str, old: Session | None = None) -> Session:
        """Return the user's session, a new one if there is none but `old`; only one log-in is under way at a time.

        If it fails, it has failed for all who wait for it: one attempt after the other for each would never end.
        """
        key = user, url
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
            before = self._failures.get(key)
        with lock:
            found = self._sessions.get(key)
            if found and found != old:
                return found
            failed = self._failures.get(key)
            if failed is not None and failed is not before:
                raise LoginError(str(failed)) from failed
            try:
                return self._keep(self._noted(user, url, why))
            except LoginError as problem:
                self._failures[key] = problem
                raise

    def _keep(self, session: Session) -> Session:
        self._sessions[session.user, session.url] = session
        return session

    def _noted(self, user: str, url: str, why: str) -> Session:
        began, error = time.time(), ""
        try:
            return self._login(user, url)
        except LoginError as problem:
            error = str(problem)
            raise
        finally:
            self._note(LoginSample(began, user, why, time.time() - began, error))

    def _login(self, user: str, url: str) -> Session:
        try:
            response = requests.post(
                f"{url.rstrip('/')}/login", json={"username": user, **self._credentials}, timeout=LOGIN_S
            )
            response.raise_for_status()
            return Session(user, url, str(response.json()["return"][0]["token"]))
        except (requests.RequestException, LookupError, TypeError, ValueError) as error:
            raise LoginError(f"the log-in of {user} failed: {error}") from error
