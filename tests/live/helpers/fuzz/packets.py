"""The packets of the fuzzer: each follows from its number and the seed alone, so that a failure can be repeated."""

from __future__ import annotations

import base64
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions.protocol import envelope, keys
from tests.live.helpers.fuzz import loads, values

if TYPE_CHECKING:
    from evil_minions import Credentials, MinionKey

# packets of one origin come together, so that what happens on the master has one
BLOCK: Final = 50
NOBODY, MINION = "nobody", "minion"
ORIGINS: Final = (NOBODY, NOBODY, NOBODY, MINION)
# what nobody sends, and how often
KINDS: Final = (("clear", 8), ("envelope", 3), ("word", 3), ("key", 2), ("damaged", 2), ("wire", 2))


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet.

    number, origin, kind: which one it is
    data: a message, or the bytes of a connection if `wire` says so
    command: the command in it, which a mutation may have changed
    """

    number: int
    origin: str
    kind: str
    data: bytes
    command: str = ""
    wire: bool = False

    def __str__(self) -> str:
        """Return its number, its kind and the beginning of its bytes."""
        more = f"... ({len(self.data)} bytes)" if len(self.data) > 400 else ""
        return f"packet {self.number} ({self.origin}, {self.kind} {self.command}) {self.data[:400]!r}{more}"


@dataclass
class Identity:
    """A minion whose key the master has accepted."""

    name: str
    key: MinionKey
    credentials: Credentials


def origin(number: int) -> str:
    """Return who sends the packet of a number."""
    return ORIGINS[number // BLOCK % len(ORIGINS)]


class Packets:
    """The packets of a seed.

    `wires` are sound and unsound pieces of a connection's bytes, as the transport has them, from which a wire packet
    is drawn.
    """

    def __init__(self, seed: int, minion: Identity, public: str, wire: Any) -> None:
        """Take the seed, a minion with a key, the public key of somebody without, and the transport."""
        self.seed = seed
        self.minion = minion
        self._public = public
        self._wire = wire

    def packet(self, number: int) -> Packet:
        """Return the packet of a number."""
        rng = random.Random(f"{self.seed}/{number}")  # noqa: S311 - a repeatable test is no secret
        if origin(number) == MINION:
            command = rng.choice(list(loads.AES))
            return Packet(number, MINION, "session", self._session(rng, command), command)
        kind = rng.choices([name for name, _ in KINDS], [weight for _, weight in KINDS])[0]
        if kind == "wire":
            return Packet(number, NOBODY, kind, self._wire.hostile(rng, self._clear(rng, "ping")), wire=True)
        command = rng.choice(list(loads.CLEAR if kind in {"clear", "envelope", "damaged"} else loads.AES))
        return Packet(number, NOBODY, kind, getattr(self, f"_{kind}")(rng, command), command)

    def _load(self, rng: random.Random, command: str) -> dict[str, Any]:
        """Return a sound load of a command in the clear."""
        load = {"cmd": command, **loads.CLEAR[command]}
        if command == "_auth":
            load |= {"id": f"{values.MARK}{rng.randrange(9)}", "pub": self._public}
        return load

    def _clear(self, rng: random.Random, command: str) -> bytes:
        """Return a request in the clear, with a load that is sound or nearly so."""
        load = values.mutated(rng, self._load(rng, command), rng.choice((0, 1, 1, 1, 2, 4)))
        return values.pack({"enc": "clear", "load": load, "version": envelope.VERSION})

    def _envelope(self, rng: random.Random, command: str) -> bytes:
        """Return a request in the clear whose envelope is none."""
        sound = {"enc": "clear", "load": self._load(rng, command), "version": rng.choice((0, 1, 2, 3, 3, 4))}
        request = values.mutated(rng, {**sound, "id": values.hostile_id(rng)}, rng.choice((0, 1, 2)))
        if isinstance(request, dict) and rng.random() < 0.4:
            request["version"] = values.hostile(rng)
        return values.pack(request)

    def _word(self, rng: random.Random, command: str) -> bytes:
        """Return a command for minions with a word for its encryption that is not `aes`, and without any."""
        word = rng.choice(("x", "pub", "AES", "aes ", "", None, 1, ["aes"], {"aes": 1}, b"aes\0", "clear", "Clear"))
        load = {"cmd": command, "id": "minion-00000", **loads.AES[command]}
        load = values.mutated(rng, load, rng.choice((0, 0, 1, 2)))
        return values.pack({"enc": word, "load": load, "version": envelope.VERSION, "id": rng.choice(self._ids(rng))})

    def _ids(self, rng: random.Random) -> list[Any]:
        """Return ids as somebody without a key would use them."""
        return ["minion-00000", self.minion.name, values.hostile_id(rng)]

    def _key(self, rng: random.Random, command: str) -> bytes:
        """Return an encrypted request whose key the master has not given to anybody, or garbage for it."""
        id_ = rng.choice(self._ids(rng))
        load = {"cmd": command, **loads.AES[command], "id": id_, "tok": rng.randbytes(256), "ts": int(time.time())}
        plain = keys.PAD + values.pack(values.mutated(rng, load, rng.choice((0, 1))))
        wrong = random_key(rng)
        sealed = rng.choice((keys.encrypted(plain, wrong), rng.randbytes(rng.choice((0, 1, 31, 32, 64, 500))), None))
        request = {"enc": "aes", "load": sealed, "version": rng.choice((1, 2, 3, 3, 3)), "id": id_}
        return values.pack(values.mutated(rng, request, rng.choice((0, 0, 1))))

    def _damaged(self, rng: random.Random, command: str) -> bytes:
        """Return a request in the clear of which some bytes are wrong."""
        return values.damaged(rng, self._clear(rng, command))

    def _session(self, rng: random.Random, command: str) -> bytes:
        """Return a request that a minion with a key encrypts, with a load that is sound or nearly so."""
        minion = self.minion
        load = values.mutated(rng, {"cmd": command, **loads.AES[command]}, rng.choice((0, 1, 1, 2, 4)))
        load = load if isinstance(load, dict) else {"cmd": command}
        told = {"nonce": envelope.nonce(), "ts": int(time.time()), "tok": minion.key.token, "id": minion.name}
        if rng.random() < 0.1:
            told = values.mutated(rng, told, 1)
        request = {"enc": "aes", "version": envelope.VERSION, "id": minion.name}
        if rng.random() < 0.1:
            request = values.mutated(rng, request, 1)
        inner = {**load, **told}
        plain = values.pack(inner) if rng.random() < 0.97 else values.damaged(rng, envelope.dumps({"cmd": command}))
        return values.pack({**request, "load": keys.encrypted(keys.PAD + plain, minion.credentials.session)})


def random_key(rng: random.Random) -> str:
    """Return a key of the form that the master gives to minions."""
    return base64.b64encode(rng.randbytes(24 + 32)).decode()
