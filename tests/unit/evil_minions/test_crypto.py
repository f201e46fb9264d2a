"""Packing and sealing as Salt does it: each side takes what the other has made."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import salt.crypt
import salt.payload
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evil_minions.errors import CryptoError
from evil_minions.protocol import envelope, keys

KEY = salt.crypt.Crypticle.generate_key_string()
NONCE = "0123456789abcdef" * 2
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS | st.binary(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)

# a busy machine takes its time
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@PATIENT
@given(VALUES)
def test_packs_what_salt_packs(value: Any) -> None:
    """Bytes and values are those of Salt, whatever is packed."""
    data = envelope.dumps(value)
    assert data == salt.payload.dumps(value)
    assert envelope.loads(data) == salt.payload.loads(data)


@pytest.mark.parametrize(
    "value",
    [
        2**70,
        {"a": 2**64},
        {1, 2},
        dt.datetime(2026, 11, 22, 3, 4, 5),  # noqa: DTZ001 - as Salt has them
        {"x" * 70_000: b"y" * 70_000},
    ],
)
def test_packs_what_only_salt_knows(value: object) -> None:
    """Types that msgpack doesn't have are packed by Salt; large values have room."""
    assert envelope.dumps(value) == salt.payload.dumps(value)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 65_535, 65_536])
def test_blob(size: int) -> None:
    """The bytes of a message that is nothing but bytes are found without unpacking; all else is left."""
    for data in (salt.payload.dumps(b"\xff" * size), salt.payload.dumps(b"\xff" * size, use_bin_type=True)):
        assert envelope.blob(data) in (b"", b"\xff" * size)
        assert envelope.blob(data + b"\0") == envelope.blob(data[:-1]) == b""
    assert envelope.blob(salt.payload.dumps(b"\xff" * 200)) == b"\xff" * 200
    assert envelope.blob(b"") == envelope.blob(salt.payload.dumps({"a": b"\xff" * 200})) == b""


@PATIENT
@given(st.binary(max_size=100))
def test_seals_what_salt_opens(plain: bytes) -> None:
    """A Crypticle opens what is sealed here, and the other way round."""
    crypticle = salt.crypt.Crypticle(None, KEY)
    assert crypticle.decrypt(keys.encrypted(plain, KEY)) == plain
    assert keys.decrypted(crypticle.encrypt(plain), KEY) == plain


def test_every_changed_byte_is_noticed() -> None:
    """A sealed message of which any byte is another one, or is missing, doesn't open; nor does it with another key."""
    message = keys.encrypted(b"pickle::value", KEY)
    for place in range(len(message)):
        changed = bytearray(message)
        changed[place] ^= 1
        for wrong in (bytes(changed), message[:place]):
            with pytest.raises(CryptoError):
                keys.decrypted(wrong, KEY)
    with pytest.raises(CryptoError):
        keys.decrypted(message, salt.crypt.Crypticle.generate_key_string())
    with pytest.raises(ValueError, match="size"):
        keys.decrypted(message, "AAAA")


@pytest.mark.parametrize("value", [None, True, False, "", [], {"a": 1}, b"\xff" * 300, {"a": 1, "serial": 3}])
def test_answers_are_those_that_a_crypticle_opens(value: object) -> None:
    """An answer opens to what a Crypticle makes of it, short and long ones; a number of a publication is taken off."""
    sealed = salt.crypt.Crypticle(None, KEY).dumps(value, NONCE)
    answer = salt.payload.dumps(sealed)
    assert envelope.decrypted(answer, KEY, NONCE) == salt.crypt.Crypticle(None, KEY).loads(sealed, nonce=NONCE)
    with pytest.raises(CryptoError):
        envelope.decrypted(answer, KEY, NONCE[::-1])


def test_answer_that_holds_no_value() -> None:
    """What is sealed well and doesn't begin as values do is an empty answer, as a Crypticle has it."""
    answer = salt.payload.dumps(keys.encrypted(b"something else" * 5, KEY))
    assert envelope.decrypted(answer, KEY, NONCE) == {}
