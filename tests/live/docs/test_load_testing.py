"""The pages about load testing, followed as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.docs_checkout import Checkout
from tests.live.helpers.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(2400)]


def test_load_testing(root: Path, tmp_path: Path) -> None:
    """What a reader types does what the page says: the first scenario misses its limit, and the exit code tells."""
    checkout = Checkout(root, tmp_path)
    follow(root / "docs" / "load-testing.md", checkout)
    follow(root / "docs" / "load-reference.md", checkout)
