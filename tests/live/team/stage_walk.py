"""The way of a state through the stages dev, test and prod."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.live.package_states import States

STAGES = ["dev", "test", "prod"]


def packages(states: States, minion: str) -> dict[str, str]:
    """Return what is wanted of a minion, after a check that its file says so."""
    found = states.do("verdicts", minion=minion)
    assert found["current"] is True
    return {key: row["wanted"] for key, row in found["packages"].items()}


def staged(states: States) -> None:
    """Have stages; the state front follows dev for the minion db, and prod for the group b."""
    assert states.do("stages", wanted="dev,test,prod") == STAGES
    states.do("create", name="front")
    states.do("assign", name="front", kind="minion", target="db")
    asked = states.do("assign", name="front", kind="group", target="b", stage="prod", comment="the real ones")
    states.by("bob").do("approve", request=asked["request"])


def in_prod(states: States, name: str = "front") -> None:
    """Let the newest revision of a state come into prod."""
    states.do("promote", name=name, stage="test")
    states.by("bob").do("approve", request=states.do("promote", name=name, stage="prod")["request"])
