"""Hostile arguments of all functions of a team."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.team.stage_walk import staged

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]

HOSTILE = (
    "'; DROP TABLE package_states.stage; --",
    "%s",
    "%(x)s",
    "{{ 1 }}",
    "{% raw %}",
    "$(id)",
    "`id`",
    "a\nb",
    "../x",
    "/etc/passwd\0",
    "x\0",
    "\u202e",
    "\ud800",
    "x" * 70000,
    "-1",
    "1e3",
    "9" * 40,
    "--help",
    "*",
    "&a",
    "!!python/object:x",
    "",
)


def test_hostile_arguments_reach_no_table(states: States) -> None:
    """Each argument of each function is refused with one sentence, or does nothing; what is free text stays text."""
    staged(states)
    states.do("set", name="front", package="foo", wanted="latest")
    tables = "SELECT (SELECT count(*) FROM package_states.{}) || ''"
    names = ("stage", "promotion", "request", "decision", "assignment", "revision", "state", "generation")
    front: dict[str, object] = {"name": "front"}

    def counts() -> list[object]:
        return [states.database.run(tables.format(name)) for name in names]

    before, files = counts(), states.files()
    for text in (*HOSTILE, None, 1.5, True, ["x"], {"x": "y"}):
        calls: tuple[tuple[str, dict[str, object]], ...] = (
            ("stages", {"wanted": [text, "prod"]}),
            ("promote", {**front, "stage": text}),
            ("promote", {**front, "stage": "test", "revision": text if text is not None else "x"}),
            ("promote", {"name": text, "stage": "test"}),
            ("approve", {"request": text}),
            ("reject", {"request": text}),
            ("rollback", {**front, "revision": text, "stage": "test"}),
            ("restore", {"minion": "web", "generation": text}),
            ("restore", {"minion": "web", "day": text}),
            ("restore", {"minion": text, "generation": 1}),
            ("generations", {"minion": text}),
            ("promotion_history", {"name": text}),
            ("show", {**front, "stage": text if text is not None else "x"}),
            ("assign", {**front, "kind": "group", "target": "a", "stage": text if text is not None else "x"}),
            ("apply", {"text": text if text is not None else 5}),
            ("apply", {"path": text}),
        )
        for function, arguments in calls:
            # these are names of stages, or say that a stage stays as it is
            if function == "stages" and str(text) in {"1e3", "9" * 40}:
                continue
            if (function, arguments.get("stage")) == ("assign", ""):
                continue
            error = states.refused(function, **arguments)
            assert "\n" not in error, (function, arguments)
            assert len(error) < 1000, (function, arguments)
    assert (counts(), states.files()) == (before, files)
    free = "'; DROP TABLE x; -- {{ 1 }} %s \u00e9"
    states.do("promote", name="front", stage="test", comment=free, author=free)
    found = states.do("promotion_history", name="front")["promotions"][-1]
    assert (found["comment"], found["author"]) == (free, f"ann for {free}")
