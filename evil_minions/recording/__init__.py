"""A recording: what one real minion answered, how long it took, and which events it fired.

A file of indented JSON with a format number, so that people can read it, compare two, cut parts out and share it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
LIVE: Final = ("grains.*", "pillar.*", "mine.*", "cp.*", "saltutil.*", "test.sleep")
"""Functions whose answer depends on the moment or on the master: simulated minions work these out themselves."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the minion: `at` is in seconds since its job was published, or since the recording began."""

    at: float
    tag: str
    data: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """One function that the minion ran: `seconds` lie between the publication and the return at the master."""

    fun: str
    args: tuple[Any, ...]
    value: Any
    retcode: int
    seconds: float
    jid: str
    out: str | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """All of one minion: `salt` is its version, `recorded` the time in ISO 8601, `events` those that no job fired."""

    minion: str
    salt: str
    recorded: str
    grains: dict[str, Any]
    answers: tuple[Answer, ...]
    events: tuple[Event, ...] = ()

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False, default=str) + "\n"


def _event(data: dict[str, Any]) -> Event:
    return Event(float(data["at"]), str(data["tag"]), data["data"])


def _answer(data: dict[str, Any]) -> Answer:
    return Answer(
        fun=str(data["fun"]),
        args=tuple(data["args"]),
        value=data["value"],
        retcode=int(data["retcode"]),
        seconds=float(data["seconds"]),
        jid=str(data["jid"]),
        out=data.get("out"),
        events=tuple(_event(event) for event in data.get("events", ())),
    )


def load(path: Path) -> Recording:
    """Read a recording.

    Raises:
        UsageError: if the file can't be read, or is no recording of this format.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise UsageError(f"{path} has format {data['format']}, this version reads {FORMAT}: record anew.")
        return Recording(
            minion=str(data["minion"]),
            salt=str(data["salt"]),
            recorded=str(data["recorded"]),
            grains=dict(data["grains"]),
            answers=tuple(_answer(answer) for answer in data["answers"]),
            events=tuple(_event(event) for event in data.get("events", ())),
        )
    except OSError as error:
        raise UsageError(f"The recording can't be read: {error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no recording ({error!r}): make one with the command `record`.") from error


def is_live(fun: str) -> bool:
    """Return whether a function is answered by the simulated minion rather than from a recording."""
    return any(fnmatchcase(fun, pattern) for pattern in LIVE)
