"""A process that waits on the event bus while the bus brings what is for others: what each of those events costs it.

The bus is a socket with Salt's own frames on it, fed by a thread, so that nothing but the waiting thread is timed.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.client
import salt.config
import salt.transport.frame
import salt.utils.event

if TYPE_CHECKING:
    from collections.abc import Callable

MINE, OTHERS = "salt/job/20260101000000000001", "salt/job/20260101000000000002"
WAIT_S = 60.0
# what `LocalClient` sleeps between two looks at the bus
PAUSE_S = 0.01


def prepare(settings: dict[str, Any]) -> Callable[[str, int, float], float]:
    """Return a function that gives CPU seconds of waiting past so many events of others for one of one's own.

    Its first argument is "event" for `SaltEvent.get_event` and "client" for what `LocalClient` does; the last one is
    how many events come in a second, 0 for all at once.
    """
    opts: dict[str, Any] = salt.config.master_config(None)
    opts.update({"sock_dir": settings["folder"], "ipc_mode": "ipc"})
    folder = Path(settings["folder"])
    folder.mkdir(parents=True)
    bus = socket.socket(socket.AF_UNIX)
    bus.bind(str(folder / "master_event_pub.ipc"))
    bus.listen()

    def frame(jid: str, minion: str) -> bytes:
        data = {
            "cmd": "_return",
            "id": minion,
            "success": True,
            "return": "x" * settings["bytes"],
            "retcode": 0,
            "jid": jid.rpartition("/")[2],
            "fun": "cmd.run",
            "fun_args": ["uptime"],
            "_stamp": "2026-01-01T00:00:00.000000",
        }
        packed: bytes = salt.transport.frame.frame_msg(salt.utils.event.SaltEvent.pack(f"{jid}/ret/{minion}", data))
        return packed

    def feed(connection: socket.socket, events: int, rate: float) -> None:
        with connection:
            began = time.monotonic()
            for number in range(events):
                if rate and (early := began + number / rate - time.monotonic()) > 0:
                    time.sleep(early)
                connection.sendall(frame(OTHERS, f"minion-{number:05d}"))
            connection.sendall(frame(MINE, "minion-00000"))
            # closed when the waiting side has what it waits for
            connection.recv(1)

    def cost(form: str, events: int, rate: float) -> float:
        with salt.utils.event.SaltEvent("master", opts=opts, listen=True) as event:
            event.connect_pub()
            feeder = threading.Thread(target=feed, args=(bus.accept()[0], events, rate))
            feeder.start()
            before = time.thread_time()
            found = _by_client(event, opts) if form == "client" else event.get_event(wait=WAIT_S, tag=MINE)
            used = time.thread_time() - before
        feeder.join()
        if not found or found["id"] != "minion-00000":
            raise RuntimeError(f"The event that was waited for did not come within {WAIT_S:.0f} s.")
        return used

    return cost


def _by_client(event: salt.utils.event.SaltEvent, opts: dict[str, Any]) -> dict[str, Any] | None:
    """Wait as `LocalClient.get_iter_returns` does: look without blocking, and sleep when there is nothing."""
    client = salt.client.LocalClient.__new__(salt.client.LocalClient)
    client.opts, client.event, client.auto_reconnect = opts, event, False
    end = time.monotonic() + WAIT_S
    events = client.get_returns_no_block(MINE)
    while time.monotonic() < end:
        found = next(events)
        if found is not None:
            data: dict[str, Any] = found["data"]
            return data
        time.sleep(PAUSE_S)
    return None
