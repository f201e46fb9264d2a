"""Clients at work in a container, as `harness.load.backend` has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.processes.deadline import Deadline

if TYPE_CHECKING:
    from harness.containers.channel import Channel


@dataclass
class RemoteClients:
    """The clients' container, whose clock is so many seconds `ahead`."""

    channel: Channel
    ahead: float = 0.0
    last: dict[str, Any] = field(default_factory=lambda: {"code": None, "zero": None, "answered": 0, "tail": ""})

    def code(self) -> int | None:
        """Return the exit code, None while they are at work; the other answers are of the same moment."""
        self.last = self.channel.ask("state")
        code: int | None = self.last["code"]
        return code

    def zero(self) -> float | None:
        """Return the schedule's zero."""
        zero: float | None = self.last["zero"] or self.channel.ask("state")["zero"]
        return None if zero is None else zero - self.ahead

    def answered(self) -> int:
        """Return how many requests have been answered."""
        return int(self.last["answered"])

    def patience(self, seconds: float) -> Deadline:
        """Return a deadline for what takes `seconds` on a quiet machine."""
        return Deadline(seconds)

    def late(self, what: str, deadline: Deadline) -> str:
        """Return the error text for clients that did not do `what` in time."""
        return f"The clients did not {what} after {deadline.waited()}: see the logs of their container."

    def tail(self) -> str:
        """Return the last lines that they printed."""
        return str(self.last["tail"])
