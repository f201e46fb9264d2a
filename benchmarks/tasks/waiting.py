"""A process that waits on the event bus while events for others are fired: what each of those events costs it.

For a process that takes all that there is, the bus is a socket with Salt's own frames on it. For a command it is Salt's
own bus, a process of its own, which may leave out what the command does not want. A thread feeds either, and nothing
but the waiting thread is timed.
"""

from __future__ import annotations

import atexit
import logging
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.client
import salt.config
import salt.transport
import salt.transport.frame
import salt.utils.event
import salt.utils.process

if TYPE_CHECKING:
    from collections.abc import Callable

JID = "20260101000000000001"
MINE, OTHERS = f"salt/job/{JID}", "salt/job/20260101000000000002"
MINION = "minion-00000"
WAIT_S = 60


def prepare(settings: dict[str, Any]) -> Callable[[str, int, float], float]:
    """Return a function that gives CPU seconds of waiting past so many events of others for one of one's own.

    Its first argument is "event" for `SaltEvent.get_event` and "client" for what `LocalClient` does; the last one is
    how many events come in a second, 0 for all at once.
    """
    # as the commands do, which set up their logs
    logging.getLogger().setLevel(logging.WARNING)
    folder = Path(settings["folder"])
    opts: dict[str, Any] = salt.config.master_config(None)
    forms: dict[str, Callable[[int, float], float]] = {
        "event": _Subscriber({**opts, "sock_dir": str(folder), "ipc_mode": "ipc"}, settings["bytes"]),
        "client": _Command({**opts, "sock_dir": str(folder / "bus"), "ipc_mode": "ipc"}, settings["bytes"]),
    }
    return lambda form, events, rate: forms[form](events, rate)


class _Feeder:
    """Events on their way to the processes that wait."""

    def __init__(self, length: int, framed: Callable[[bytes], bytes]) -> None:
        self._length = length
        self._framed = framed

    def _frame(self, job: str, minion: str) -> bytes:
        data = {
            "cmd": "_return",
            "id": minion,
            "success": True,
            "return": "x" * self._length,
            "retcode": 0,
            "jid": job.rpartition("/")[2],
            "fun": "cmd.run",
            "fun_args": ["uptime"],
            "_stamp": "2026-01-01T00:00:00.000000",
        }
        return self._framed(salt.utils.event.SaltEvent.pack(f"{job}/ret/{minion}", data))

    def feed(self, connection: socket.socket, events: int, rate: float, done: threading.Event) -> None:
        """Send `events` events of others, `rate` a second or as fast as it goes, then the one that is waited for."""
        with connection:
            began = time.monotonic()
            for number in range(events):
                connection.sendall(self._frame(OTHERS, f"minion-{number:05d}"))
                if rate and (early := began + (number + 1) / rate - time.monotonic()) > 0:
                    time.sleep(early)
            connection.sendall(self._frame(MINE, MINION))
            done.wait(WAIT_S)


class _Subscriber:
    """A process that waits for one event, as any does."""

    def __init__(self, opts: dict[str, Any], length: int) -> None:
        self._opts = opts
        self._feeder = _Feeder(length, salt.transport.frame.frame_msg)
        folder = Path(opts["sock_dir"])
        folder.mkdir(parents=True)
        self._bus = socket.socket(socket.AF_UNIX)
        self._bus.bind(str(folder / "master_event_pub.ipc"))
        self._bus.listen()

    def __call__(self, events: int, rate: float) -> float:
        done = threading.Event()
        with salt.utils.event.SaltEvent("master", opts=self._opts, listen=True) as subscriber:
            subscriber.connect_pub()
            feeder = threading.Thread(target=self._feeder.feed, args=(self._bus.accept()[0], events, rate, done))
            feeder.start()
            before = time.thread_time()
            found = subscriber.get_event(wait=WAIT_S, tag=MINE)
            used = time.thread_time() - before
            done.set()
        feeder.join()
        if not found or found["id"] != MINION:
            raise RuntimeError(f"The event that was waited for did not come within {WAIT_S} s.")
        return used


class _Command:
    """A command that waits for the answer of its job's only minion; what the master says to it is given."""

    def __init__(self, opts: dict[str, Any], length: int) -> None:
        self._opts = opts
        # messages to the bus are framed in another way than those from it
        self._feeder = _Feeder(length, salt.transport.frame.frame_msg_ipc)
        Path(opts["sock_dir"]).mkdir(parents=True)
        server = salt.transport.ipc_publish_server("master", opts)
        publisher = salt.utils.process.Process(target=server.publish_daemon, args=[server.publish_payload])
        publisher.start()
        # salt.utils.process.Process takes no `daemon`
        atexit.register(publisher.kill)
        if not server.started.wait(WAIT_S):
            raise RuntimeError(f"The event bus did not start within {WAIT_S} s.")

    def __call__(self, events: int, rate: float) -> float:
        done = threading.Event()
        pull = socket.socket(socket.AF_UNIX)
        pull.connect(str(Path(self._opts["sock_dir"]) / "master_event_pull.ipc"))
        feeder = threading.Thread(target=self._feeder.feed, args=(pull, events, rate, done))
        with salt.client.LocalClient(mopts=self._opts) as local:

            def pub(*_: object, **__: object) -> dict[str, Any]:
                local.event.connect_pub()
                feeder.start()
                return {"jid": JID, "minions": [MINION]}

            local.pub, local.returns_for_job = pub, lambda _: {"jid": JID}
            before = time.thread_time()
            found = local.cmd("*", "cmd.run", timeout=WAIT_S)
            used = time.thread_time() - before
            done.set()
        feeder.join()
        if not found.get(MINION):
            raise RuntimeError(f"The answer that was waited for did not come within {WAIT_S} s.")
        return used
