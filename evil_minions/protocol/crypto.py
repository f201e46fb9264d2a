"""AES-CBC under an HMAC, as salt.crypt.Crypticle does it, for keys that are used once in a while.

A Crypticle spends most of its time on objects and on Python's own HMAC; with a key for each minion none of them is
worth keeping. A Crypticle decrypts what is encrypted here, and the other way round.
Source: salt/crypt.py of Salt 3008.5, Crypticle.
"""

from __future__ import annotations

import binascii
import hmac
import os
from typing import Final

import salt.crypt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from evil_minions.errors import CryptoError

PAD: Final = salt.crypt.Crypticle.PICKLE_PAD
_BLOCK: Final = salt.crypt.Crypticle.AES_BLOCK_SIZE
_SIGNATURE: Final = salt.crypt.Crypticle.SIG_SIZE
_KEY_SIZE: Final = 192 // 8
_PADDINGS: Final = tuple(bytes((size,)) * size for size in range(_BLOCK + 1))


def _keys(session: str) -> tuple[bytes, bytes]:
    """Return the keys of AES and of the HMAC that a key of Salt's holds.

    Raises:
        ValueError: if it isn't one.

    """
    both = binascii.a2b_base64(session)
    if len(both) != _KEY_SIZE + _SIGNATURE:
        raise ValueError("A key has the wrong size.")
    return both[:_KEY_SIZE], both[_KEY_SIZE:]


def encrypted(plain: bytes, session: str) -> bytes:
    """Return `plain` encrypted and signed with a key; it begins with `PAD`.

    Raises:
        ValueError: if the key isn't one.

    """
    aes, mac = _keys(session)
    start = os.urandom(_BLOCK)
    encryptor = Cipher(algorithms.AES(aes), modes.CBC(start)).encryptor()
    data = start + encryptor.update(plain + _PADDINGS[_BLOCK - len(plain) % _BLOCK])
    return data + hmac.digest(mac, data, "sha256")


def decrypted(message: bytes, session: str) -> bytes:
    """Return what is in an encrypted message.

    Raises:
        CryptoError: if its HMAC is wrong.
        ValueError, IndexError: if the key isn't one, or the message has no whole blocks.

    """
    aes, mac = _keys(session)
    data = message[:-_SIGNATURE]
    if not hmac.compare_digest(hmac.digest(mac, data, "sha256"), message[-_SIGNATURE:]):
        raise CryptoError("The message doesn't authenticate.")
    decryptor = Cipher(algorithms.AES(aes), modes.CBC(data[:_BLOCK])).decryptor()
    plain = decryptor.update(data[_BLOCK:]) + decryptor.finalize()
    return plain[: -plain[-1]]
