"""The control socket: one JSON request for each line, one JSON answer for each line.

`connect` is the client that others use; the server's side is `serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from evil_minions.errors import ControlError, EvilMinionsError, UsageError
from evil_minions.fleet.selection import Selection
from evil_minions.fleet.status import Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

__all__ = ["ALL", "Control", "ControlError", "Selection", "Status", "connect", "serve", "socket_path"]

ALL: Final = Selection()

SOCKET_NAME: Final = "control.sock"
MAX_PATH_BYTES: Final = 100
ANSWER_SECONDS: Final = 300.0
_LINE_LIMIT: Final = 64 * 1024 * 1024


def socket_path(folder: Path) -> Path:
    """Return where the control socket of a fleet in `folder` is.

    Raises:
        UsageError: if the path is too long for a socket.

    """
    path = Path(os.path.abspath(folder)) / SOCKET_NAME  # noqa: PTH100 - symbolic links may be what keeps it short
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise UsageError(
            f"{path} is longer than {MAX_PATH_BYTES} bytes, too long for a socket: give a shorter --folder."
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def scale(self, minions: int) -> int:
        """Have so many minions in all; return how many came or went."""
        return int(self.ask(do="scale", minions=minions)["minions"])

    def kill(self, selection: Selection = ALL) -> int:
        """Kill minions as processes, until they are revived; return how many."""
        return self._order("kill", selection)

    def revive(self, selection: Selection = ALL) -> int:
        """Start killed minions again; return how many."""
        return self._order("revive", selection)

    def partition(self, selection: Selection = ALL) -> int:
        """Cut minions off from the master until `heal`; return how many."""
        return self._order("partition", selection)

    def heal(self) -> int:
        """Let all minions reach the master again; return how many couldn't."""
        return int(self.ask(do="heal")["minions"])

    def behaviour(self, name: str | Path, selection: Selection = ALL) -> int:
        """Have minions behave as a preset or a file says; return how many."""
        return self._order("behaviour", selection, name=str(name))

    def network(self, path: Mapping[str, float], selection: Selection = ALL) -> int:
        """Put minions behind a network with `rtt_ms`, `jitter_ms`, `loss`, `bandwidth_mbit`; return how many."""
        return self._order("network", selection, path=dict(path))

    def _order(self, do: str, selection: Selection, **more: object) -> int:
        """Send an order to some minions, and return how many it changed."""
        return int(self.ask(do=do, **more, **selection.to_dict())["minions"])

    def match(self, expression: str | list[str], kind: str = "glob", delimiter: str = ":") -> list[str]:
        """Return the ids of the minions that a target means; `kind` is a `tgt_type` of Salt."""
        return list(self.ask(do="match", tgt=expression, tgt_type=kind, delimiter=delimiter)["ids"])

    def unknown(self, functions: list[str]) -> dict[str, str]:
        """Return those of the functions that the fleet does not know, each with the nearest known one ("" if none)."""
        return dict(self.ask(do="knows", functions=functions)["unknown"])

    def unseen(self, jids: list[str]) -> list[str]:
        """Return those of the job ids that no minion has heard of, in their order."""
        return list(self.ask(do="unseen", jids=jids)["unseen"])

    def pillar(self, minion_id: str) -> dict[str, Any]:
        """Return the pillar that a minion holds for target matching."""
        return dict(self.ask(do="pillar", id=minion_id)["pillar"])


def connect(folder: Path | str, timeout: float = ANSWER_SECONDS) -> Control:
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


async def serve(folder: Path, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> asyncio.Server:
    """Open the control socket of `folder`, for its owner only, and answer every line with `answer`.

    Raises:
        UsageError: if another fleet runs in this folder, or the socket can't be made there.

    """
    path = socket_path(folder)
    if path.exists():
        try:
            connect(folder, timeout=1.0).close()
        except ControlError:
            path.unlink()
        else:
            raise UsageError(f"Another fleet runs in {folder}: stop it, or give another --folder.")

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await _reply(line, answer), default=str).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(client, str(path), limit=_LINE_LIMIT)
    except OSError as error:
        raise UsageError(f"{path} can't be made ({error.strerror}): give another --folder.") from error
    finally:
        os.umask(mask)


async def _reply(line: bytes, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the answer to one line, an error included."""
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            return {"error": "A request is a JSON object with a key `do`."}
        return await answer(request)
    except ValueError:
        return {"error": "A request is one line of JSON."}
    except EvilMinionsError as error:
        return {"error": str(error)}
