"""The checks of the zoo: `python checks.py NUMBER FOLDER` prints what is wrong with the Salt that this Python imports.

The check of a bug is `bug_NUMBER`. It may write below its folder, and returns what is wrong as a list of sentences, or
None where the release lacks the code.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.client
import salt.config
import salt.crypt
import salt.exceptions
import salt.netapi
import salt.payload
import salt.pillar
import salt.transport.frame
import salt.transport.tcp
import salt.transport.zeromq
import salt.utils.event
import salt.utils.stringutils
import zmq

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LOGINS = 1000
MINIONS = 100
OPTIONS = 400
REQUESTS = 20
POOLS = {"default": {"worker_count": 1, "commands": ["*"]}}
WAIT_MS = 30_000


def _tornado() -> Any:
    """Return the Tornado that this Salt uses, which for Salt 3006 is one of its own."""
    try:
        importlib.import_module("salt.ext.tornado.ioloop")
        return importlib.import_module("salt.ext.tornado")
    except ImportError:
        importlib.import_module("tornado.ioloop")
        return importlib.import_module("tornado")


TORNADO = _tornado()
for _name in ("gen", "ioloop", "iostream"):
    importlib.import_module(f"{TORNADO.__name__}.{_name}")


def _master_options(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the options of a master whose folders lie below `folder`."""
    opts: dict[str, Any] = dict(salt.config.master_config(None))
    for name in ("cachedir", "pki_dir", "sock_dir", "extension_modules"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        opts[name] = str(folder / name)
    return {**opts, "id": "zoo_master", "file_client": "local", "grains": {}, **changes}


def _loop() -> Any:
    """Return an event loop of Tornado, which is the current one from now on."""
    made = TORNADO.ioloop.IOLoop()
    made.make_current()
    return made


def _run(io_loop: Any, do: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Run a coroutine on a loop to its end, which has to come within some seconds."""
    io_loop.run_sync(do, timeout=seconds)


async def _pause(seconds: float = 0.01) -> None:
    """Let the event loop work for some seconds."""
    await TORNADO.gen.sleep(seconds)


def _ended(do: Callable[[], object], seconds: float) -> bool:
    """Return whether a call ends within some seconds; one that hangs stays in a thread."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def bug_32368(folder: Path) -> list[str]:
    """Let a master be late with its answer to a publication (64060 reports the same)."""
    context = zmq.Context()
    master = context.socket(zmq.ROUTER)
    port = master.bind_to_random_port("tcp://127.0.0.1")
    opts = _master_options(folder, interface="127.0.0.1", ret_port=port, timeout=1, transport="zeromq")
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

    if not _ended(publish, 60):
        return ["the client did not give up"]
    sent = len([message for message in received if b"publish" in message])
    return [] if sent == 1 else [f"one job was sent to the master {sent} times"]


def bug_60955(folder: Path) -> list[str] | None:  # noqa: ARG001 - each check gets a folder
    """Log a user in to salt-api again and again."""
    if not hasattr(salt.netapi, "sum_permissions"):
        return None
    eauth: dict[str, list[str]] = {"admin": ["test.*"], "*": ["grains.*"], "team%": ["state.*"]}
    token = {"name": "admin", "groups": ["team"]}
    for _ in range(LOGINS):
        found = salt.netapi.sum_permissions(token, eauth)
    wrong = []
    if sorted(set(found)) != ["grains.*", "state.*", "test.*"]:
        wrong.append(f"the permissions are {sorted(set(found))}")
    if eauth["admin"] != ["test.*"]:
        wrong.append(f"after {LOGINS:,} logins the options list {len(eauth['admin']):,} permissions, not 1")
    return wrong


def bug_61010(folder: Path) -> list[str]:
    """Break a source of the pillar for a moment, with `pillar_cache`."""
    (folder / "roots").mkdir()
    # where Salt 3006 and 3007 write, which a real master makes at its start
    (folder / "cachedir" / "pillar_cache").mkdir(parents=True)
    (folder / "roots" / "top.sls").write_text("base:\n  '*':\n    - data\n")
    data = folder / "roots" / "data.sls"
    opts = _master_options(
        folder,
        pillar_cache=True,
        pillar_cache_backend="disk",
        pillar_roots={"base": [str(folder / "roots")]},
        file_roots={"base": []},
    )

    def compiled() -> dict[str, Any]:
        pillar = salt.pillar.get_pillar(opts, {"id": "minion"}, "minion", "base")
        found: dict[str, Any] = pillar.compile_pillar()
        return found

    data.write_text("{% broken")
    if "_errors" not in compiled():
        return ["a broken pillar has no errors"]
    data.write_text("key: value\n")
    real = time.time
    time.time = lambda: real() + 120
    return [] if compiled().get("key") == "value" else ["the pillar with errors was served two minutes later"]


class Subscriber(salt.transport.tcp.Subscriber):  # type: ignore[misc] # Salt has no types
    """A connection that counts how often its id is asked for."""

    looks = 0
    _given = None

    @property
    def id_(self) -> Any:
        """Return the id that the minion gave."""
        Subscriber.looks += 1
        return self._given

    @id_.setter
    def id_(self, value: Any) -> None:
        self._given = value


def bug_61656(folder: Path) -> list[str]:
    """Minions connect over tcp, then one of them gets a job."""
    salt.transport.tcp.Subscriber = Subscriber
    io_loop = _loop()

    def identify(client: Any, message: Any) -> None:
        client.id_ = message["id"]

    server = salt.transport.tcp.PubServer(_master_options(folder), io_loop=io_loop, presence_callback=identify)
    with socket.create_server(("127.0.0.1", 0), backlog=MINIONS) as listening:
        port = listening.getsockname()[1]
        listening.setblocking(False)
        server.add_socket(listening)
        minions = [socket.create_connection(("127.0.0.1", port)) for _ in range(MINIONS)]
        for number, minion in enumerate(minions):
            minion.sendall(salt.transport.frame.frame_msg({"id": f"minion-{number}"}))

        async def work() -> None:
            while len([client for client in server.clients if client.id_]) < MINIONS:
                await _pause()
            Subscriber.looks = 0
            await server.publish_payload({"payload": "job"}, ["minion-7"])

        _run(io_loop, work, 60)
    minions[7].settimeout(10)
    wrong = [] if minions[7].recv(1) else ["the job did not arrive"]
    # the job's own connection may be looked at more than once
    if Subscriber.looks > 5:
        wrong.append(f"a job for one minion looked at the connections of {min(Subscriber.looks, MINIONS)} minions")
    return wrong


def bug_69824(folder: Path) -> list[str]:
    """Stop the event bus while a worker fires events about returns."""
    opts = _master_options(folder)
    bus = socket.socket(socket.AF_UNIX)
    # takes the connection, as the kernel does for a process that is stopped, and reads nothing
    bus.bind(str(folder / "sock_dir" / "master_event_pull.ipc"))
    bus.listen()
    ours: Any = getattr(salt.transport.tcp, "_SyncPubServerPublisher", None)
    if ours:
        # the patched Salt gives up after a minute
        ours.send_timeout = 5

    def work() -> None:
        async def fire() -> None:
            # a worker fires while its own loop runs
            event = salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=False)
            # whatever it raises is an end
            with contextlib.suppress(Exception):
                for number in range(100):
                    event.fire_event({"return": "x" * 100_000}, f"salt/job/{number}/ret/minion")

        _run(_loop(), fire, 300)

    return [] if _ended(work, 30) else ["a worker hung while the event bus did not read"]


@dataclass(frozen=True)
class Work:
    """What a queue did: requests that came to a worker, and how often it unpacked, decrypted, made a cipher."""

    arrived: int
    unpacked: int
    decrypted: int
    ciphers: int


@dataclass(frozen=True)
class Secret:
    """A key of the master, as processes share it."""

    value: bytes


def _serve(opts: dict[str, Any], key: str, counts: dict[str, Any]) -> None:
    """Run the queue of a master's requests, and count."""

    def counted(name: str, do: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with counts[name].get_lock():
                counts[name].value += 1
            return do(*args, **kwargs)

        return call

    salt.payload.loads = counted("unpacked", salt.payload.loads)
    salt.crypt.Crypticle.decrypt = counted("decrypted", salt.crypt.Crypticle.decrypt)
    salt.crypt.Crypticle.__init__ = counted("ciphers", salt.crypt.Crypticle.__init__)
    secrets = {"aes": {"secret": Secret(salt.utils.stringutils.to_bytes(key))}}
    salt.transport.zeromq.RequestServer(opts).zmq_device_pooled(POOLS, secrets=secrets)


def _queued(folder: Path) -> Work | None:
    """Return what the queue does to encrypted requests with one pool of workers, None for a Salt without pools."""
    if not hasattr(salt.transport.zeromq.RequestServer, "zmq_device_pooled"):
        return None
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    opts = _master_options(folder, interface="127.0.0.1", ret_port=port, worker_pools=POOLS)
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


def bug_69925(folder: Path) -> list[str] | None:
    """Minions send encrypted requests: the queue decrypts each."""
    work = _queued(folder)
    if work is None:
        return None
    wrong = [] if work.arrived == REQUESTS else [f"{work.arrived} of {REQUESTS} requests arrived"]
    if work.decrypted:
        wrong.append(f"the queue decrypted {work.decrypted} of {REQUESTS} requests")
    if work.unpacked:
        wrong.append(f"the queue unpacked {work.unpacked} times for {REQUESTS} requests")
    return wrong


def bug_69926(folder: Path) -> list[str] | None:
    """Minions send encrypted requests: the queue makes a cipher object for each."""
    work = _queued(folder)
    if work is None:
        return None
    return [f"{work.ciphers} cipher objects for {REQUESTS} requests"] if work.ciphers > 1 else []


def bug_69938(folder: Path) -> list[str] | None:  # noqa: ARG001 - each check gets a folder
    """Ask for the number of options."""
    try:
        kind: Any = importlib.import_module("salt.utils.optsdict").OptsDict
    except ImportError:
        return None
    looks: list[object] = []

    class Counting(kind):  # type: ignore[misc] # known to the release alone
        """Options that note which values are looked up."""

        def __getitem__(self, key: object) -> Any:
            looks.append(key)
            return super().__getitem__(key)

    opts = Counting.from_dict({f"option-{number}": number for number in range(OPTIONS)})
    looks.clear()
    wrong = [] if len(opts) == OPTIONS else [f"{OPTIONS} options were counted as {len(opts)}"]
    if looks:
        wrong.append(f"counting {OPTIONS} options looked up {len(looks)} values")
    return wrong


def bug_69988(folder: Path) -> list[str]:
    """One subscriber of the event bus reads, another one does not."""
    events, size = 200, 65_536
    io_loop = _loop()
    server = salt.transport.tcp.PubServer(_master_options(folder), io_loop=io_loop)
    reading, stopped = socket.socketpair(), socket.socketpair()
    arrived = [0]

    def read() -> None:
        while data := reading[1].recv(2**20):
            arrived[0] += len(data)

    threading.Thread(target=read, daemon=True).start()

    async def work() -> None:
        for name, (ours, _) in (("reading", reading), ("stopped", stopped)):
            server.handle_stream(TORNADO.iostream.IOStream(ours), name)
        await _pause()
        for _ in range(events):
            await server.publish_payload(b"x" * size)
            await _pause(0.001)

    with contextlib.suppress(Exception):
        _run(io_loop, work, 20)
    whole = arrived[0] // size
    return [] if whole >= events else [f"fewer than {events} events reached the subscriber that reads"]


def _waiting() -> int:
    """Return how many coroutines wait on an event loop, in the terms of either Tornado."""
    names = (asyncio.Task, getattr(TORNADO.gen, "Runner", asyncio.Task))
    return sum(1 for found in gc.get_objects() if type(found) in names)


def bug_70147(folder: Path) -> list[str]:
    """12,000 events in a row for a subscriber that reads each at once.

    The mend in 3008.3 queues what the kernel has taken already, and drops the subscriber when that queue is full.
    """
    most = 100
    io_loop = _loop()
    server = salt.transport.tcp.PubServer(_master_options(folder), io_loop=io_loop)
    ours, theirs = socket.socketpair()
    tasks = []

    async def work() -> None:
        server.handle_stream(TORNADO.iostream.IOStream(ours), "subscriber")
        await _pause()
        before = _waiting()
        for _ in range(12_000):
            # of the present Tornado it is a coroutine, which nothing has begun yet
            await server.publish_payload(b"x" * 400)
            theirs.recv(65536)
            if not server.clients:
                break
        tasks.append(_waiting() - before)

    _run(io_loop, work, 120)
    wrong = [] if server.clients else ["a subscriber that read each event was dropped as slow"]
    if tasks[0] > most:
        wrong.append(f"more than {most} tasks were left of a burst, nearly one for each event")
    return wrong


def main(number: str, folder: str) -> None:
    """Run one check and print what it found as one line of JSON."""
    # what Salt prints must not end up before the answer
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    wrong = globals()[f"bug_{number}"](Path(folder))
    print(json.dumps({"wrong": wrong, "salt": salt.__file__}), file=answer, flush=True)
    # threads that a bug left hanging must not keep the process
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
