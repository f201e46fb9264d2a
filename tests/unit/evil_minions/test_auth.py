"""Signing in, against Salt's own server side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import salt.payload

from evil_minions.errors import PendingError, RejectedError, SignInError
from evil_minions.protocol import auth, envelope
from evil_minions.protocol.keys import MasterKey

if TYPE_CHECKING:
    from pathlib import Path

    from evil_minions.protocol.keys import MinionKey


def ask(master: Any, attempt: auth.SignIn) -> Any:
    """Return the master's reply to an attempt."""
    return envelope.reply(master.handle(envelope.clear(attempt.load)))


def test_first_contact(master: Any, key: MinionKey, tmp_path: Path) -> None:
    """A minion that never met its master gets the keys, and the master's key is kept."""
    unmet = MasterKey(tmp_path)
    attempt = auth.question("minion-1", key, None, key.secret)
    credentials = auth.answer(attempt, ask(master, attempt), key, unmet)
    assert "token" not in attempt.load
    assert credentials == auth.Credentials(master.aes, master.channel.session_key("minion-1"), 4505)
    assert MasterKey(tmp_path).pem == master.public


def test_second_contact_proves_the_master(master: Any, key: MinionKey, master_key: MasterKey) -> None:
    """A minion that knows its master sends a token, and the master decrypts it."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    credentials = auth.answer(attempt, ask(master, attempt), key, master_key)
    assert "token" in attempt.load
    assert credentials.aes == master.aes


def test_grains_that_the_master_asks_for(key: MinionKey) -> None:
    """A minion shows the grains by which its master accepts keys, and the field is left out where there are none."""
    assert auth.question("minion-1", key, None, key.secret, {"word": "x"}).load["autosign_grains"] == {"word": "x"}
    assert "autosign_grains" not in auth.question("minion-1", key, None, key.secret).load


def test_wrong_token(master: Any, key: MinionKey, master_key: MasterKey) -> None:
    """A master that returns another token isn't trusted."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    reply = ask(master, attempt)
    with pytest.raises(SignInError, match="token"):
        auth.answer(replace(attempt, token=b"other"), reply, key, master_key)


def test_wrong_nonce(master: Any, key: MinionKey, master_key: MasterKey) -> None:
    """A reply to another attempt isn't taken."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    reply = ask(master, attempt)
    other = auth.question("minion-1", key, master_key, key.secret)
    with pytest.raises(SignInError, match="another attempt"):
        auth.answer(other, reply, key, master_key)


def test_changed_reply(master: Any, key: MinionKey, master_key: MasterKey) -> None:
    """A reply that somebody changed on the way isn't taken."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    reply = ask(master, attempt)
    inner = {**salt.payload.loads(reply["load"]), "publish_port": 1}
    with pytest.raises(SignInError, match="signature is wrong"):
        auth.answer(attempt, {**reply, "load": salt.payload.dumps(inner)}, key, master_key)


def test_another_master(master: Any, key: MinionKey, tmp_path: Path) -> None:
    """A master with another key than the one in the folder isn't trusted."""
    (tmp_path / "master.pub").write_text(key.public)
    attempt = auth.question("minion-1", key, None, key.secret)
    with pytest.raises(SignInError, match="another key"):
        auth.answer(attempt, ask(master, attempt), key, MasterKey(tmp_path))


@pytest.mark.parametrize(
    ("ret", "kind"),
    [(True, PendingError), (False, RejectedError), ("full", SignInError), ("bad enc algo", SignInError)],
)
def test_refusals(key: MinionKey, master_key: MasterKey, ret: object, kind: type[Exception]) -> None:
    """What a master answers to a key that it doesn't accept has a meaning each."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    with pytest.raises(kind) as caught:
        auth.answer(attempt, {"enc": "clear", "load": {"ret": ret}}, key, master_key)
    assert caught.type is kind


@pytest.mark.parametrize("ret", [True, False])
def test_signed_refusals(master: Any, key: MinionKey, master_key: MasterKey, ret: bool) -> None:  # noqa: FBT001 - fixture and case
    """Refusals of today's masters are signed, and mean the same."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    load = salt.payload.dumps({"ret": ret, "nonce": attempt.load["nonce"]})
    reply = {"enc": "clear", "load": load, "sig": master.channel.master_key.sign(load)}
    with pytest.raises(PendingError if ret else RejectedError):
        auth.answer(attempt, reply, key, master_key)


@pytest.mark.parametrize("reply", [None, "bad load", {}, {"load": b"\xc1"}, {"load": b"\x80"}, {"load": 3}])
def test_nonsense(key: MinionKey, master_key: MasterKey, reply: object) -> None:
    """Whatever else comes is an error of signing in, never a crash."""
    attempt = auth.question("minion-1", key, master_key, key.secret)
    with pytest.raises(SignInError):
        auth.answer(attempt, reply, key, master_key)
