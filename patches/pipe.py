"""Output that is read by somebody who may stop early, such as `head` or a pager: the one way of all commands here."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# the exit code of a program that SIGPIPE ended, as a shell reports it
CODE: Final = 128 + 13


def run(command: Callable[[], int]) -> int:
    """Run a command and return its exit code: 141, without a traceback, if nobody reads its output any more."""
    try:
        try:
            return command()
        finally:
            # flushed here, as an error at the end of the interpreter can't be caught
            sys.stdout.flush()
    except BrokenPipeError:
        if not unread():
            raise
        # the rest of the output is dropped
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                if _unread(stream.fileno()):
                    os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return CODE


def unread() -> bool:
    """Return whether standard output, or that for errors, is a pipe without a reader: other pipes may break too."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if _unread(stream.fileno()):
                return True
    return False


def _unread(number: int) -> bool:
    poll = select.poll()
    poll.register(number, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
