"""Ctrl-C, and SIGTERM, at any moment of a command: one line, exit code 130, and everything is stopped.

Only the standard library's smallest parts are imported, because what comes after this module takes a second to load.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ERRORS = 2


def before() -> None:
    """End at once with a line and 130 from now on: for the time in which nothing has been started yet."""
    _handle(_end)


@contextlib.contextmanager
def during() -> Iterator[None]:
    """Have the first signal raise KeyboardInterrupt; later ones are ignored, as they can't make stopping any faster.

    After a command that began with `before`, when its exit code is decided, signals are ignored.
    """
    earlier = {number: signal.getsignal(number) for number in SIGNALS}
    _handle(_first)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, signal.SIG_IGN if handler is _end else handler)


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Let signals wait while a few things are done that belong together; yield what ends the wait."""
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)

    try:
        yield release
    finally:
        release()


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        # a command that a shell started in the background may ignore Ctrl-C
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    _say("Interrupted: nothing had been started yet.")
    os._exit(CODE)


def _first(_number: int, _frame: FrameType | None) -> None:
    _handle(_later)
    raise KeyboardInterrupt


def _later(_number: int, _frame: FrameType | None) -> None:
    _say("Stopping what was started: this takes up to a minute.")


def _say(text: str) -> None:
    """Write a line; what is buffered elsewhere may be in the middle of a write."""
    with contextlib.suppress(OSError):
        os.write(ERRORS, f"{text}\n".encode())
