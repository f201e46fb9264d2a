"""Messages of the request port as bytes: what is inside, and who may read it.

What every request needs has code of its own, here and in `evil_minions.protocol.keys`. All else is Salt's (payload,
crypt), without the objects that Salt keeps for each minion: for ten thousand minions they would take gigabytes.

Salt's `dumps` has msgpack reserve a megabyte each time, which a worker's allocator fetches from the system and gives
back: two requests to the kernel and a page to fill for half a kilobyte. What only Salt's own code knows goes there.
Source: salt/channel/client.py, crypt.py, minion.py, payload.py and pillar/__init__.py of Salt 3008.5, and requests
recorded from a minion.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgpack
import salt.crypt
import salt.exceptions
import salt.payload

from evil_minions.errors import CryptoError, ForgeryError
from evil_minions.protocol import keys

if TYPE_CHECKING:
    from evil_minions.protocol.keys import MasterKey, MinionKey

_PAD: Final = salt.crypt.Crypticle.PICKLE_PAD
_NEEDED: Final = ("tgt", "jid", "fun", "arg")


def decrypt(frame: bytes, aes: str, master: MasterKey) -> Load:
    """Return the load of a publication.

    Raises:
        CryptoError: if the HMAC is wrong, as after the master has changed its key.
        ForgeryError: if the master's signature is wrong, or the frame holds something else.
    """
    try:
        payload = salt.payload.loads(frame)
        if payload["enc"] != "aes":
            raise ForgeryError("The publication isn't encrypted.")
        signature = payload.get("sig")
        if signature and (
            master.public is None or not master.public.verify(payload["load"], signature, payload["sig_algo"])
        ):
            raise ForgeryError("The publication isn't signed by the master.")
        plain = salt.crypt.Crypticle(None, aes).decrypt(payload["load"])
        if not plain.startswith(_PAD):
            raise ForgeryError("The publication holds something else than a job.")
        load = salt.payload.loads(plain[len(_PAD) :])
    except salt.exceptions.AuthenticationError as error:
        raise CryptoError("The publication doesn't authenticate.") from error
    except (salt.exceptions.SaltException, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ForgeryError("The publication makes no sense.") from error
    if not isinstance(load, dict):
        raise ForgeryError("The publication holds something else than a job.")
    return load


def is_job(load: Load) -> bool:
    """Return whether a load has the keys of a job, with the types that they must have."""
    fun = load.get("fun")
    names = fun if isinstance(fun, list) else [fun]
    return (
        all(name in load for name in _NEEDED)
        and bool(names)
        and all(isinstance(name, str) for name in names)
        and isinstance(load["jid"], str)
        and isinstance(load["arg"], list)
    )


# the buffer grows if a value needs more
_BUFFER_SIZE: Final = 4096
# what most answers are, by their bytes; none of them can be changed by who gets it
_SCALARS: Final = {bytes(salt.payload.dumps(value)): value for value in (None, True, False, "")}
# headers of strings and of bytes with a size of one and of two bytes
_HEADERS: Final = {0xD9: 2, 0xC4: 2, 0xDA: 3, 0xC5: 3}


class _UnusualError(Exception):
    """A value isn't one of msgpack's own types."""


def _unusual(_value: object) -> NoReturn:
    """Leave a value to Salt."""
    raise _UnusualError


def dumps(value: object) -> bytes:
    """Return a value as `salt.payload.dumps` packs it."""
    try:
        return bytes(msgpack.Packer(default=_unusual, use_bin_type=False, buf_size=_BUFFER_SIZE).pack(value))
    except (_UnusualError, OverflowError, ValueError):
        return bytes(salt.payload.dumps(value))


def loads(data: bytes) -> Any:
    """Return the value that `salt.payload.loads` unpacks.

    Raises:
        SaltDeserializationError: if it isn't msgpack.
    """
    try:
        return _SCALARS[data]
    except KeyError:
        return salt.payload.loads(data)


def blob(data: bytes) -> bytes:
    """Return the bytes that are all of a message, empty if it holds something else."""
    size = len(data)
    header = _HEADERS.get(data[0], 0) if size else 0
    if not header or int.from_bytes(data[1:header], "big") != size - header:
        return b""
    return data[header:]


_START_EVENT_KEYS = ("jid", "fun", "tgt", "tgt_type", "user")


def pillar(minion_id: str, grains: dict[str, Any], override: dict[str, Any] | None, *, clean_cache: bool) -> Load:
    """Return the load that asks for a pillar; `override` is pillar data that goes into its compilation."""
    load: Load = {
        "id": minion_id,
        "grains": grains,
        "saltenv": None,
        "pillarenv": None,
        "pillar_override": override or {},
        "extra_minion_data": {},
        "ver": "2",
        "cmd": "_pillar",
    }
    return {**load, "clean_cache": True} if clean_cache else load


def event(minion_id: str, token: bytes, tag: str, data: object) -> Load:
    """Return the load of an event for the master's bus; those of beacons come in lists, so the bus shows them bare."""
    if tag.startswith("salt/beacon/"):
        events = [{"tag": tag, "data": data, "beacon_name": tag.split("/")[3]}]
        return {"id": minion_id, "cmd": "_minion_event", "pretag": None, "tok": token, "events": events}
    return {"id": minion_id, "cmd": "_minion_event", "pretag": None, "tok": token, "data": data, "tag": tag}


