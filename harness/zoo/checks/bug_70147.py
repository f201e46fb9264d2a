"""Bug 70147: 12,000 events in a row for a subscriber that reads each at once.

The mend in 3008.3 queues what the kernel has taken already, and drops the subscriber when that queue is full.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import TYPE_CHECKING

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

EVENTS, MOST_TASKS = 12_000, 100
SIZE = 400


def waiting() -> int:
    """Return how many coroutines wait on an event loop, in the terms of either Tornado."""
    names = (asyncio.Task, getattr(parts.TORNADO.gen, "Runner", asyncio.Task))
    return sum(1 for found in gc.get_objects() if type(found) in names)


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    io_loop = parts.loop()
    server = parts.pub_server(parts.master_options(folder), io_loop)
    ours, theirs = socket.socketpair()
    tasks = []

    async def work() -> None:
        server.handle_stream(parts.TORNADO.iostream.IOStream(ours), "subscriber")
        await parts.pause()
        before = waiting()
        for _ in range(EVENTS):
            done = server.publish_payload(b"x" * SIZE)
            # of the present Tornado it is a coroutine, which nothing has begun yet
            await done
            theirs.recv(65536)
            if not server.clients:
                break
        tasks.append(waiting() - before)

    parts.run(io_loop, work, 120)
    wrong = [] if server.clients else ["a subscriber that read each event was dropped as slow"]
    if tasks[0] > MOST_TASKS:
        wrong.append(f"more than {MOST_TASKS} tasks were left of a burst, nearly one for each event")
    return wrong
