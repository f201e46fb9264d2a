"""Progress of a run: one live line on a terminal, plain lines now and then in a pipe."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

EVERY_S = 5.0
"""Seconds between two plain lines: a log of a continuous build stays readable and still shows life."""
_CLEAR = "\r\x1b[2K"


class Progress:
    """Writes progress to `stream`; `live` where it is a terminal. `clock` tells seconds and never goes back."""

    def __init__(
        self, stream: TextIO, *, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Find out by itself whether the stream is a terminal, unless told."""
        self._stream = stream
        self._live = stream.isatty() if live is None else live
        self._clock = clock
        self._start = clock()
        self._last = -EVERY_S
        self._open = False

    def show(self, text: str) -> None:
        """Show how far things are; the next call replaces it."""
        now = self._clock() - self._start
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{_CLEAR}{self._stamp(now)} {text}"[: width + len(_CLEAR)])
            self._open = True
        elif now - self._last >= EVERY_S:
            self._write(f"{self._stamp(now)} {text}\n")
            self._last = now

    def say(self, text: str) -> None:
        """Write a line that stays."""
        now = self._clock() - self._start
        self._write(f"{_CLEAR if self._open else ''}{self._stamp(now)} {text}\n")
        self._open = False
        self._last = now

    def end(self) -> None:
        """Leave the terminal's line clean for whatever is printed next."""
        if self._open:
            self._write(_CLEAR)
            self._open = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    @staticmethod
    def _stamp(seconds: float) -> str:
        return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"
