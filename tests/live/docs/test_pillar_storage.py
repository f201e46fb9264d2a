"""The pages about pillars in PostgreSQL, followed word by word on machines of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.docs_machine import docs_machine
from tests.live.helpers.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]


def test_any_table(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each command prints what the page about `ext_pillar: postgres` shows."""
    with docs_machine(root, tmp_path_factory) as machine:
        follow(root / "docs" / "pillar-storage.md", machine)


def test_one_table_and_files_of_uyuni(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each command prints what the pages about the table and about Uyuni show."""
    with docs_machine(root, tmp_path_factory) as machine:
        follow(root / "docs" / "pillar-table.md", machine, until="How to turn it off")
        follow(root / "docs" / "uyuni.md", machine)
        follow(root / "docs" / "pillar-table.md", machine, since="How to turn it off")
