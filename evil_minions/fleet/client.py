"""The client of a fleet's control socket, and the state of a fleet: one line of JSON for each request and answer."""

from __future__ import annotations

import os
import socket
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ControlError, UsageError
from evil_minions.fleet.orders import Selection
from evil_minions.line import Line
from evil_minions.samples import Counters, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One worker: `base_rss_kb` is its memory before its first minion, `cpu_s` its cumulative CPU seconds."""

    pid: int
    minions: int
    rss_kb: int
    base_rss_kb: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Status:
    """Of the minions of a fleet, how many have both sockets connected, are signed in, are ready, await acceptance.

    `rejected` were turned away by the master, `denied` likewise because it knows another key of theirs; `dead` were
    killed; `partitioned` can't reach the master. `executing` counts jobs, not minions: those that minions have got and
    have no return for yet. `expected` are those that will get ready if all goes well.
    """

    connected: int
    authenticated: int
    ready: int
    pending: int
    rejected: int
    denied: int
    dead: int
    partitioned: int
    executing: int
    expected: int
    processes: tuple[ProcessStatus, ...]
    counters: Counters

    @property
    def minions(self) -> int:
        """How many there are."""
        return sum(process.minions for process in self.processes)

    @property
    def base_rss_kb(self) -> int:
        """The most memory in KB that a worker took before its first minion."""
        return max((process.base_rss_kb for process in self.processes), default=0)

    @property
    def kb_per_minion(self) -> float:
        """Memory in KB that one minion takes on average, beyond that of its process."""
        return sum(process.rss_kb - process.base_rss_kb for process in self.processes) / max(1, self.minions)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as the control socket sends it."""
        return {"format": FORMAT, "minions": self.minions, "base_rss_kb": self.base_rss_kb, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Status:
        """Return the status that `to_dict` wrote.

        Raises:
            ControlError: if it is something else, or of another format.
        """
        if data.get("format") != FORMAT:
            raise ControlError(f"The fleet's status has format {data.get('format')}, {FORMAT} is needed.")
        try:
            return cls(
                **{name: int(data[name]) for name in _COUNTS},
                processes=tuple(ProcessStatus(**process) for process in data["processes"]),
                counters=Counters(**data["counters"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ControlError(f"The fleet's status can't be read: {error}.") from error

    @classmethod
    def of(cls, parts: Sequence[Status]) -> Status:
        """Return the status of the parts of a fleet together."""
        return cls(
            **{name: sum(getattr(part, name) for part in parts) for name in _COUNTS},
            processes=tuple(process for part in parts for process in part.processes),
            counters=total(part.counters for part in parts),
        )


_COUNTS: Final = [field.name for field in fields(Status) if field.type == "int"]
_ALL: Final = Selection()

_SOCKET_NAME: Final = "control.sock"
_MAX_PATH_BYTES: Final = 100
_ANSWER_S: Final = 300.0


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


class Control(AbstractContextManager["Control"]):
    """A client of a fleet's control socket."""

    def __init__(self, sock: socket.socket) -> None:
        """Use a connected socket."""
        self._line = Line(sock)
        self._seconds = sock.gettimeout() or _ANSWER_S

    def __exit__(self, *_error: object) -> None:
        """Hang up."""
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            ControlError: if the fleet has gone, takes too long, or refuses.
        """
        try:
            self._line.send(request, self._seconds)
            answer = self._line.receive(self._seconds)
        except OSError as error:
            raise ControlError(f"The fleet doesn't answer ({error}): see what it printed.") from error
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


def connect(folder: Path | str, timeout: float = _ANSWER_S) -> Control:
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
