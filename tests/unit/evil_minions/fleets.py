"""Settings of a fleet for unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evil_minions.fleet.settings import FleetSettings

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, minions: int, **values: Any) -> FleetSettings:
    """Return the settings of so many minions; `values` are other fields."""
    return FleetSettings(values.pop("master", "m"), values.pop("address", "127.0.0.1"), minions, folder, **values)
