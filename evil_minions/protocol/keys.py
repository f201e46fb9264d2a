"""The keys on disk, a small pool of RSA keys for all minions and the master's public key; and encryption with AES.

Making a key takes 44 ms, and the master doesn't ask keys to be unique: eight serve any number of minions at the same
cost to the master. They stay in the folder, so that a fleet that starts again is the same fleet.

A Crypticle spends most of its time on objects and on Python's own HMAC; with a key for each minion none of them is
worth keeping. A Crypticle decrypts what is encrypted here, and the other way round.
Source: salt/crypt.py of Salt 3008.5, Crypticle.
"""

from __future__ import annotations

import binascii
import hmac
import os
from typing import TYPE_CHECKING, Final

import salt.crypt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from evil_minions.errors import CryptoError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

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


POOL_SIZE: Final = 8
KEY_BITS: Final = 2048
_TOKEN: Final = b"salt"


class MinionKey:
    """One RSA key: private half, public half as the master stores it, and the token that it makes.

    The token is the same for every request with the same key, which saves a signature each time (as salt.crypt does).
    `secret` is what the master has to decrypt when a minion that knows it signs in.
    """

    __slots__ = ("private", "public", "secret", "token")

    def __init__(self, private_pem: str, public_pem: str) -> None:
        """Load the key from its two PEM texts."""
        self.private = salt.crypt.PrivateKey.from_str(private_pem)
        self.public: str = salt.crypt.clean_key(public_pem)
        self.token: bytes = self.private.encrypt(_TOKEN)
        self.secret: bytes = salt.crypt.Crypticle.generate_key_string().encode()


def load_pool(folder: Path, size: int = POOL_SIZE) -> list[MinionKey]:
    """Return the keys in `folder`/keys, made first if they aren't there.

    Raises:
        UsageError: if a file there isn't a key.
    """
    place = folder / "keys"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    pool = []
    for number in range(size):
        private, public = place / f"minion-{number}.pem", place / f"minion-{number}.pub"
        if not (private.exists() and public.exists()):
            private_pem, public_pem = salt.crypt.gen_keys(KEY_BITS)
            write_private(public, public_pem)
            write_private(private, private_pem)
        try:
            pool.append(MinionKey(private.read_text(), public.read_text()))
        except (salt.exceptions.InvalidKeyError, ValueError) as error:
            raise UsageError(f"{private} is not an RSA key: delete the folder {place} to make new ones.") from error
    return pool


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, all at once: two workers may do the same."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)


class MasterKey:
    """The public key of the master: learnt at the first contact, kept in the folder, compared ever after."""

    __slots__ = ("_path", "known_at_start", "pem", "public")

    def __init__(self, folder: Path) -> None:
        """Read the key if the folder has it."""
        self._path = folder / "master.pub"
        self.pem: str | None = None
        self.public: salt.crypt.PublicKey | None = None
        if self._path.exists():
            self._use(self._path.read_text())
        self.known_at_start = self.public is not None

    def _use(self, pem: str) -> None:
        self.pem = salt.crypt.clean_key(pem)
        self.public = salt.crypt.PublicKey.from_str(self.pem)

    def accepts(self, pem: str) -> bool:
        """Return whether `pem` is the key of the master; the first one is believed and kept, as a real minion does."""
        if self.pem is None:
            self._use(pem)
            write_private(self._path, pem)
        return bool(self.pem == salt.crypt.clean_key(pem))
