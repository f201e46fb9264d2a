"""Minions that have signed in and do nothing but return: the load of the benchmark `returns`, in a process of its own.

Their keys and session keys are written where the master keeps them, which saves a sign-in each. A line with a job's
id makes every one of them return once, over a few connections that each wait for the answer, and for nothing else:
no retries, no publications, so that what the master uses is what returns cost. Every answer is opened and checked.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import salt.crypt
import zmq
from zmq.constants import PollEvent, SocketOption, SocketType

from evil_minions import envelope
from evil_minions.keys import load_pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evil_minions.keys import MinionKey

CONNECTIONS: Final = 100
ANSWER_MS: Final = 60_000


def name(number: int) -> str:
    """Return the id of a minion."""
    return f"pump-{number:05d}"


def result(jid: str) -> dict[str, Any]:
    """Return what a minion returns for a ping."""
    return {
        "cmd": "_return",
        "jid": jid,
        "fun": "test.ping",
        "fun_args": [],
        "return": True,
        "retcode": 0,
        "success": True,
    }


class Pump:
    """So many minions of the master on `port`, whose keys lie in `pki` and whose session keys in `cache`."""

    def __init__(self, port: int, minions: int, folder: Path, pki: Path, cache: Path) -> None:
        """Let the master know the minions, and connect."""
        self.minions = minions
        self.keys = load_pool(folder)
        self.sessions = [salt.crypt.Crypticle.generate_key_string() for _ in range(minions)]
        (pki / "minions").mkdir(parents=True, exist_ok=True)
        (cache / "sessions").mkdir(parents=True, exist_ok=True)
        for number, session in enumerate(self.sessions):
            (pki / "minions" / name(number)).write_text(self.key(number).public)
            (cache / "sessions" / name(number)).write_text(session)
        self.poller = zmq.Poller()
        self.context = zmq.Context()
        self.sockets = []
        for _ in range(min(CONNECTIONS, minions)):
            socket = self.context.socket(SocketType.REQ)
            socket.setsockopt(SocketOption.LINGER, 0)
            socket.connect(f"tcp://127.0.0.1:{port}")
            self.poller.register(socket, PollEvent.POLLIN)
            self.sockets.append(socket)

    def key(self, number: int) -> MinionKey:
        """Return a minion's key."""
        return self.keys[number % len(self.keys)]

    def request(self, number: int, load: dict[str, Any]) -> tuple[str, bytes]:
        """Return a minion's nonce and its request."""
        nonce = envelope.nonce()
        return nonce, envelope.sealed(load, name(number), self.key(number), self.sessions[number], nonce)

    def requests(self, jid: str) -> Iterator[tuple[int, str, bytes]]:
        """Return each minion's number, its nonce and its return."""
        for number in range(self.minions):
            yield number, *self.request(number, result(jid))

    def ask(self, number: int, load: dict[str, Any]) -> object:
        """Let one minion ask, and return what the master answers; raises SealError for a wrong answer."""
        nonce, request = self.request(number, load)
        socket = self.sockets[0]
        socket.send(request)
        if not socket.poll(ANSWER_MS):
            raise TimeoutError(f"A request has no answer after {ANSWER_MS / 1000:g} s.")
        answer: object = envelope.opened(socket.recv(), self.sessions[number], nonce)
        return answer

    def returns(self, jid: str) -> float:
        """Let every minion return; return the seconds until the last answer. Raises SealError for a wrong answer."""
        waiting = list(self.requests(jid))
        waiting.reverse()
        asked: dict[zmq.Socket[bytes], tuple[int, str]] = {}
        start = time.monotonic()
        idle = list(self.sockets)
        while waiting or asked:
            while idle and waiting:
                socket, (number, nonce, request) = idle.pop(), waiting.pop()
                socket.send(request)
                asked[socket] = (number, nonce)
            ready = self.poller.poll(ANSWER_MS)
            if not ready:
                raise TimeoutError(f"{len(waiting) + len(asked)} returns have no answer after {ANSWER_MS / 1000:g} s.")
            for socket, _ in ready:
                number, nonce = asked.pop(socket)
                envelope.opened(socket.recv(), self.sessions[number], nonce)
                idle.append(socket)
        return time.monotonic() - start


def main(argv: Sequence[str]) -> int:
    """Answer lines of JSON until standard input closes.

    `{"jid": JID}` lets all minions return, and tells the seconds; `{"minion": NUMBER, "load": LOAD}` lets one ask
    something else, a ping's return where the load says no more, and tells what the master answered.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.return_pump", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("port", type=int, help="the master's request port")
    parser.add_argument("minions", type=int, help="how many minions return")
    parser.add_argument("folder", type=Path, help="where the minions' keys stay")
    parser.add_argument("pki", type=Path, help="the master's pki_dir")
    parser.add_argument("cache", type=Path, help="the master's cachedir")
    options = parser.parse_args(argv)
    pump = Pump(options.port, options.minions, options.folder, options.pki, options.cache)
    print(json.dumps({"minions": options.minions}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "minion" in asked:
            load = {**result(asked["load"]["jid"]), **asked["load"]}
            print(json.dumps({"answer": repr(pump.ask(asked["minion"], load))}), flush=True)
        else:
            print(json.dumps({"seconds": pump.returns(asked["jid"])}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
