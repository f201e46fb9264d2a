"""The page of the queries, followed as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.docs_machine import docs_machine
from tests.live.helpers.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(1200)]


def test_query(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a reader types does what the page says, and nothing of it is left at the end."""
    with docs_machine(root, tmp_path_factory) as machine:
        follow(root / "docs" / "query.md", machine)
        follow(root / "docs" / "query-programs.md", machine)
