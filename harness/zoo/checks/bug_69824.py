"""Bug 69824: the event bus is stopped, and a worker fires events about returns."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import salt.transport.tcp
import salt.utils.event

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

EVENTS, SIZE = 100, 100_000
PATIENCE_S = 30
# of the patched Salt, which gives up after a minute
SHORTER_S = 5


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    opts = parts.master_options(folder)
    bus = socket.socket(socket.AF_UNIX)
    # takes the connection, as the kernel does for a process that is stopped, and reads nothing
    bus.bind(str(folder / "sock_dir" / "master_event_pull.ipc"))
    bus.listen()
    failed: list[str] = []
    ours: Any = getattr(salt.transport.tcp, "_SyncPubServerPublisher", None)
    if ours:
        ours.send_timeout = SHORTER_S

    def work() -> None:
        io_loop = parts.loop()

        async def fire() -> None:
            # a worker fires while its own loop runs
            event = salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=False)
            try:
                for number in range(EVENTS):
                    event.fire_event({"return": "x" * SIZE}, f"salt/job/{number}/ret/minion")
            except Exception as error:  # noqa: BLE001 - whatever it raises is an end
                failed.append(str(error))

        parts.run(io_loop, fire, 10 * PATIENCE_S)

    return [] if parts.ended(work, PATIENCE_S) else ["a worker hung while the event bus did not read"]
