"""The table of a scenario's keys in the documentation is the one of the code."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from evil_minions import Table
from harness.scenarios import fleet, scenario, timeline

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

START = "<!-- tested: scenario-keys -->"
NONE = "\N{EN DASH}"
NEEDED: dict[str, dict[str, Any]] = {
    "scale": {"minions": 3},
    "behaviour": {"behaviour": "silent"},
    "network": {"rtt_ms": 5.0},
}


def _rows(root: Path) -> dict[str, str]:
    """Return the documented default of each key."""
    lines = (root / "docs" / "load-reference.md").read_text(encoding="utf-8").partition(START)[2].strip().splitlines()
    table = lines[2 : lines.index("")]
    return {key.strip("`"): default for key, default in (map(str.strip, line.split("|")[1:3]) for line in table)}


def _values() -> dict[str, Any]:
    """Return a scenario that has every table."""
    return {
        "description": "all tables",
        "minions": 3,
        "trees": {"stock": {"master": {}}},
        "clients": [
            {
                "kind": "api",
                "function": "test.ping",
                "tgt": "*",
                "rate": 1.0,
                "duration_s": 5.0,
                "batch": 3,
                "user": "ops",
            },
        ],
        "users": {"ops": {"count": 2, "permissions": ["test.*"]}},
        "timeline": [{"at_s": 1.0, "do": do, **NEEDED.get(do, {})} for do in timeline.OPTIONS],
        "thresholds": {"returns_lost": {"max": 0}},
        "fleet": {"network": [{"rtt_ms": 5.0, "tgt": "*"}]},
    }


def _general(path: str) -> str:
    """Return the path of a table as the documentation writes it, with a dot behind it."""
    path = re.sub(r"\[\d+\]", "", path)
    path = re.sub(r"^(thresholds)\..*", r"\1.FIELD", path)
    path = re.sub(r"^(trees)\.\w+", r"\1.TREE", path)
    path = re.sub(r"^(users)\.\w+", r"\1.GROUP", path)
    return f"{path}." if path else ""


def test_every_key_is_documented(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key that the code allows is in the table, and none that it does not."""
    known: set[str] = set()
    allow = Table.allow

    def noted(table: Table, *keys: str) -> Table:
        known.update(f"{_general(table.path)}{'TREE' if table.path == 'trees' else key}" for key in keys)
        return allow(table, *keys)

    monkeypatch.setattr(Table, "allow", noted)
    scenario._scenario(Table(_values(), "all.toml"), "all")
    documented = _rows(root)
    tables = {key for key in known if any(other.startswith(f"{key}.") for other in known)}
    # docs/zoo.md has that of the zoo
    assert known - tables - {"bug"} == documented.keys()
    assert {f"fleet.{key}" for key in fleet.OPTIONS} - tables <= documented.keys()


def test_documented_defaults_are_those_of_the_code(root: Path) -> None:
    """Giving a key its documented default changes nothing."""
    plain = _values()
    plain["timeline"][2]["tgt"] = "*"
    expected = scenario._scenario(Table(plain, "all.toml"), "all")
    checked = 0
    for key, default in _rows(root).items():
        if default == NONE:
            continue
        values = _values()
        values["timeline"][2]["tgt"] = "*"
        table, _, name = (
            key.replace("TREE", "stock").replace("GROUP", "ops").replace("FIELD", "returns_lost").rpartition(".")
        )
        place: Any = values
        for part in filter(None, table.split(".")):
            place = place[part]
        if table == "timeline":
            place = place[2]
        elif isinstance(place, list):
            place = place[0]
        place[name] = tomllib.loads(f"value = {default.strip('`')}")["value"]
        assert scenario._scenario(Table(values, "all.toml"), "all") == expected, key
        checked += 1
    assert checked > 15
