"""docs/package-detection.md, followed word by word on a machine of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.apt_repository import Package
from tests.live.helpers.docs_machine import docs_machine
from tests.live.helpers.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]


# what Debian 12 offers
DEBIAN = (Package("hello", "2.10-3"),)


def test_the_page_is_true(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever types what the page says sees what it shows."""
    with docs_machine(root, tmp_path_factory, DEBIAN) as machine:
        follow(root / "docs" / "package-detection.md", machine)
