"""The page of the simulated minions, followed as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.docs_checkout import Checkout
from tests.live.helpers.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(1200)]


def test_simulated_minions(root: Path, tmp_path: Path) -> None:
    """What a reader types does what the page says."""
    follow(root / "docs" / "simulated-minions.md", Checkout(root, tmp_path))
