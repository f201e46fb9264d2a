"""The pages about package states, followed one after the other on one machine."""

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
DEBIAN = (Package("nginx", "1.22.1-9+deb12u3", conffile=True), Package("nmap", "7.93+dfsg1-1"))


def test_the_pages_are_true(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each command prints what the pages show."""
    with docs_machine(root, tmp_path_factory, DEBIAN) as machine:
        follow(root / "docs" / "package-states.md", machine, until="How to turn it off")
        follow(root / "docs" / "package-commands.md", machine)
        follow(root / "docs" / "package-states.md", machine, since="How to turn it off")
