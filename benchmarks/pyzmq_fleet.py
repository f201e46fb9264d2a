"""The other side of the density benchmark: simulated minions with pyzmq's sockets, as plain as they can be.

One process, one event loop, a REQ and a SUB socket for each minion. They sign in and answer `test.ping` with the same
messages, packed and opened by evil_minions' own code; what they lack (pillars, events, retries, other functions) can
only make them smaller and faster. Run by `benchmarks.fleet`, which asks for its state.
"""

from __future__ import annotations

import asyncio
import fnmatch
import gc
import os
import resource
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import zmq
import zmq.asyncio
from zmq.constants import ContextOption, SocketOption, SocketType

from evil_minions import AsyncLine, CryptoError, MasterKey, MinionKey, auth, decrypt, envelope, load_pool

if TYPE_CHECKING:
    from zmq.asyncio import Socket

    from evil_minions import Credentials, Load

HOST: Final = "tcp://127.0.0.1"
WINDOW: Final = 48
REMEMBERED: Final = 256
PAGE_KB: Final = os.sysconf("SC_PAGE_SIZE") // 1024


def rss_kb() -> int:
    """Return the resident memory of this process in KB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


class PyzmqFleet:
    """The minions `zmq-00000` and so on of one master."""

    def __init__(self, port: int, minions: int, folder: Path, word_file: Path) -> None:
        """Read or make the keys, and read the word by which the master accepts them; nothing is opened yet."""
        self.grains = {word_file.name: word_file.read_text(encoding="utf-8").strip()}
        self.port = port
        self.minions = minions
        self.context = zmq.asyncio.Context()
        self.context.set(ContextOption.MAX_SOCKETS, 2 * minions + 100)
        self.keys = load_pool(folder)
        self.master = MasterKey(folder)
        self.window = asyncio.Semaphore(WINDOW)
        self.opened: dict[bytes, Load] = {}
        self.ready = self.returns = 0

    async def run(self, line: AsyncLine) -> None:
        """Answer the benchmark until it hangs up."""
        base = rss_kb()
        minions = [asyncio.create_task(self.minion(number)) for number in range(self.minions)]
        while True:
            try:
                await line.receive()
            except ConnectionError:
                return
            for task in minions:
                if task.done():
                    task.result()
            gc.collect()
            state = {
                "ready": self.ready,
                "returns": self.returns,
                "cpu_s": time.process_time(),
                "kb_per_minion": (rss_kb() - base) / self.minions,
                "descriptors": descriptors(),
            }
            await line.send(state)

    async def minion(self, number: int) -> None:
        """Live the life of one minion."""
        name, key = f"zmq-{number:05d}", self.keys[number % len(self.keys)]
        async with self.window:
            requests = self.context.socket(SocketType.REQ)
            requests.connect(f"{HOST}:{self.port}")
            credentials = await self.sign_in(requests, name, key)
            jobs = self.context.socket(SocketType.SUB)
            jobs.connect(f"{HOST}:{credentials.publish_port}")
            jobs.setsockopt(SocketOption.SUBSCRIBE, b"")
        self.ready += 1
        while True:
            load = self.open(await jobs.recv(), credentials.aes)
            if isinstance(load.get("tgt"), str) and fnmatch.fnmatch(name, load["tgt"]):
                await self.answer(requests, name, key, credentials.session, load)

    async def sign_in(self, requests: Socket, name: str, key: MinionKey) -> Credentials:
        """Sign in once."""
        attempt = auth.question(name, key, None, key.secret, self.grains)
        await requests.send(envelope.clear(attempt.load))
        return auth.answer(attempt, envelope.reply(await requests.recv()), key, self.master)

    def open(self, frame: bytes, aes: str) -> Load:
        """Return the job in a publication, opened once for all; an empty one if it doesn't open."""
        if frame not in self.opened:
            if len(self.opened) >= REMEMBERED:
                self.opened.clear()
            try:
                self.opened[frame] = decrypt(frame, aes, self.master)
            except CryptoError:
                self.opened[frame] = {}
        return self.opened[frame]

    async def answer(self, requests: Socket, name: str, key: MinionKey, session: str, job: Load) -> None:
        """Return what a minion returns to a ping."""
        load = {"cmd": "_return", "id": name, "success": True, "return": True, "retcode": 0, "fun_args": []}
        load |= {"jid": job["jid"], "fun": job["fun"], "user": job.get("user", "")}
        nonce = envelope.nonce()
        await requests.send(envelope.encrypted(load, name, key, session, nonce))
        envelope.decrypted(await requests.recv(), session, nonce)
        self.returns += 1


async def main(descriptor: str, port: str, minions: str, folder: str, word_file: str) -> None:
    """Run the fleet."""
    line = await AsyncLine.over(socket.socket(fileno=int(descriptor)))
    await PyzmqFleet(int(port), int(minions), Path(folder), Path(word_file)).run(line)


if __name__ == "__main__":
    _, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
    asyncio.run(main(*sys.argv[1:]))
