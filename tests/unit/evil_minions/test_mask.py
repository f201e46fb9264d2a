"""Masking: what stands in a pillar or below the name of a secret is nowhere in a recording."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evil_minions.recording.record import Collector, Masker, assemble, texts

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nxyz=\n-----END RSA PRIVATE KEY-----"


def masked(pillar: object, value: Any, *public: str, known: tuple[str, ...] = ()) -> Any:
    """Return a value without the secrets of a pillar."""
    masker = Masker(public, known)
    masker.learn_pillar(pillar)
    masker.learn_names(value)
    masker.relevant(texts(value))
    return masker.mask(value)


@pytest.mark.parametrize(
    ("pillar", "value", "expected"),
    [
        ({"a": "long-text"}, "x long-text y", "x <secret-1> y"),
        ({"a": "short"}, "short", "short"),
        ({"password": "short"}, "xshorty", "x<secret-1>y"),
        ({"password": "abc"}, "abc abcd", "<secret-1> abcd"),
        ({"auth": {"db": "admin"}}, "admin", "<secret-1>"),
        (
            {"users": [{"name": "bob", "token": "t0ken"}]},
            {"t0ken": ["t0ken", "bob"]},
            {"<secret-1>": ["<secret-1>", "bob"]},
        ),
        ({"pin": 4829}, {"n": 4829, "s": "4829!", "m": 48290}, {"n": "<secret-1>", "s": "<secret-1>!", "m": 48290}),
        ({"port": 4829}, 4829, 4829),
        ({"a": True, "b": None, "token": ""}, [True, None, "", "True"], [True, None, "", "True"]),
        ({"a": "one line\nother line"}, "+one line\n+other line\n", "+<secret-1>\n+<secret-1>\n"),
        ({"a": 'it\'s "it"'}, json.dumps({"x": 'it\'s "it"'}), '{"x": "<secret-1>"}'),
        ({"a": "p@ss w/rd"}, "u:p%40ss%20w%2Frd p%40ss+w%2Frd", "u:<secret-1> <secret-1>"),
        ({"a": "it's $x here"}, """echo 'it'"'"'s $x here'""", "echo '<secret-1>'"),
        ({"a": "base64 me"}, "YmFzZTY0IG1l", "<secret-1>"),
        ({"a": "redis://app:pw4u@host/0"}, "password pw4u", "password <secret-1>"),
        ({"a": b"bytes here"}, b"bytes here", "<secret-1>"),
        ({}, PEM.replace("\n", "\n+"), "<PEM>"),
        ({}, "x -----BEGIN PGP MESSAGE-----\nabc", "x <PEM>"),
        ({}, "root:$6$abc$" + "x" * 80 + ":1", "root:<hash>:1"),
        (
            {},
            {"password": "from elsewhere", "said": "from elsewhere"},
            {"password": "<secret-1>", "said": "<secret-1>"},
        ),
        ({}, {"passwd": "ab"}, {"passwd": "<secret>"}),
        (
            {"a": "managed", "b": "/etc/motd"},
            {"file_|-m_|-/etc/motd_|-managed": 1},
            {"file_|-m_|-<secret-1>_|-managed": 1},
        ),
    ],
)
def test_secrets_are_replaced(pillar: object, value: object, expected: object) -> None:
    """A secret is found in every form that it takes, and nothing else changes."""
    found = masked(pillar, value)
    assert json.loads(json.dumps(found).replace("<secret-2>", "<secret-1>")) == expected


def test_public_parts_and_known_names_stay() -> None:
    """What the user calls public and what identifies the minion is no secret."""
    pillar = {"roles": ["webserver"], "owner": "web1.example.com", "other": "something"}
    value = "webserver web1.example.com something"
    found = masked(pillar, value, "roles", known=("web1.example.com",))
    assert found == "webserver web1.example.com <secret-1>"


def test_longer_secrets_come_first() -> None:
    """A secret that is part of another one leaves nothing of it."""
    assert masked({"a": "secret", "b": "secret-of-b"}, "secret-of-b secret") == "<secret-2> <secret-1>"


@given(st.text(min_size=6, max_size=20).filter(str.strip), st.text(max_size=10), st.integers(0, 3))
def test_no_secret_survives(secret: str, around: str, form: int) -> None:
    """Whatever a secret is made of, no value holds it afterwards."""
    told = [secret, f"{around}{secret}{around}", json.dumps(secret), repr(secret)][form]
    found = masked({"a": {"b": [secret]}}, {"x": [told]})
    assert secret not in found["x"][0].replace("<secret-1>", "")


def test_a_recording_is_masked_as_a_whole() -> None:
    """Grains, arguments, values, tags and data of events: all are masked, also what only an argument told."""
    collector = Collector("web1", 0.0)
    at = "2026-11-21T10:00:00.{}+00:00"
    new = {"fun": "state.apply", "arg": ["site", {"pillar": {"one": "override!"}, "__kwarg__": True}]}
    collector.feed("salt/job/20261121100000000000/new", {**new, "_stamp": at.format("0")})
    event = {"cmd": "_minion_event", "id": "web1", "data": {"x": "override!"}, "_stamp": at.format("1")}
    collector.feed("custom/topsecret", event)
    back = {"return": {"said": "override! topsecret"}, "retcode": 0, "_stamp": at.format("2")}
    collector.feed("salt/job/20261121100000000000/ret/web1", back)
    grains = {"id": "web1", "motd": "topsecret"}
    recording = assemble("web1", grains, [{"a": "topsecret"}], collector, (), datetime(2026, 11, 21, tzinfo=UTC))
    text = recording.to_json()
    assert "topsecret" not in text
    assert "override!" not in text
    assert recording.answers[0].events[0].tag == "custom/<secret-1>"


def test_thousands_of_secrets_are_filtered_first() -> None:
    """Only what occurs is searched for: a pillar of thousands of values costs one pass."""
    rng = random.Random(1)  # noqa: S311 - no secret
    pillar = {str(number): f"value-{rng.random()}" for number in range(5000)}
    masker = Masker()
    masker.learn_pillar(pillar)
    masker.relevant([f"has {pillar['17']}"])
    assert list(masker._forms) == [pillar["17"]]
