"""Bug 69914: the event bus goes and comes again, and a worker fires events."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import salt.utils.event

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 5


class Bus:
    """What takes events, at a path of its own."""

    def __init__(self, path: Path) -> None:
        """Start to listen."""
        path.unlink(missing_ok=True)
        self.received = b""
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._open.append(self._listening.accept()[0])
                threading.Thread(target=self._read, args=(self._open[-1],), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(65536):
                self.received += data

    def close(self) -> None:
        """Go, as a process that is killed does."""
        for one in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    opts = parts.master_options(folder)
    path = folder / "sock_dir" / "master_event_pull.ipc"
    event = salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=False)
    first = Bus(path)
    event.fire_event({}, "zoo/before")
    time.sleep(0.5)
    first.close()
    # the first one after that may be lost: nothing told the worker
    for _ in range(2):
        with contextlib.suppress(Exception):
            event.fire_event({}, "zoo/lost")
        time.sleep(0.2)
    second = Bus(path)
    for number in range(EVENTS + 1):
        with contextlib.suppress(Exception):
            event.fire_event({}, f"zoo/after/{number}")
        time.sleep(0.1)
    time.sleep(1)
    arrived = second.received.count(b"zoo/after/")
    return [] if arrived >= EVENTS else [f"{arrived} of {EVENTS} events arrived after a restart of the event bus"]
