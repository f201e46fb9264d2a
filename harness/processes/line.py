"""The dialogue with a process of ours over `evil_minions.Line`: its name and last output are in each error."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import evil_minions
from harness.processes.deadline import PATIENCE, Clock, pace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Child:
    """A process that runs a module of ours, whose first argument is the descriptor of its end of the line."""

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], error: type[Exception], remedy: str, **more: Any
    ) -> None:
        """Start the process.

        Args:
            name: of the process, at the beginning of each error.
            module: what it runs.
            arguments: after the descriptor.
            error: what is raised.
            remedy: the end of the sentence for a process that has ended, what to do then.
            more: arguments of `subprocess.Popen`.
        """
        ours, theirs = socket.socketpair()
        # a file, not a pipe: the process may outlive this one
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        argv = [sys.executable, "-m", module, str(theirs.fileno()), *arguments]
        self._name, self._error, self._remedy = name, error, remedy
        with theirs:
            self.process = subprocess.Popen(
                argv,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._printed,
                **more,
            )
        self.pid = self.process.pid
        # time limits are longer on a busy machine, and with SALTBED_PATIENCE
        self._line = evil_minions.Line(ours, Clock(pace=lambda: pace() / PATIENCE))

    def send(self, message: Mapping[str, Any], seconds: float) -> None:
        """Send a message.

        Raises:
            Exception: of this child's type, if it does not take the message within `seconds`.
        """
        try:
            self._line.send(message, seconds)
        except OSError as error:
            raise self._ended() from error

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message.

        Raises:
            Exception: of this child's type, if none comes within `seconds`.
        """
        try:
            return self._line.receive(seconds)
        except TimeoutError as error:
            raise self._error(f"{self._name} (process {self.pid}) does not answer: end it.{self._last()}") from error
        except OSError as error:
            raise self._ended() from error

    def ask(self, message: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a message and return the next one; errors are those of `send` and `receive`."""
        self.send(message, seconds)
        return self.receive(seconds)

    def _ended(self) -> Exception:
        return self._error(f"{self._name} (process {self.pid}) has ended: {self._remedy}.{self._last()}")

    def _last(self) -> str:
        file, most = self._printed.fileno(), evil_minions.PRINTED_BYTES
        # not by seeking: the position is the process's as well
        return evil_minions.printed(os.pread(file, most, max(0, os.fstat(file).st_size - most)))

    def hang_up(self) -> None:
        """Close the line: the process ends when it notices."""
        self._line.close()

    def close(self, seconds: float) -> None:
        """Hang up, and kill the process if it runs on for longer than `seconds`; a second call does nothing."""
        self.hang_up()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self._printed.close()
