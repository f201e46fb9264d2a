"""Minions that only return, each time they are told to.

Their keys and session keys are written where the master keeps them, which saves a sign-in each. All of them
return a job once, over a few connections that each wait for the answer, and for nothing else: no publications, and
retries only where somebody asks for them, so that what the master uses is what returns cost. Every answer is opened
and checked.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import salt.crypt
import zmq
from zmq.constants import PollEvent, SocketOption, SocketType

from evil_minions import envelope, load_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions import MinionKey

CONNECTIONS: Final = 100
ANSWER_S: Final = 60.0
TRIES: Final = 50


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
        self.port = port
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
            self.sockets.append(self._connected())

    def _connected(self) -> zmq.Socket[bytes]:
        socket = self.context.socket(SocketType.REQ)
        socket.setsockopt(SocketOption.LINGER, 0)
        socket.connect(f"tcp://127.0.0.1:{self.port}")
        self.poller.register(socket, PollEvent.POLLIN)
        return socket

    def _reconnected(self, old: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        """Return a connection in the place of one whose answer does not come."""
        self.poller.unregister(old)
        self.sockets.remove(old)
        old.close()
        self.sockets.append(self._connected())
        return self.sockets[-1]

    def key(self, number: int) -> MinionKey:
        """Return a minion's key."""
        return self.keys[number % len(self.keys)]

    def request(self, number: int, load: dict[str, Any]) -> tuple[str, bytes]:
        """Return a minion's nonce and its request."""
        nonce = envelope.nonce()
        return nonce, envelope.encrypted(load, name(number), self.key(number), self.sessions[number], nonce)

    def ask(self, number: int, jid: str, load: dict[str, Any]) -> None:
        """Let one minion return a ping, or what the load says else; raises CryptoError for a wrong answer."""
        nonce, request = self.request(number, {**result(jid), **load})
        socket = self.sockets[0]
        socket.send(request)
        if not socket.poll(int(ANSWER_S * 1000)):
            raise TimeoutError(f"A request has no answer after {ANSWER_S:g} s.")
        envelope.decrypted(socket.recv(), self.sessions[number], nonce)

    def returns(self, jid: str) -> None:
        """Let every minion return.

        Raises:
            CryptoError: for a wrong answer.
        """
        waiting = [(number, *self.request(number, result(jid))) for number in reversed(range(self.minions))]
        asked: dict[zmq.Socket[bytes], tuple[int, str]] = {}
        idle = list(self.sockets)
        while waiting or asked:
            while idle and waiting:
                socket, (number, nonce, request) = idle.pop(), waiting.pop()
                socket.send(request)
                asked[socket] = (number, nonce)
            ready = self.poller.poll(int(ANSWER_S * 1000))
            if not ready:
                raise TimeoutError(f"{len(waiting) + len(asked)} returns have no answer after {ANSWER_S:g} s.")
            for socket, _ in ready:
                number, nonce = asked.pop(socket)
                envelope.decrypted(socket.recv(), self.sessions[number], nonce)
                idle.append(socket)

    def insist(self, jid: str, patience: float) -> int:
        """Let every minion return, again whenever there is no answer after `patience` seconds; return how many tries.

        Raises:
            TimeoutError: for a return without an answer after `TRIES`.
            CryptoError: for a wrong answer.
        """
        waiting = [(number, 1) for number in range(self.minions)]
        asked: dict[zmq.Socket[bytes], tuple[int, int, str, float]] = {}
        idle = list(self.sockets)
        tries = 0
        while waiting or asked:
            while idle and waiting:
                number, attempt = waiting.pop()
                nonce, request = self.request(number, result(jid))
                socket = idle.pop()
                socket.send(request)
                asked[socket] = (number, attempt, nonce, time.monotonic() + patience)
                tries += 1
            for socket, _ in self.poller.poll(int(patience * 250)):
                number, _, nonce, _ = asked.pop(socket)
                envelope.decrypted(socket.recv(), self.sessions[number], nonce)
                idle.append(socket)
            for socket, (number, attempt, _, until) in list(asked.items()):
                if time.monotonic() < until:
                    continue
                if attempt == TRIES:
                    raise TimeoutError(f"A return of {name(number)} has no answer after {TRIES} tries.")
                del asked[socket]
                idle.append(self._reconnected(socket))
                waiting.append((number, attempt + 1))
        return tries


def prepare(settings: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return what can be done; `settings` are the arguments of `Pump`."""
    folders = {key: Path(settings[key]) for key in ("folder", "pki", "cache")}
    pump = Pump(settings["port"], settings["minions"], **folders)
    return {"returns": pump.returns, "insist": pump.insist, "ask": pump.ask}
