"""Settings of a fleet for unit tests, from names without their groups."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from evil_minions.fleet.settings import FleetSettings, Looks, Master, Replies, Shares, Size, Start

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, minions: int, **values: Any) -> FleetSettings:
    """Return the settings of so many minions; `values` are fields of the settings or of any of their groups."""
    given: dict[str, Any] = {"name": "m", "address": "127.0.0.1", "minions": minions, "folder": folder, **values}

    def group(kind: Any) -> Any:
        return kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given})

    return FleetSettings(
        master=group(Master),
        size=group(Size),
        start=group(Start),
        looks=group(Looks),
        replies=group(Replies),
        shares=group(Shares),
        **given,
    )
