"""The client of a fleet's control socket: one JSON request for each line, one JSON answer for each line."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any, Final, Self

from evil_minions.errors import ControlError, UsageError
from evil_minions.fleet.orders import Selection
from evil_minions.fleet.status import Status

_ALL: Final = Selection()

_SOCKET_NAME: Final = "control.sock"
_MAX_PATH_BYTES: Final = 100
_ANSWER_SECONDS: Final = 300.0


def socket_path(folder: Path) -> Path:
    """Return where the control socket of a fleet in `folder` is.

    Raises:
        UsageError: if the path is too long for a socket.

    """
    path = Path(os.path.abspath(folder)) / _SOCKET_NAME  # noqa: PTH100 - symbolic links may be what keeps it short
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise UsageError(
            f"{path} is longer than {_MAX_PATH_BYTES} bytes, too long for a socket: give a shorter --folder."
        )
    return path


class Control:
    """A client of a fleet's control socket."""

    def __init__(self, sock: socket.socket) -> None:
        """Use a connected socket."""
        self._socket = sock
        self._file = sock.makefile("rwb")

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Hang up."""
        self.close()

    def close(self) -> None:
        """Hang up."""
        # what a fleet that has ended did not take any more is of no use
        with contextlib.suppress(OSError):
            self._file.close()
        self._socket.close()

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            ControlError: if the fleet has gone, takes too long, or refuses.

        """
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
            answer = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise ControlError(f"The fleet doesn't answer ({error}): is it still running?") from error
        if not isinstance(answer, dict):
            raise ControlError("The fleet hung up without an answer: see what it printed.")
        if "error" in answer:
            raise ControlError(str(answer["error"]))
        return answer

    def status(self) -> Status:
        """Return the state of the fleet."""
        return Status.from_dict(self.ask(do="status"))

    def flush(self) -> None:
        """Have all samples written to disk."""
        self.ask(do="flush")

    def stop(self) -> None:
        """End the fleet; the answer comes before its processes have gone."""
        self.ask(do="stop")

    def order(self, do: str, selection: Selection = _ALL, **more: object) -> int:
        """Send one of `ORDERS` with its argument, for some minions unless it is for all; return how many it changed."""
        return int(self.ask(do=do, **more, **selection.to_dict())["minions"])

    def match(self, expression: str | list[str], kind: str = "glob", delimiter: str = ":") -> list[str]:
        """Return the ids of the minions that a target matches; `kind` is a `tgt_type` of Salt."""
        return list(self.ask(do="match", tgt=expression, tgt_type=kind, delimiter=delimiter)["ids"])

    def unseen(self, jids: list[str]) -> list[str]:
        """Return those of the job ids that no minion has heard of, in their order."""
        return list(self.ask(do="unseen", jids=jids)["unseen"])


def connect(folder: Path | str, timeout: float = _ANSWER_SECONDS) -> Control:
    """Return a client of the fleet in `folder`; an answer may take `timeout` seconds.

    Raises:
        ControlError: if no fleet answers there.

    """
    path = socket_path(Path(folder))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    try:
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise ControlError(f"No fleet answers on {path} ({error.strerror}): start one with `run`.") from error
    return Control(sock)