def job_start(minion_id: str, load: Load) -> dict[str, Any]:
    """Return the data of the event that says that a job begins, for publications that ask for it."""
    return {"id": minion_id} | {name: load.get(name) for name in _START_EVENT_KEYS}


def registration(minion_id: str, token: bytes) -> Load:
    """Return the load that tells the master that this minion manages no resources."""
    return {"cmd": "_register_resources", "id": minion_id, "resources": {}, "resource_grains": {}, "tok": token}


Load = dict[str, Any]

ENCRYPTION: Final = salt.crypt.OAEP_SHA1
SIGNING: Final = salt.crypt.PKCS1v15_SHA1
VERSION: Final = 3
_NONCE_SIZE: Final = 32
_NONCE_START: Final = len(keys.PAD)
_NONCE_END: Final = _NONCE_START + _NONCE_SIZE
# of encrypted answers: initial vector, the blocks of a nonce, HMAC; what is shorter is a plain text
_SHORTEST: Final = 16 + 48 + 32


def nonce() -> str:
    """Return a new nonce of 32 hexadecimal digits."""
    return os.urandom(_NONCE_SIZE // 2).hex()


def clear(load: Load) -> bytes:
    """Return a request in the clear, as signing in uses."""
    return bytes(salt.payload.dumps({"enc": "clear", "load": load, "version": VERSION}))


def encrypted(load: Load, minion_id: str, key: MinionKey, session: str, number: str) -> bytes:
    """Return a request encrypted with the minion's session key; `number` is its nonce."""
    inner = {**load, "nonce": number, "ts": int(time.time()), "tok": key.token, "id": minion_id}
    return dumps(
        {
            "enc": "aes",
            "load": keys.encrypted(keys.PAD + dumps(inner), session),
            "version": VERSION,
            "id": minion_id,
            "enc_algo": ENCRYPTION,
            "sig_algo": SIGNING,
        }
    )


def introduction(minion_id: str, key: MinionKey, aes: str) -> bytes:
    """Return what a subscriber says of itself, encrypted with the key of publications (AsyncPubChannel.send_id)."""
    inner = {"id": minion_id, "tok": key.token}
    secret = salt.crypt.Crypticle(None, aes).dumps(inner)
    return bytes(salt.payload.dumps({"enc": "aes", "load": secret, "version": VERSION}))


def reply(data: bytes) -> Any:
    """Return the reply in `data`, not decrypted.

    Raises:
        CryptoError: if it isn't msgpack.
    """
    try:
        return salt.payload.loads(data)
    except salt.exceptions.SaltDeserializationError as error:
        raise CryptoError("The master's reply isn't msgpack.") from error


def decrypted(data: bytes, session: str, number: str) -> Any:
    """Return what the master answered to an encrypted request with the nonce `number`.

    Raises:
        CryptoError: if the answer isn't encrypted with this session key, or answers another request; a plain text such
            as "bad load" is what a master says to a session that it doesn't know.
    """
    answer = blob(data) or reply(data)
    if not answer:
        return answer
    if not isinstance(answer, bytes) or len(answer) < _SHORTEST:
        raise CryptoError(f"The master answered {str(reply(data))[:80]!r}.")
    try:
        plain = keys.decrypted(answer, session)
        if not plain.startswith(keys.PAD):
            return {}
        if plain[_NONCE_START:_NONCE_END].decode() != number:
            raise CryptoError("The answer doesn't authenticate: it is for another request.")
        value = loads(plain[_NONCE_END:])
    except (salt.exceptions.SaltException, ValueError, IndexError) as error:
        raise CryptoError("The master's answer doesn't authenticate.") from error
    if isinstance(value, dict) and value.pop("serial", 1) <= 0:
        return {}
    return value


def decrypted_private(data: bytes, key: MinionKey, master: MasterKey, number: str) -> Any:
    """Return the pillar that the master encrypted for this key and signed.

    Raises:
        CryptoError: if any of key, HMAC, signature, inner key or nonce doesn't agree.
    """
    answer = reply(data)
    if not isinstance(answer, dict) or "key" not in answer or "pillar" not in answer or master.public is None:
        raise CryptoError("The master gave no pillar.")
    try:
        secret = key.private.decrypt(answer["key"], ENCRYPTION)
        signed = salt.crypt.Crypticle(None, secret).loads(answer["pillar"])
        if not master.public.verify(signed["data"], signed["sig"], SIGNING):
            raise CryptoError("The pillar isn't signed by the master.")
        inner = salt.payload.loads(signed["data"])
        if inner["key"] != answer["key"] or inner["nonce"] != number:
            raise CryptoError("The pillar answers another request.")
        return inner["pillar"]
    except (salt.exceptions.SaltException, ValueError, KeyError, TypeError, AssertionError) as error:
        raise CryptoError("The pillar doesn't authenticate.") from error
