"""Signing in: the question, and what the master's answer means.

Everything that a real minion checks is checked: the master's key against the one known, the signature of the reply,
the signature of the AES key, the token that only the master could decrypt, the nonce.
Source: salt/crypt.py of Salt 3008.5, AsyncAuth.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import salt.exceptions
import salt.payload

from evil_minions.errors import CryptoError, PendingError, RejectedError, SignInError
from evil_minions.protocol import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey, MinionKey

_JOINT: Final = "_|-"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What signing in gives: the key of all publications, the key of this minion's requests, the publish port."""

    aes: str
    session: str
    publish_port: int


@dataclass(frozen=True, slots=True)
class SignIn:
    """One attempt: the request's load, and the secret token in it (empty if the master's key wasn't known)."""

    load: Load
    token: bytes


def question(
    minion_id: str, key: MinionKey, master: MasterKey | None, token: bytes, grains: Mapping[str, str] | None = None
) -> SignIn:
    """Return an attempt to sign in; `master` is None if this minion hasn't met its master yet.

    `grains` are those by which the master accepts the key, see Salt's `autosign_grains`.
    """
    load: Load = {
        "cmd": "_auth",
        "id": minion_id,
        "nonce": envelope.nonce(),
        "enc_algo": envelope.ENCRYPTION,
        "sig_algo": envelope.SIGNING,
    }
    if grains:
        load["autosign_grains"] = dict(grains)
    if master is None or master.public is None:
        return SignIn({**load, "pub": key.public}, b"")
    return SignIn({**load, "token": master.public.encrypt(token, envelope.ENCRYPTION), "pub": key.public}, token)


def answer(attempt: SignIn, reply: Any, key: MinionKey, master: MasterKey) -> Credentials:
    """Return the credentials in the master's reply.

    Raises:
        PendingError: the key waits to be accepted.
        RejectedError: the key was rejected.
        SignInError: the master is full, refuses the algorithms, or isn't who it should be.
    """
    if not isinstance(reply, dict) or "load" not in reply:
        raise SignInError(f"The master answered {str(reply)[:80]!r} to signing in.")
    if isinstance(reply["load"], dict):
        raise _refusal(reply["load"].get("ret"))
    try:
        return _verified(attempt, reply, key, master)
    except (salt.exceptions.SaltException, CryptoError, ValueError, KeyError, TypeError) as error:
        raise SignInError(f"The master's reply to signing in can't be trusted: {error}") from error


def _refusal(ret: object) -> SignInError:
    """Return the error that stands for `ret` of a reply without keys."""
    if ret is True:
        return PendingError("The key waits to be accepted on the master.")
    if ret is False:
        return RejectedError("The key was rejected on the master.")
    return SignInError(f"The master answered {ret!r} to signing in.")


def _verified(attempt: SignIn, reply: dict[str, Any], key: MinionKey, master: MasterKey) -> Credentials:
    """Check every signature of a reply, and return what it holds."""
    signed = reply["load"]
    inner = salt.payload.loads(signed)
    if "pub_key" in inner and not master.accepts(inner["pub_key"]):
        raise CryptoError("it has another key than the one in the folder; delete master.pub there if that is right.")
    if master.public is not None and not master.public.verify(signed, reply["sig"], envelope.SIGNING):
        raise CryptoError("its signature is wrong.")
    if inner["nonce"] != attempt.load["nonce"]:
        raise CryptoError("it answers another attempt.")
    if "pub_key" not in inner:
        raise _refusal(inner.get("ret"))
    return Credentials(
        aes=_publication_key(attempt, inner, key, master),
        session=key.private.decrypt(inner["session"], envelope.ENCRYPTION).decode(),
        publish_port=int(inner["publish_port"]),
    )


def _publication_key(attempt: SignIn, inner: dict[str, Any], key: MinionKey, master: MasterKey) -> str:
    """Return the AES key of publications, after its signature and the token that came back with it."""
    plain: bytes = key.private.decrypt(inner["aes"], envelope.ENCRYPTION)
    digest = hashlib.sha256(plain).hexdigest().encode()
    if master.public is None or master.public.decrypt(inner["sig"]) != digest:
        raise CryptoError("the signature of its AES key is wrong.")
    secret, _, echo = plain.decode().partition(_JOINT)
    if attempt.token:
        if not echo and "token" in inner:
            echo = key.private.decrypt(inner["token"], envelope.ENCRYPTION).decode()
        if echo.encode() != attempt.token:
            raise CryptoError("it couldn't decrypt the token.")
    return secret
