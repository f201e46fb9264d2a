"""Who may approve, ask and reject: another person, whom Salt has authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.team.stage_walk import packages, staged

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]


@pytest.mark.parametrize("caller", ["root", "sudo_ann", "ANN", "ann for bob", "UNKNOWN", "Reactor", "carol"])
def test_who_may_not_approve(states: States, caller: str) -> None:
    """Neither who asked, under whatever name, nor an author of what is new, nor nobody; another person may."""
    staged(states)
    author = {"root": "root", "carol": "carol"}.get(caller, "ann")
    states.by(author).do("set", name="front", package="foo", wanted="latest", author="bob")
    states.by("ann").do("set", name="front", package="bar", wanted="latest")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    error = states.by(caller).refused("approve", request=number)
    assert "erson" in error
    assert packages(states, "web") == {}
    states.by("dora").do("approve", request=number)
    assert set(packages(states, "web")) == {"foo", "bar"}


def test_what_nobody_saved_can_not_be_approved(states: States) -> None:
    """A revision of an orchestration or a reactor has no author, so there is no other person."""
    staged(states)
    states.by("UNKNOWN").do("set", name="front", package="foo", wanted="latest")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "authors of what is new" in states.by("bob").refused("approve", request=number)
    # somebody takes it as theirs
    states.do("rollback", name="front", revision=0)
    states.do("rollback", name="front", revision=1)


ALIASES = ("ANN", "ann@example.com", "EX\\ann", "\uff41nn", " sudo_ann", "sudo_EX\\Ann", "ann.", "\u0430nn", "@x")


@pytest.mark.parametrize("alias", ALIASES)
def test_a_person_under_another_name_is_the_same(states: States, alias: str) -> None:
    """And a name that is not plain decides nothing."""
    staged(states)
    states.set("front", "foo", "latest")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "erson" in states.by(alias).refused("approve", request=number)
    assert packages(states, "web") == {}


def test_nobody_blocks_no_state(states: States) -> None:
    """Who is not authenticated asks for nothing and rejects nothing; whoever asks has a request of their own."""
    staged(states)
    states.by("UNKNOWN").do("set", name="front", package="foo", wanted="latest")
    states.by("ann").do("set", name="front", package="bar", wanted="latest")
    states.do("promote", name="front", stage="test")
    assert "whom Salt has authenticated" in states.by("UNKNOWN").refused("promote", name="front", stage="prod")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "authors of what is new" in states.by("bob").refused("approve", request=number)
    for nobody in ("UNKNOWN", "Reactor"):
        assert "erson" in states.by(nobody).refused("reject", request=number)
    # somebody takes it as theirs, from nothing on
    states.do("rollback", name="front", revision=0)
    states.do("rollback", name="front", revision=2)
    states.do("promote", name="front", stage="test")
    # another one asks first, and the author too
    first = states.by("bob").do("promote", name="front", stage="prod")["request"]
    mine = states.do("promote", name="front", stage="prod")["request"]
    assert mine not in {number, first}
    states.by("bob").do("approve", request=mine)
    assert set(packages(states, "web")) == {"foo", "bar"}
