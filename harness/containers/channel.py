"""A connection to a program in a container, over its standard input and output: `Channel`.

Requests and answers are JSON, a line each, as on the fleet's control socket. The line needs no port and no folder in
common, only the engine, wherever that is. And it is a lifeline: the program ends when the line does, so a container
goes when the harness goes, whatever becomes of everything else.
"""

from __future__ import annotations

import json
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from harness.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from docker import DockerClient
    from docker.models.containers import Container

ANSWER_S = 60.0
STDOUT = 1


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
        self._number = 0
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._ended = False
        container.start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, do: str, values: Mapping[str, Any] | None = None, seconds: float = ANSWER_S) -> dict[str, Any]:
        """Send a request and return the answer; others may be under way.

        Raises RunError if the program answers with an error, not within `seconds`, or has ended.
        """
        mailbox: SimpleQueue[dict[str, Any]] = SimpleQueue()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = mailbox
            try:
                self._socket.sendall(json.dumps({"number": number, "do": do, **(values or {})}).encode() + b"\n")
            except OSError as error:
                raise RunError(f"The container {self.name} can't be reached: {error}.") from error
            if self._ended:
                mailbox.put({"error": f"the container {self.name} has ended"})
        try:
            answer = mailbox.get(timeout=seconds)
        except Empty as error:
            raise RunError(f"The container {self.name} did not answer `{do}` within {seconds:g} s.") from error
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise RunError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Hang up: the program in the container ends."""
        self._stream.close()
        self._socket.close()

    def _read(self) -> None:
        """Hand each answer to the thread that waits for it."""
        for line in self._lines():
            answer = json.loads(line)
            mailbox = self._waiting.get(answer["number"])
            if mailbox:
                mailbox.put(answer)
        with self._lock:
            self._ended = True
            for mailbox in self._waiting.values():
                mailbox.put({"error": f"the container {self.name} has ended"})

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the program's output, out of the frames in which the engine sends it."""
        from docker.utils.socket import SocketError, frames_iter  # noqa: PLC0415 - slow to import, and most beds need none

        received = b""
        try:
            for kind, data in frames_iter(self._stream, tty=False):  # type: ignore[no-untyped-call]  # the SDK has no type here
                if kind == STDOUT and data:
                    *lines, received = (received + data).split(b"\n")
                    yield from lines
        except (OSError, ValueError, SocketError):
            return
