"""A worker on a network whose master is hostile: it neither falls nor grows, and serves an honest master afterwards."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import salt.crypt
import salt.payload
import salt.utils.msgpack
import wsproto
from wsproto.events import AcceptConnection, BytesMessage, Request

from evil_minions.fleet.supervisor import WorkerLink
from evil_minions.protocol import frames as stream
from evil_minions.protocol import zmtp
from evil_minions.protocol.keys import load_pool
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

# 10,000 malformed frames over all transports, half of them on each port
FRAMES_EACH = 1667
MINIONS = 40
GROWTH_KB = 10 * 1024
# a job that waits for a sign-in is memory that comes back; twice the mean of what the forge makes, and overhead
WAITING_KB = 16
DEADLINE_S = 150.0
# malformed messages in sound frames before a frame that ends the connection
MESSAGES = 24
PING = {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "ret": "", "user": "root"}


class ZeromqSpeaker:
    """The master's side of a connection over zeromq."""

    oversize = (b"\x02" + b"\xff" * 8, b"\x02" + (2**26 + 1).to_bytes(8, "big"), b"\x03" + (2**25).to_bytes(8, "big"))

    def __init__(self, *, publish: bool) -> None:
        """Begin before the greeting."""
        self.publish = publish
        self.decoder = zmtp.Decoder()
        self.greeting = zmtp.GREETING + zmtp.ready(b"PUB" if publish else b"ROUTER")

    def feed(self, data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """Return what to send at once, and the messages in `data` with their ids."""
        return b"", [(b"", event[-1]) for event in self.decoder.feed(data) if isinstance(event, list)]

    def wrap(self, message: bytes, mid: bytes = b"") -> bytes:  # noqa: ARG002 - other transports have ids
        """Return a sound frame around a message."""
        return zmtp.frame(message) if self.publish else zmtp.request(message)


class TcpSpeaker:
    """The master's side of a connection over tcp."""

    greeting = b""
    oversize = (b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff\x91", b"\xdc\xff\xff" * 900)

    def __init__(self, *, publish: bool) -> None:
        """Begin before the first frame."""
        self.publish = publish
        self.decoder = stream.Decoder()

    def feed(self, data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """Return what to send at once, and the messages in `data` with their ids."""
        return b"", [(frame.mid, frame.body) for frame in self.decoder.feed(data)]

    def wrap(self, message: bytes, mid: bytes = b"") -> bytes:
        """Return a sound frame around a message; publications are packed twice."""
        body = salt.payload.dumps(message, use_bin_type=True) if self.publish else message
        return stream.frame(body, {"mid": mid.decode()} if mid else {})


class WsSpeaker:
    """The master's side of a connection over ws, by another implementation of the protocol than the fleet's."""

    greeting = b""
    oversize = (b"\x82\x7f" + b"\xff" * 8, b"\x82\x7f" + (2**26 + 1).to_bytes(8, "big"), b"\x02\x7e\xff\xff\x00")

    def __init__(self, *, publish: bool) -> None:
        """Begin before the handshake."""
        self.publish = publish
        self.connection = wsproto.WSConnection(wsproto.ConnectionType.SERVER)

    def feed(self, data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """Return what to send at once, and the messages in `data` with their ids."""
        self.connection.receive_data(data)
        answer, messages = b"", []
        for event in self.connection.events():
            if isinstance(event, Request):
                answer += self.connection.send(AcceptConnection())
            elif isinstance(event, BytesMessage):
                messages.append((b"", bytes(event.data)))
        return answer, messages

    def wrap(self, message: bytes, mid: bytes = b"") -> bytes:  # noqa: ARG002 - other transports have ids
        """Return a sound frame around a message; publications are packed twice."""
        body = salt.payload.dumps(message, use_bin_type=True) if self.publish else message
        return self.connection.send(BytesMessage(body))


SPEAKERS: dict[str, Callable[..., Any]] = {"zeromq": ZeromqSpeaker, "tcp": TcpSpeaker, "ws": WsSpeaker}


def put(writer: asyncio.StreamWriter, data: bytes) -> bool:
    """Write to a peer that may have hung up meanwhile; return whether it hasn't."""
    if not writer.transport.is_closing():
        writer.write(data)
    return not writer.transport.is_closing()


class Forge:
    """Makes malformed frames out of the honest ones of a master; all its chance comes from `rng`."""

    def __init__(self, master: Any, rng: random.Random) -> None:
        """Make honest publications and answers to spoil."""
        self.rng = rng
        wrong = salt.crypt.Crypticle.generate_key_string()
        self.jobs: list[bytes] = [master.publish({**PING, "jid": f"2{number}"}, number + 1) for number in range(8)]
        self.strangers: list[bytes] = [
            master.publish({**PING, "jid": f"3{number}"}, number + 1, wrong) for number in range(8)
        ]
        odd: tuple[Any, ...] = (
            {"fun": 3},
            {**PING, "jid": 7},
            {**PING, "tgt": {"a": [1]}, "jid": "5"},
            {"tgt_type": []},
        )
        odd += tuple({**PING, "jid": f"6{kind}", "tgt": tgt, "tgt_type": kind} for kind in ("pcre", "compound", "x")
                     for tgt in ("(", "G@ and (", "and", ""))  # fmt: skip
        self.odd: list[bytes] = [master.publish(load, 99) for load in odd]
        self.answer = salt.payload.dumps(salt.crypt.Crypticle(None, wrong).dumps({"ok": 1}, "0" * 32))
        self.kinds: tuple[Callable[[], bytes], ...] = (
            self.noise, self.wrong_hmac, self.wrong_signature, self.truncated_ciphertext, self.mutated, self.cut,
            self.huge_header, self.nested, self.bad_utf8, self.odd_job, self.wrong_nonce, self.odd_answer, self.large,
        )  # fmt: skip

    def message(self) -> bytes:
        """Return a malformed message."""
        return self.rng.choice(self.kinds)()

    def noise(self) -> bytes:
        """Return random bytes."""
        return self.rng.randbytes(self.rng.randint(0, 3000))

    def large(self) -> bytes:
        """Return a publication without a signature, half a megabyte now and then, that no key opens."""
        load = self.rng.randbytes(2**19 if self.rng.random() < 0.1 else 400)
        return bytes(salt.payload.dumps({"enc": "aes", "load": load}))

    def wrong_hmac(self) -> bytes:
        """Return a publication sealed with another key."""
        return self.rng.choice(self.strangers)

    def spoiled(self, change: Callable[[dict[str, Any]], object]) -> bytes:
        """Return a publication with something changed in its envelope."""
        payload = salt.payload.loads(self.rng.choice(self.jobs))
        change(payload)
        return bytes(salt.payload.dumps(payload))

    def wrong_signature(self) -> bytes:
        """Return a publication that somebody else has signed, or with a strange algorithm, or nobody's."""
        value = self.rng.choice((self.rng.randbytes(256), b"x", "x", 7, ["x"]))
        field = self.rng.choice(("sig", "sig", "sig_algo", "enc", "load"))
        return self.spoiled(lambda payload: payload.update({field: value}))

    def truncated_ciphertext(self) -> bytes:
        """Return a publication whose ciphertext ends early; nobody signed it, or its signature is of the whole one."""
        keep = self.rng.randint(0, 300)

        def cut(payload: dict[str, Any]) -> None:
            payload["load"] = payload["load"][:keep]
            if self.rng.random() < 0.5:
                del payload["sig"]

        return self.spoiled(cut)

    def mutated(self) -> bytes:
        """Return a publication in which some bits have changed."""
        data = bytearray(self.rng.choice(self.jobs))
        for _ in range(self.rng.randint(1, 8)):
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        return bytes(data)

    def cut(self) -> bytes:
        """Return a publication that ends early."""
        data = self.rng.choice(self.jobs)
        return data[: self.rng.randrange(len(data))]

    def huge_header(self) -> bytes:
        """Return a header of something with billions of entries, or many of them within each other."""
        header = self.rng.choice(
            (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdc\xff\xff")
        )
        return header * self.rng.choice((1, 2, 600)) + self.rng.randbytes(20)

    def nested(self) -> bytes:
        """Return lists or maps within each other, as deep as msgpack takes them or deeper."""
        depth = self.rng.choice((400, 1000, 5000))
        return self.rng.choice((b"\x91" * depth + b"\xc0", b"\x81\xa1a" * depth + b"\xc0", b"\x81" * depth + b"\xc0"))

    def bad_utf8(self) -> bytes:
        """Return an envelope with names and values that aren't text."""
        return bytes(salt.payload.dumps({b"enc": b"\xff\xfe", b"\xc3\x28": b"\xe2\x82", b"load": {b"\xf0": b"\xff"}}))

    def odd_job(self) -> bytes:
        """Return a publication that is sealed and signed well and holds no sound job."""
        return self.rng.choice(self.odd)

    def wrong_nonce(self) -> bytes:
        """Return an answer sealed with another key, or cut short, or in the clear."""
        return bytes(self.rng.choice((self.answer, self.answer[:-7], self.answer[:40], salt.payload.dumps("bad load"))))

    def odd_answer(self) -> bytes:
        """Return an answer to signing in or to a question for a pillar that makes no sense."""
        signed = {"load": self.rng.randbytes(90), "sig": self.rng.randbytes(256), "enc": "clear"}
        pillar = {"key": self.rng.randbytes(256), "pillar": self.rng.randbytes(200)}
        inner = salt.payload.dumps({"pub_key": "x", "aes": b"", "nonce": 1, "session": 3})
        refused = {"enc": "clear", "load": {"ret": self.rng.choice(("full", "bad enc algo", 3))}}
        return bytes(salt.payload.dumps(self.rng.choice((signed, pillar, {**signed, "load": inner}, refused, [1], {}))))

    def frame(self, speaker: Any, honest: bytes) -> bytes:
        """Return bytes that are no sound frame of a transport."""
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.noise()
        if kind == 1:
            return bytes(self.rng.choice(speaker.oversize)) + self.rng.randbytes(self.rng.randint(0, 50))
        data = bytearray(honest)
        if kind == 2:
            return bytes(data[: self.rng.randrange(1, len(data))])
        for _ in range(4):
            data[self.rng.randrange(min(len(data), 24))] ^= 1 << self.rng.randrange(8)
        return bytes(data)


@dataclass
class Master:
    """A master on two ports: honest until `hostile` is set, and then until its quota of malformed frames is sent."""

    salt: Any
    forge: Forge
    speaker: Callable[..., Any]
    hostile: bool = False
    sent: dict[str, int] = field(default_factory=lambda: {"request": 0, "publish": 0})
    subscribers: set[tuple[asyncio.StreamWriter, Any]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, publish: bool) -> None:
        """Serve one connection until one side ends it."""
        speaker = self.speaker(publish=publish)
        put(writer, speaker.greeting)
        useful = True
        with suppress(OSError, wsproto.utilities.ProtocolError):
            while useful and (data := await reader.read(65536)):
                answer, messages = speaker.feed(data)
                put(writer, answer)
                if publish:
                    self.subscribers.add((writer, speaker))
                    continue
                for mid, message in messages:
                    useful = useful and await self._answer(writer, speaker, mid, message)
        self.subscribers.discard((writer, speaker))
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, speaker: Any, mid: bytes, message: bytes) -> bool:
        """Answer a request, honestly or not; return whether the connection is still of use."""
        if self.hostile and self.sent["request"] < FRAMES_EACH and self.forge.rng.random() < 0.7:
            for _ in range(8):
                self.sent["request"] += put(writer, speaker.wrap(self.forge.message(), mid))
            if self.forge.rng.random() < 0.5:
                self.sent["request"] += put(writer, self.forge.frame(speaker, speaker.wrap(self.forge.answer, mid)))
                return False
            return True
        reply = await self.salt.channel.handle_message(salt.payload.loads(message))
        put(writer, speaker.wrap(salt.payload.dumps(reply), mid))
        return True

    def publish(self, message: bytes) -> None:
        """Publish to everybody."""
        for writer, speaker in list(self.subscribers):
            put(writer, speaker.wrap(message))

    async def assail(self, deadline: float) -> None:
        """Send malformed publications, and honest jobs between them so that there is something to answer."""
        number = 0
        while min(self.sent.values()) < FRAMES_EACH and time.monotonic() < deadline:
            number += 1
            self.publish(self.salt.publish({**PING, "jid": f"4{number}"}, 0))
            for writer, speaker in list(self.subscribers):
                if self.sent["publish"] >= FRAMES_EACH:
                    break
                for _ in range(MESSAGES):
                    self.sent["publish"] += put(writer, speaker.wrap(self.forge.message()))
                if self.forge.rng.random() < 0.5:
                    self.sent["publish"] += put(writer, self.forge.frame(speaker, speaker.wrap(self.forge.jobs[0])))
                    self.subscribers.discard((writer, speaker))
                    writer.close()
            await asyncio.sleep(0.1)


@pytest.fixture
def errors(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return what the worker has printed."""
    return lambda: capfd.readouterr().err


@pytest.mark.timeout(300)
@pytest.mark.parametrize("transport", SPEAKERS)
def test_hostile_master(
    transport: str,
    master: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    errors: Callable[[], str],
) -> None:
    """Thousands of malformed frames leave the worker as it was: same process, same size, no exception, good returns."""
    load_pool(tmp_path)

    async def scenario() -> None:
        forge = Forge(master, random.Random(f"{transport} 1"))  # noqa: S311 - chance that can be repeated
        evil = Master(master, forge, SPEAKERS[transport])
        deadline = time.monotonic() + DEADLINE_S

        async def until(met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            while True:
                status = await worker.ask({"do": "status"})
                if met(status):
                    return status
                assert time.monotonic() < deadline, status
                await asyncio.sleep(0.05)

        requests = await asyncio.start_server(lambda r, w: evil.serve(r, w, publish=False), "127.0.0.1", 0)
        publisher = await asyncio.start_server(lambda r, w: evil.serve(r, w, publish=True), "127.0.0.1", 0)
        monkeypatch.setitem(master.opts, "publish_port", publisher.sockets[0].getsockname()[1])
        port = requests.sockets[0].getsockname()[1]
        worker = await WorkerLink.start(
            fleets.settings(
                tmp_path,
                MINIONS,
                master="127.0.0.1",
                request_port=port,
                id_format=transport + "-{}",
                transport=transport,
            )
        )
        try:
            await worker.ask({"do": "begin"})
            before = await until(lambda status: status["ready"] == MINIONS)
            evil.hostile = True
            await evil.assail(deadline)
            assert min(evil.sent.values()) >= FRAMES_EACH
            evil.hostile = False
            after = await worker.ask({"do": "status"})
            # a connection that comes back introduces itself first
            live = len(evil.subscribers)
            acked = after["counters"]["returns_acked"]
            evil.publish(master.publish({**PING, "jid": "9"}, 0))
            await until(lambda status: status["counters"]["returns_acked"] - acked >= live // 2)
            end = await until(lambda status: status["executing"] == 0)
            assert worker.child.process.returncode is None
            assert end["counters"]["errors"] == 0
            first, later, last = (status["processes"][0]["rss_kb"] for status in (before, after, end))
            assert later - first <= GROWTH_KB + after["executing"] * WAITING_KB
            assert last - first <= GROWTH_KB
            assert live
        finally:
            await worker.child.stop()
            for server in (requests, publisher):
                server.close()

    asyncio.run(scenario())
    assert errors().replace("Trying again.", "").count("Traceback") == 0
