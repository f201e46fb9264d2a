"""Where the project's own folders are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout, which holds the packages `harness` and `evil_minions`."""

TREES = {"stock": ROOT / "build" / "stock", "patched": ROOT / "salt"}
"""The two trees of Salt that `nox -s apply` makes, by the names that commands and results have for them."""
