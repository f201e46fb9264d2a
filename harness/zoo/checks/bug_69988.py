"""Bug 69988: one subscriber of the event bus reads, another one does not."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

EVENTS, SIZE = 200, 65_536


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    io_loop = parts.loop()
    server = parts.pub_server(parts.master_options(folder), io_loop)
    reading, stopped = socket.socketpair(), socket.socketpair()
    arrived = [0]

    def read() -> None:
        while data := reading[1].recv(2**20):
            arrived[0] += len(data)

    threading.Thread(target=read, daemon=True).start()

    async def work() -> None:
        for name, (ours, _) in (("reading", reading), ("stopped", stopped)):
            server.handle_stream(parts.TORNADO.iostream.IOStream(ours), name)
        await parts.pause()
        for _ in range(EVENTS):
            await server.publish_payload(b"x" * SIZE)
            await parts.pause(0.001)

    with contextlib.suppress(Exception):
        parts.run(io_loop, work, 20)
    whole = arrived[0] // SIZE
    return [] if whole >= EVENTS else [f"fewer than {EVENTS} events reached the subscriber that reads"]
