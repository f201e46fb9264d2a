"""What the bed and a worker of another host say to each other: JSON, a line each way, over one connection.

The worker begins, and both sides show that they know the key, which itself is never sent (see `proof`):

    worker: {"hello": 1, "nonce": "...", "version": "...", "host": "two"}
    bed:    {"nonce": "..."}
    worker: {"proof": "..."}
    bed:    {"proof": "..."}

The worker comes first: whoever only connects to the bed gets nothing to try keys on. The bed may answer
`{"error": "..."}` instead, or `{"wait": "..."}` in the end if this load has its workers, and hangs up. Otherwise, when
all workers are there, each gets its part of the load and starts a worker of locust:

    {"plan": {...}, "scenario": "...", "host": "10.0.0.1", "port": 20123}

From then on the worker sends `{"alive": 1}` every second, `{"name": "requests", "rows": [...]}` for what its clients
wrote, and in the end `{"ended": 0, "tail": "..."}`, which the bed answers with `{"taken": 1}`. All of this is in clear,
the password of salt-api too.

The other side is asked for the time several times. It read its clock at some time between question and answer, so half
of the round trip is the largest error; the quickest round trip is the best one. A difference that is smaller than its
error counts as none: the clocks of two containers on one machine are the same.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import SettingsError
from harness.samples.rows import ClockSample

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 9


@dataclass(frozen=True)
class Offset:
    """How many `seconds` another clock is ahead of ours, give or take `error`."""

    seconds: float
    error: float

    @property
    def correction(self) -> float:
        """Return the seconds to subtract from times of the other clock: none that could be an error of measurement."""
        return self.seconds if abs(self.seconds) > self.error else 0.0

    def sample(self, name: str, later: Offset) -> ClockSample:
        """Return the row of the machine `name`; `later` was measured at the end of the run."""
        drift = later.seconds - self.seconds
        if abs(drift) <= self.error + later.error:
            drift = 0.0
        return ClockSample(name, self.correction, self.error, drift)


def of_answers(answers: list[tuple[float, float, float]]) -> Offset:
    """Return the offset from (asked, the other's time, answered): seconds since the epoch, by ours, theirs and ours."""
    asked, other, answered = min(answers, key=lambda answer: answer[2] - answer[0])
    return Offset(other - (asked + answered) / 2, (answered - asked) / 2)


def measure(ask: Callable[[], float], rounds: int = ROUNDS, clock: Callable[[], float] = time.time) -> Offset:
    """Return how far another clock is from ours; `ask` returns its time in seconds since the epoch."""
    return of_answers([(clock(), ask(), clock()) for _ in range(rounds)])


PORT = 4700
PACKAGE = Path(__file__).resolve().parents[1]
LONGEST_HELLO = 4096
"""The longest message that is taken of somebody who has not shown the key."""
BED, WORKER = "bed", "worker"


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of an address such as 10.0.0.1 or 10.0.0.1:4700. Raises SettingsError for anything else."""
    host, _, port = text.partition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 2**16)):
        raise SettingsError(f"'{text}' is no address: give one such as 10.0.0.1 or 10.0.0.1:{PORT}.")
    return host, int(port or PORT)


@cache
def version() -> str:
    """Return what tells one version of the bed from another: workers have to be of the same one."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        total.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:12]


def proof(key: str, role: str, nonces: tuple[str, str]) -> str:
    """Return what shows that this side, in its `role`, knows the key; `nonces` are the worker's and the bed's."""
    # as JSON no two lists of words are the same text
    return hmac.new(key.encode(), json.dumps([role, *nonces]).encode(), hashlib.sha256).hexdigest()


def shows(message: dict[str, Any], key: str, role: str, nonces: tuple[str, str]) -> bool:
    """Say whether a message has the proof of the other side."""
    given = message.get("proof")
    expected = proof(key, role, nonces).encode()
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), expected)


def nonce_of(message: dict[str, Any]) -> str:
    """Return the other side's nonce. Raises ConnectionError if the message has none."""
    nonce = message.get("nonce")
    if not isinstance(nonce, str):
        raise ConnectionError("the other end sends something else")
    return nonce
