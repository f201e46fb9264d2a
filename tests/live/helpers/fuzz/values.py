"""Hostile values, and how they get into a message: everything is drawn from a random generator with a seed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgpack

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

# what was made of a name with this word came from somebody without a key
MARK: Final = "fuzznobody"
# the C extension of msgpack packs no more levels
DEEPEST: Final = 400
LONG: Final = 1 << 20
IDS: Final = ("../{}", "../../{}", "../../../{}", ".", "..", "", "/etc/{}", "{}/x", "{}\n", "{}\0", "%2e%2e/{}", "{}*")


def hostile_id(rng: random.Random) -> Any:
    """Return an id of a minion that is none, or one of a few that nobody has accepted."""
    name = f"{MARK}{rng.randrange(9)}"
    kinds: list[Callable[[], Any]] = [
        lambda: name,
        lambda: rng.choice(IDS).format(name),
        lambda: name + "a" * 300,
        lambda: [name],
        lambda: {name: name},
        lambda: rng.choice((None, True, 7, 1.5, b"\xff" + name.encode(), "minion-00000")),
    ]
    return rng.choice(kinds)()


def nested(rng: random.Random, depth: int) -> Any:
    """Return lists or dictionaries, each in the one before."""
    value: Any = None
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"x": value}
    return value


def hostile(rng: random.Random) -> Any:
    """Return a value that nobody expects."""
    if rng.random() < 0.003:
        return rng.choice(("A", "\x1b", "\u20ac")) * LONG
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice((None, True, False, 0, -1, 1.5, float("nan"), float("inf"), "", b"", [], {})),
        lambda: rng.choice((2**63 - 1, 2**64 - 1, -(2**63), 2**31, 10**15)),
        lambda: hostile_id(rng),
        lambda: nested(rng, rng.choice((3, 40, DEEPEST - 50))),
        lambda: rng.choice(("a\0b", "\ud800", "a\n\nb", "{{ 1 }}", "%s%n", "!!python/object", "$(id)", "*", "I@a:b")),
        lambda: msgpack.ExtType(rng.choice((0, 78, 79, 127)), bytes(rng.randbytes(rng.randrange(12)))),
        lambda: msgpack.Timestamp(rng.choice((0, 2**33, -(2**62))), 1),
        lambda: msgpack.ExtType(78, b"20260101T00:00:00.000000"),
        lambda: msgpack.ExtType(79, msgpack.packb(["name", "value"])),
        lambda: [hostile(rng) for _ in range(rng.randrange(4))],
        lambda: {key: hostile(rng) for key in rng.sample(("id", "cmd", "tag", "jid", "fun", "tgt"), 2)},
        lambda: rng.randbytes(rng.randrange(64)),
        lambda: "x" * rng.choice((255, 256, 300, 4096)),
    ]
    return rng.choice(kinds)()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a value with each of its keys or indexes."""
    waiting = [value]
    while waiting:
        # values may be nested deeper than Python calls functions
        one = waiting.pop()
        for key in list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ():
            yield one, key
            waiting.append(one[key])


def mutated(rng: random.Random, value: Any, changes: int) -> Any:
    """Return a copy of a message in which something is replaced, removed, added or wrapped, so many times."""
    value = copy.deepcopy(value)
    for _ in range(changes):
        found = list(places(value))
        if not found:
            return value
        container, key = rng.choice(found)
        draw = rng.random()
        if draw < 0.6:
            container[key] = hostile_id(rng) if key == "id" else hostile(rng)
        elif draw < 0.75:
            del container[key]
        elif draw < 0.9 and isinstance(container, dict):
            container[rng.choice((key, "extra", 7, None, "\0", b"\xff"))] = hostile(rng)
        else:
            kept = container[key]
            container[key] = rng.choice(([kept], {"x": kept}, "x" if isinstance(kept, dict | list) else str(kept)))
    return value


def pack(value: Any) -> bytes:
    """Return a value as msgpack, with halves of characters as they are."""
    try:
        return bytes(msgpack.packb(value, use_bin_type=False, unicode_errors="surrogatepass"))
    except ValueError:
        # wrapped too often for the packer
        return b"\x91" * (2 * DEEPEST) + b"\xc0"


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return bytes of which some are changed, cut off, repeated or replaced by an announcement of much more."""
    place = rng.randrange(len(data) + 1)
    kinds = [
        data[:place],
        data[:place] + rng.randbytes(1) + data[place + 1 :],
        data[:place] + rng.randbytes(rng.randrange(1, 9)) + data[place:],
        data[:place] + rng.choice((b"\xdb", b"\xc6", b"\xdd", b"\xdf", b"\xc9")) + b"\xff" * 4 + data[place:],
        data + data,
        data[:place] + rng.choice((b"\x91", b"\x81\xa1x")) * rng.choice((600, 1100, 5000)) + data[place:],
        rng.randbytes(rng.randrange(200)),
        b"",
    ]
    return rng.choice(kinds)
