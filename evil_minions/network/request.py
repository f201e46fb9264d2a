"""Requests to the master: how each kind is packed, and how its answer is opened.

A request is packed again for every try, with a new nonce and time, as the real minion does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from evil_minions.errors import CryptoError
from evil_minions.protocol import envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.samples.counters import Counters


class Sender(Protocol):
    """What a request needs to know of the minion that sends it."""

    id: str
    key: MinionKey
    session: str

    @property
    def master(self) -> MasterKey:
        """The key of the master."""


class Request:
    """One request in the clear, and what has become of it.

    `timeout` is the seconds before the next of `tries`; `done` is called once, with the request and its answer, or
    with None if `failed`.
    """

    __slots__ = ("attempts", "done", "failed", "load", "since", "timeout", "tries")

    def __init__(self, load: Load, timeout: float, tries: int, done: Callable[[Any, Any], None]) -> None:
        """Prepare; a channel sends it."""
        self.load = load
        self.timeout = timeout
        self.tries = tries
        self.done = done
        self.attempts = 0
        self.since = 0.0
        self.failed = False

    def count(self, counters: Counters) -> None:
        """Count one send in what only this kind of request has."""

    def pack(self, sender: Sender) -> bytes:  # noqa: ARG002 - other kinds need the sender
        """Return the bytes of one try."""
        return envelope.clear(self.load)

    def unpack(self, sender: Sender, data: bytes) -> Any:  # noqa: ARG002 - the master's answer
        """Return the answer to the latest try.

        Raises:
            CryptoError: if the answer can't be trusted or is for somebody else.

        """
        return envelope.reply(data)


class EncryptedRequest(Request):
    """A request encrypted with the session key: returns, events, the file server."""

    __slots__ = ("_nonce", "_session")

    def pack(self, sender: Sender) -> bytes:
        """Return the bytes of one try; the session key is kept for the answer, as signing in anew may change it."""
        self._nonce = envelope.nonce()
        self._session = sender.session
        return envelope.encrypted(self.load, sender.id, sender.key, self._session, self._nonce)

    def unpack(self, sender: Sender, data: bytes) -> Any:  # noqa: ARG002 - the master's answer
        """Return what the master's function returned."""
        return envelope.decrypted(data, self._session, self._nonce)


class PillarRequest(EncryptedRequest):
    """A request for the pillar, whose answer is for the minion's RSA key and signed by the master."""

    __slots__ = ()

    def count(self, counters: Counters) -> None:
        """Count every send."""
        counters.pillar_requests += 1

    def unpack(self, sender: Sender, data: bytes) -> Any:
        """Return the pillar."""
        return envelope.decrypted_private(data, sender.key, sender.master, self._nonce)


class AuthRequest(Request):
    """A request to sign in."""

    __slots__ = ()

    def unpack(self, sender: Sender, data: bytes) -> Any:
        """Return the reply, or None for one that makes no sense: an error would only lead to signing in again."""
        try:
            return super().unpack(sender, data)
        except CryptoError:
            return None

    def count(self, counters: Counters) -> None:
        """Count every send, and those after the first."""
        counters.auth_sent += 1
        counters.auth_retries += self.attempts > 1
