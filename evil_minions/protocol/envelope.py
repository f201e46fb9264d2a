"""Messages of the request port as bytes: what is inside, and who may read it.

What every request needs has code of its own: `evil_minions.protocol.packing`, and encryption with the session key,
`evil_minions.protocol.crypto`. All else is Salt's (salt.payload, salt.crypt), without the objects that Salt keeps for
each minion: for ten thousand minions they would take gigabytes.
Source: salt/channel/client.py of Salt 3008.5, AsyncReqChannel.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

import salt.crypt
import salt.exceptions
import salt.payload

from evil_minions.errors import CryptoError
from evil_minions.protocol import crypto, packing

if TYPE_CHECKING:
    from evil_minions.protocol.keys import MasterKey, MinionKey

Load = dict[str, Any]

ENCRYPTION: Final = salt.crypt.OAEP_SHA1
SIGNING: Final = salt.crypt.PKCS1v15_SHA1
VERSION: Final = 3
_NONCE_SIZE: Final = 32
_NONCE_START: Final = len(crypto.PAD)
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
    return packing.dumps(
        {
            "enc": "aes",
            "load": crypto.encrypted(crypto.PAD + packing.dumps(inner), session),
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
    answer = packing.blob(data) or reply(data)
    if not answer:
        return answer
    if not isinstance(answer, bytes) or len(answer) < _SHORTEST:
        raise CryptoError(f"The master answered {str(reply(data))[:80]!r}.")
    try:
        plain = crypto.decrypted(answer, session)
        if not plain.startswith(crypto.PAD):
            return {}
        if plain[_NONCE_START:_NONCE_END].decode() != number:
            raise CryptoError("The answer doesn't authenticate: it is for another request.")
        value = packing.loads(plain[_NONCE_END:])
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
