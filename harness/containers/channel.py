"""A connection to a program in a container, over its standard input and output: `Channel`.

Messages are those of every dialogue, see `evil_minions.line`. The line needs no port and no folder in
common, only the engine, wherever that is. And it is a lifeline: the program ends when the line does, so a container
goes when the harness goes, whatever becomes of everything else.

A container's clock may be that of another machine, so it is asked for the time several times. It read its clock at some
time between question and answer, so half of the round trip is the largest error; the quickest round trip is the best
one. A difference that is smaller than its error counts as none: containers on one machine have one clock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from evil_minions import decode, encode, printed
from harness.errors import RunError
from harness.samples import ClockSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from docker import DockerClient
    from docker.models.containers import Container

ANSWER_S = 60.0
STDOUT = 1
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
        """Return the row of the container `name`; `later` was measured at the end of the run."""
        drift = later.seconds - self.seconds
        if abs(drift) <= self.error + later.error:
            drift = 0.0
        return ClockSample(name, self.correction, self.error, drift)


def measure(ask: Callable[[], float], rounds: int = ROUNDS, clock: Callable[[], float] = time.time) -> Offset:
    """Return how far another clock is from ours; `ask` returns its time in seconds since the epoch."""
    trips = ((clock(), ask(), clock()) for _ in range(rounds))
    asked, other, answered = min(trips, key=lambda trip: trip[2] - trip[0])
    return Offset(other - (asked + answered) / 2, (answered - asked) / 2)


class Channel:
    """The line to one container, which `open` made and started."""

    def __init__(self, client: DockerClient, name: str, container: Container) -> None:
        """Attach to a container that is created and not started yet, then start it."""
        self.name = name
        self.container = container
        self._stream: Any = client.api.attach_socket(
            str(container.id), params={"stdin": 1, "stdout": 1, "stderr": 0, "stream": 1}
        )
        self._socket = getattr(self._stream, "_sock", self._stream)
        # the SDK's timeout is for requests, and a line may be silent for long
        self._socket.settimeout(None)
        self._lock = threading.Lock()
        # how many requests were sent
        self.asked = 0
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._ended = False
        container.start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, do: str, values: Mapping[str, Any] | None = None, seconds: float = ANSWER_S) -> dict[str, Any]:
        """Send a request and return the answer; others may be under way.

        Raises:
            RunError: if the program answers with an error, not within `seconds`, or has ended.
        """
        mailbox: SimpleQueue[dict[str, Any]] = SimpleQueue()
        with self._lock:
            self.asked += 1
            number = self.asked
            self._waiting[number] = mailbox
            try:
                self._socket.sendall(encode({"number": number, "do": do, **(values or {})}))
            except OSError as error:
                raise RunError(f"The container {self.name} can't be reached: {error}.{self._last()}") from error
            if self._ended:
                mailbox.put({})
        try:
            answer = mailbox.get(timeout=seconds)
        except Empty as error:
            silent = f"did not answer `{do}` within {seconds:g} s.{self._last()}"
            raise RunError(f"The container {self.name} {silent}") from error
        finally:
            self._waiting.pop(number, None)
        if not answer:
            raise RunError(f"The container {self.name} has ended.{self._last()}")
        if "error" in answer:
            raise RunError(f"{self.name}: {answer['error']}")
        return answer

    def _last(self) -> str:
        """Return what the program printed last, as far as its container is still there."""
        from docker.errors import APIError  # noqa: PLC0415 - slow to import, and most beds need none

        with contextlib.suppress(APIError, OSError):
            return printed(self.container.logs(stdout=False, tail=5))
        return ""

    def close(self) -> None:
        """Hang up: the program in the container ends."""
        self._stream.close()
        self._socket.close()

    def _read(self) -> None:
        """Hand each answer to the thread that waits for it."""
        for line in self._lines():
            answer = decode(line)
            mailbox = self._waiting.get(answer["number"])
            if mailbox:
                mailbox.put(answer)
        with self._lock:
            self._ended = True
            for mailbox in self._waiting.values():
                mailbox.put({})

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the program's output, out of the frames in which the engine sends it."""
        from docker.utils.socket import SocketError, frames_iter  # noqa: PLC0415 - slow to import, and most beds need none

        received = bytearray()
        try:
            for kind, data in frames_iter(self._stream, tty=False):  # type: ignore[no-untyped-call]  # the SDK has no type here
                if kind == STDOUT and data:
                    received += data
                    if b"\n" in data:
                        *lines, received = received.split(b"\n")
                        yield from map(bytes, lines)
        except (OSError, ValueError, SocketError):
            return
