"""Bug 32368 (and 64060): a master under load is late with its answer to a publication."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import salt.client
import salt.exceptions
import zmq

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    context = zmq.Context()
    master = context.socket(zmq.ROUTER)
    port = master.bind_to_random_port("tcp://127.0.0.1")
    opts = parts.master_options(folder, interface="127.0.0.1", ret_port=port, timeout=1, transport="zeromq")
    (folder / "sock_dir" / "publish_pull.ipc").touch()
    received: list[bytes] = []

    def listen() -> None:
        while True:
            received.append(master.recv_multipart()[-1])

    threading.Thread(target=listen, daemon=True).start()
    client = salt.client.LocalClient(mopts=opts)

    def publish() -> None:
        with contextlib.suppress(salt.exceptions.SaltClientError):
            client.pub("*", "test.ping", timeout=1)

    if not parts.ended(publish, 60):
        return ["the client did not give up"]
    sent = len([message for message in received if b"publish" in message])
    return [] if sent == 1 else [f"one job was sent to the master {sent} times"]
