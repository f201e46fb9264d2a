"""The queue of a master's requests with one pool of workers, and what it does to them; only checks may import it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import salt.crypt
import salt.payload
import salt.transport.zeromq
import salt.utils.stringutils
import zmq

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 20
POOLS = {"default": {"worker_count": 1, "commands": ["*"]}}
WAIT_MS = 30_000


@dataclass(frozen=True)
class Work:
    """What the queue did: requests that came to a worker, and how often it unpacked, decrypted, made a cipher."""

    arrived: int
    unpacked: int
    decrypted: int
    ciphers: int


class _Secret:
    """A key of the master, as processes share it."""

    def __init__(self, value: bytes) -> None:
        self.value = value


def _serve(opts: dict[str, Any], key: str, counts: dict[str, Any]) -> None:
    """Run the queue, and count."""

    def counted(name: str, do: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with counts[name].get_lock():
                counts[name].value += 1
            return do(*args, **kwargs)

        return call

    salt.payload.loads = counted("unpacked", salt.payload.loads)
    salt.crypt.Crypticle.decrypt = counted("decrypted", salt.crypt.Crypticle.decrypt)
    salt.crypt.Crypticle.__init__ = counted("ciphers", salt.crypt.Crypticle.__init__)
    secrets = {"aes": {"secret": _Secret(salt.utils.stringutils.to_bytes(key))}}
    salt.transport.zeromq.RequestServer(opts).zmq_device_pooled(POOLS, secrets=secrets)


def passed(folder: Path) -> Work | None:
    """Return what the queue does to requests of minions, None for a Salt without pools."""
    if not hasattr(salt.transport.zeromq.RequestServer, "zmq_device_pooled"):
        return None
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    opts = parts.master_options(folder, interface="127.0.0.1", ret_port=port, worker_pools=POOLS)
    key = salt.crypt.Crypticle.generate_key_string()
    load = salt.crypt.Crypticle(opts, key).dumps({"cmd": "_return", "id": "minion", "return": "x" * 1000})
    request = salt.payload.dumps({"enc": "aes", "load": load})
    fork = multiprocessing.get_context("fork")
    counts = {name: fork.Value("i", 0) for name in ("unpacked", "decrypted", "ciphers")}
    process = fork.Process(target=_serve, args=(opts, key, counts))
    process.start()
    # not before the fork, which libzmq does not survive
    context = zmq.Context()
    client, worker = context.socket(zmq.REQ), context.socket(zmq.REP)
    for one, address in (
        (client, f"tcp://127.0.0.1:{port}"),
        (worker, f"ipc://{opts['sock_dir']}/workers-default.ipc"),
    ):
        one.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        one.connect(address)
    arrived = 0
    for _ in range(REQUESTS):
        client.send(request)
        arrived += worker.recv() == request
        worker.send(b"answer")
        client.recv()
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    return Work(arrived, *(counts[name].value for name in ("unpacked", "decrypted", "ciphers")))
