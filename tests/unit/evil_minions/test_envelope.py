"""Encrypted requests and pillars, against Salt's own server side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import salt.crypt
import salt.payload

from evil_minions.errors import CryptoError
from evil_minions.protocol import auth, envelope

if TYPE_CHECKING:
    from evil_minions.protocol.keys import MasterKey, MinionKey

MINION = "minion-1"


@pytest.fixture
def session(master: Any, key: MinionKey, master_key: MasterKey) -> str:
    """Sign in, and return the session key."""
    attempt = auth.question(MINION, key, master_key, key.secret)
    reply = envelope.reply(master.handle(envelope.clear(attempt.load)))
    return auth.answer(attempt, reply, key, master_key).session


def test_sealed_request(master: Any, key: MinionKey, session: str) -> None:
    """Salt's server decrypts and verifies a request, and its answer opens."""
    number = envelope.nonce()
    answer = master.handle(envelope.encrypted({"cmd": "_return", "return": 1}, MINION, key, session, number))
    assert envelope.decrypted(answer, session, number) == {"ok": "_return"}
    assert {name: master.seen[-1][name] for name in ("cmd", "return", "id")} == {
        "cmd": "_return",
        "return": 1,
        "id": MINION,
    }


def test_wrong_session_is_a_bad_load(master: Any, key: MinionKey, session: str) -> None:
    """Salt's server refuses another session key, and that is told apart from an answer."""
    assert session
    other = salt.crypt.Crypticle.generate_key_string()
    answer = master.handle(envelope.encrypted({"cmd": "_return"}, MINION, key, other, envelope.nonce()))
    assert envelope.reply(answer) == "bad load"
    with pytest.raises(CryptoError, match="bad load"):
        envelope.decrypted(answer, other, envelope.nonce())


def test_another_minions_session_is_a_bad_load(master: Any, key: MinionKey, session: str) -> None:
    """Salt's server refuses a request in another minion's name."""
    assert session
    load = {"cmd": "_return"}
    answer = master.handle(envelope.encrypted(load, "minion-2", key, session, envelope.nonce()))
    assert envelope.reply(answer) == "bad load"


def test_answer_to_another_request(master: Any, key: MinionKey, session: str) -> None:
    """An answer with another nonce doesn't open."""
    answer = master.handle(envelope.encrypted({"cmd": "_return"}, MINION, key, session, envelope.nonce()))
    with pytest.raises(CryptoError, match="authenticate"):
        envelope.decrypted(answer, session, envelope.nonce())


def test_pillar(master: Any, key: MinionKey, master_key: MasterKey, session: str) -> None:
    """A pillar that Salt's server encrypted and signed opens."""
    number = envelope.nonce()
    answer = master.handle(envelope.encrypted({"cmd": "_pillar"}, MINION, key, session, number))
    assert envelope.decrypted_private(answer, key, master_key, number) == {"a": {"b": 1}}


def test_pillar_for_another_request(master: Any, key: MinionKey, master_key: MasterKey, session: str) -> None:
    """A pillar with another nonce doesn't open."""
    answer = master.handle(envelope.encrypted({"cmd": "_pillar"}, MINION, key, session, envelope.nonce()))
    with pytest.raises(CryptoError, match="another request"):
        envelope.decrypted_private(answer, key, master_key, envelope.nonce())


@pytest.mark.parametrize(
    "value", ["bad load", None, {}, {"key": b"", "pillar": b""}, {"key": b"x" * 256, "pillar": b"x"}]
)
def test_pillar_of_nonsense(key: MinionKey, master_key: MasterKey, value: object) -> None:
    """Whatever else comes instead of a pillar is the one error."""
    with pytest.raises(CryptoError):
        envelope.decrypted_private(salt.payload.dumps(value), key, master_key, envelope.nonce())


@pytest.mark.parametrize("data", [b"", b"\xc1", salt.payload.dumps(b"x" * 100), salt.payload.dumps("x" * 100)])
def test_answer_of_nonsense(data: bytes) -> None:
    """Whatever else comes instead of an answer is the one error."""
    with pytest.raises(CryptoError):
        envelope.decrypted(data, salt.crypt.Crypticle.generate_key_string(), envelope.nonce())
